"""Raw Python under confinement alone, as if a guest had taken its interpreter over: what can it still reach?

Each attempt runs in a process of its own, once in the open and once behind each kind of confinement. In the open it
must succeed (where that is harmless), or else its failure behind the wall would prove nothing.
"""

import _ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cloister.engines.confinement import discard_launcher, libraries, probe, write_launcher
from tests.engines.confinement import child

PYTHON = Path(sys.executable).resolve()


@pytest.fixture(scope="module", autouse=True)
def every_layer() -> None:
    """Skips only where the machine itself lacks a layer: one that we fail to put on must not hide its own tests."""
    if not child.machine_offers_every_layer():
        pytest.skip("this machine lacks a layer, see `cloister doctor`")
    for report in probe(foreign=PYTHON).values():
        assert report.complete, report.layers


@dataclass(frozen=True, slots=True)
class Attempt:
    """`code` is the escape. `harmless`: it may be tried in the open. `kinds`: the workers that must not manage it."""

    code: str
    harmless: bool = True
    kinds: tuple[str, ...] = ("own", "foreign")


ATTEMPTS = {
    # Files. HERE is the directory that the worker was started in, with a file `victim` in it.
    "read the list of users": Attempt("open('/etc/passwd').read()"),
    "read the environment of its host": Attempt("open(f'/proc/{os.getppid()}/environ', 'rb').read()"),
    "read the environment of the first process": Attempt("open('/proc/1/environ', 'rb').read()", harmless=False),
    "read its own memory map": Attempt("open('/proc/self/maps').read()"),
    "write its own memory": Attempt("open('/proc/self/mem', 'r+b')"),
    "open a descriptor of its own once more": Attempt("open('/proc/self/fd/1', 'wb')"),
    "open a descriptor of its host": Attempt("os.open(f'/proc/{os.getppid()}/fd/0', os.O_RDONLY | os.O_NONBLOCK)"),
    "point at a file without opening it": Attempt("os.open('/etc/passwd', os.O_PATH)"),
    "open a device": Attempt("open('/dev/null', 'rb')"),
    "read a file where it was started": Attempt("open('HERE/victim').read()"),
    "list the root directory": Attempt("os.listdir('/')"),
    "list where it was started": Attempt("os.listdir('HERE')"),
    "list where it is": Attempt("os.listdir('.')"),
    "write a file where it was started": Attempt("open('HERE/new', 'w')"),
    "write a file in /tmp": Attempt("fd = os.open('/tmp', os.O_TMPFILE | os.O_WRONLY); os.write(fd, b'x')"),
    "create a file in /tmp": Attempt("open('/tmp/cloister-escape-%d' % os.getpid(), 'x')", harmless=False),
    "empty a file": Attempt("os.truncate('HERE/victim', 0)"),
    "delete a file": Attempt("os.unlink('HERE/victim')"),
    "rename a file": Attempt("os.rename('HERE/victim', 'HERE/renamed')"),
    "make a directory": Attempt("os.mkdir('HERE/new')"),
    "make a symbolic link": Attempt("os.symlink('/etc/passwd', 'HERE/new')"),
    "make a hard link": Attempt("os.link('HERE/victim', 'HERE/new')"),
    "make a fifo": Attempt("os.mkfifo('HERE/new')"),
    "make a file accessible to everybody": Attempt("os.chmod('HERE/victim', 0o777)"),
    "change the owner of a file": Attempt("os.chown('HERE/victim', os.getuid(), os.getgid())"),
    "change the times of a file": Attempt("os.utime('HERE/victim')"),
    "set an attribute of a file": Attempt("os.setxattr('HERE/victim', 'user.x', b'x')", harmless=False),
    "walk elsewhere": Attempt("os.chdir('HERE')"),
    "change its root": Attempt("os.chroot('HERE')", harmless=os.getuid() == 0),
    "learn whether a file exists": Attempt("os.stat('/etc/passwd')", kinds=("own",)),
    "learn where it is": Attempt("os.getcwd()", kinds=("own",)),
    "keep a file in memory": Attempt("os.memfd_create('x')"),
    # The network.
    "open a TCP socket": Attempt("socket.socket(socket.AF_INET, socket.SOCK_STREAM)"),
    "open a UDP socket": Attempt("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"),
    "open an IPv6 socket": Attempt("socket.socket(socket.AF_INET6, socket.SOCK_STREAM)", harmless=False),
    "open a unix socket": Attempt("socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)"),
    "open a netlink socket": Attempt("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
    "open a packet socket": Attempt("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", harmless=os.getuid() == 0),
    "open a pair of sockets": Attempt("socket.socketpair()"),
    "serve on a port": Attempt("socket.create_server(('127.0.0.1', 0))"),
    # Other processes.
    "fork": Attempt("os.fork() or os._exit(0)"),
    "start a program": Attempt("os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)"),
    "run a command": Attempt("subprocess.run(['/bin/true'], check=True)"),
    "become a shell": Attempt("os.execv('/bin/sh', ['sh', '-c', 'echo escaped'])"),
    "start a thread": Attempt("_thread.start_new_thread(int, ())", kinds=("own",)),
    "signal its host": Attempt("os.kill(os.getppid(), 0)"),
    "signal its group": Attempt("os.killpg(0, 0)"),
    "signal a thread of its host": Attempt("call('tgkill', os.getppid(), os.getppid(), 0)"),
    "aim a descriptor's signals at its host": Attempt("fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())"),
    "get hold of its host": Attempt("os.pidfd_open(os.getppid())"),
    "be traced": Attempt("call('ptrace', 0, 0, 0, 0)"),
    "trace its host": Attempt("call('ptrace', 0x4206, os.getppid(), 0, 0)", harmless=False),
    "read the memory of its host": Attempt("call('process_vm_readv', os.getppid(), 0, 0, 0, 0, 0)"),
    "give its host another priority": Attempt("os.setpriority(os.PRIO_PROCESS, os.getppid(), 0)"),
    "change the limits of its host": Attempt("resource.prlimit(os.getppid(), resource.RLIMIT_CORE)"),
    # Its own standing.
    "raise its limit of open files": Attempt(
        "resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)"
    ),
    "raise its limit of memory": Attempt("resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40))"),
    "change its user": Attempt("os.setuid(os.getuid())"),
    "drop its groups": Attempt("os.setgroups([])", harmless=os.getuid() == 0),
    "make itself traceable": Attempt("call('prctl', 4, 1, 0, 0, 0)"),
    "start a session": Attempt("os.getpgrp() == os.getpid() or os.setsid(); os.setpgid(0, 0)", harmless=False),
    "enter a user namespace": Attempt("call('unshare', 0x10000000)"),
    "enter a mount namespace": Attempt("call('unshare', 0x00020000)", harmless=os.getuid() == 0),
    "join the namespaces of its host": Attempt("call('setns', 1, 0)", harmless=False),
    "mount a file system": Attempt("call('mount', 0, 0, 0, 0, 0)", harmless=False),
    "load a program into the kernel": Attempt("call('bpf', 0, 0, 0)", harmless=False),
    "use a ring of system calls": Attempt("call('io_uring_setup', 1, 0)", harmless=False),
    "add a key": Attempt("call('add_key', 0, 0, 0, 0, 0)", harmless=False),
    "handle page faults": Attempt("call('userfaultfd', 0)", harmless=False),
    "watch performance events": Attempt("call('perf_event_open', 0, 0, 0, 0, 0)", harmless=False),
    "share memory by key": Attempt("call('shmget', 0, 4096, 0o600)", harmless=False),
    "send a message by key": Attempt("call('msgget', 0, 0o600)", harmless=False),
    "open a message queue": Attempt("call('mq_open', 0, 0, 0, 0)", harmless=False),
    "install a filter of its own": Attempt("call('seccomp', 1, 0, 0)", harmless=False),
    "name the machine": Attempt("socket.sethostname('x')", harmless=False),
    "set the clock": Attempt("time.clock_settime(time.CLOCK_REALTIME, 0)", harmless=False),
    "learn the name of the machine": Attempt("os.uname()"),
    "ask for a call by its x32 number": Attempt("call('x32_getpid')", harmless=False),
}

_X86 = {
    "tgkill": 234, "ptrace": 101, "process_vm_readv": 310, "prctl": 157, "unshare": 272, "setns": 308, "mount": 165,
    "bpf": 321, "io_uring_setup": 425, "add_key": 248, "userfaultfd": 323, "perf_event_open": 298, "shmget": 29,
    "msgget": 68, "mq_open": 240, "seccomp": 317, "x32_getpid": 0x40000000 | 39,
}  # fmt: skip
_ARM = {
    "tgkill": 131, "ptrace": 117, "process_vm_readv": 270, "prctl": 167, "unshare": 97, "setns": 268, "mount": 40,
    "bpf": 280, "io_uring_setup": 425, "add_key": 217, "userfaultfd": 282, "perf_event_open": 241, "shmget": 194,
    "msgget": 186, "mq_open": 180, "seccomp": 277, "x32_getpid": 0x40000000 | 172,
}  # fmt: skip
NUMBERS = _ARM if os.uname().machine == "aarch64" else _X86

PRELUDE = f"""
import _thread, ctypes, fcntl, os, resource, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = libc.syscall(ctypes.c_long({NUMBERS!r}[name]), *map(ctypes.c_long, arguments))
    if result < 0: raise OSError(ctypes.get_errno(), name)
"""
SEAL = f"""{child.PRELUDE}
from cloister.engines.confinement import seal
assert seal(data_bytes=1 << 30, die_with_parent=False).complete
"""
# A refusal is EPERM or EACCES (or ENOSYS, where a fallback is wanted). Anything else says that the attempt is broken.
TRY = """
try:
    CODE
except OSError as error:
    print('refused' if error.errno in (1, 13, 38) else repr(error), flush=True)
except (ValueError, RuntimeError) as error:  # how resource and _thread report a refusal
    print('refused' if 'limit' in str(error) or 'start' in str(error) else repr(error), flush=True)
else:
    print('escaped', flush=True)
"""


def outcome(command: list[str], program: str, here: Path) -> str:
    done = subprocess.run([*command, "-c", program], cwd=here, stdin=subprocess.PIPE, capture_output=True, timeout=30)
    said = done.stdout.decode().strip()
    return said or f"ended with {done.returncode}: {done.stderr.decode()[-500:]}"


def attempted(name: str, here: Path) -> str:
    return TRY.replace("CODE", ATTEMPTS[name].code.replace("HERE", str(here)))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_text("precious")
    return tmp_path


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Python itself as the foreign binary; it gets its standard library to read, and what ctypes is linked with."""
    loader = libraries.interpreter(PYTHON)
    assert loader is not None
    readable = [Path(os.__file__).parent, *libraries.linked(Path(_ctypes.__file__), loader)]
    path = write_launcher(tmp_path_factory.mktemp("launcher"), PYTHON, required=True, readable=readable)
    yield path
    discard_launcher(path)


@pytest.mark.parametrize("name", [name for name, attempt in ATTEMPTS.items() if attempt.harmless])
def test_in_the_open_the_attempt_succeeds(name: str, here: Path) -> None:
    assert outcome([str(PYTHON), "-I", "-S"], PRELUDE + attempted(name, here), here) == "escaped"


@pytest.mark.parametrize("name", [name for name, attempt in ATTEMPTS.items() if "own" in attempt.kinds])
def test_sealed_worker_cannot(name: str, here: Path) -> None:
    assert outcome([str(PYTHON), "-I", "-S"], PRELUDE + SEAL + attempted(name, here), here) == "refused"
    assert (here / "victim").read_text() == "precious"
    assert [path.name for path in here.iterdir()] == ["victim"]


@pytest.mark.parametrize("name", [name for name, attempt in ATTEMPTS.items() if "foreign" in attempt.kinds])
def test_launched_worker_cannot(name: str, here: Path, launcher: Path) -> None:
    assert outcome([str(launcher), "-I", "-S"], PRELUDE + attempted(name, here), here) == "refused"
    assert (here / "victim").read_text() == "precious"
    assert [path.name for path in here.iterdir()] == ["victim"]


def test_launched_worker_that_executes_itself_again_is_still_confined(here: Path, launcher: Path) -> None:
    command = [str(PYTHON), "-I", "-S", "-c", PRELUDE + attempted("read the list of users", here)]
    again = f"import os; os.execv({str(PYTHON)!r}, {command!r})"
    assert outcome([str(launcher), "-I", "-S"], again, here) == "refused"


def test_launched_worker_cannot_run_another_program_through_the_loader(here: Path, launcher: Path) -> None:
    loader = libraries.interpreter(PYTHON)
    through = f"import os; os.execv({str(loader)!r}, ['ld', '/bin/echo', 'escaped'])"
    said = outcome([str(launcher), "-I", "-S"], through, here)
    assert said.startswith("ended with 127"), said
    assert "escaped" not in said


def test_worker_that_was_given_no_files_learns_nothing_about_any(tmp_path: Path) -> None:
    launcher = write_launcher(tmp_path, Path("/bin/ls").resolve(), required=True)
    there = subprocess.run([launcher, "-d", "/etc/passwd"], capture_output=True)
    nowhere = subprocess.run([launcher, "-d", "/etc/no-such-file"], capture_output=True)
    discard_launcher(launcher)
    assert there.stdout == b""
    assert there.returncode != 0
    assert (there.returncode, there.stdout, there.stderr) == (nowhere.returncode, nowhere.stdout, nowhere.stderr)
