#!/usr/bin/env python3
"""Make .venv ready: the packages of requirements.lock, then cloister itself, editable.

Started by `make setup` and by every target that needs .venv, so the common case (nothing to do) must be quick:
one stamp file is read and compared. The stamp is removed before the first change and written after the last, so a
.venv without a stamp was cut off in the middle and is built again from nothing.

Standard library only. It must start under any Python 3.7 or newer, to look for one that is new enough.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO, Generator, Iterable, NoReturn, Sequence

OLDEST = (3, 11)
CANDIDATES = ("python3.11", "python3.12", "python3.13", "python3.14")

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".cloister-setup"
LOCK = ROOT / "requirements.lock"
INPUTS = (LOCK, ROOT / "pyproject.toml", Path(__file__).resolve())

# A line of pip that names the package it has come to.
PACKAGE = re.compile(
    r"\s*(?:Collecting (?P<wanted>[\w.-]+)|Requirement already satisfied: (?P<there>[\w.-]+)"
    r"|Processing \S*/(?P<wheel>[\w.]+)-[^/]+\.whl)"
)
DOWNLOAD = re.compile(r"\s*Downloading \S+ \((?P<size>[\d.]+ [kMG]B)\)")
# Warnings about the user's own pip configuration; nothing to act on here.
NOISE = re.compile(r"WARNING: (Location .* is ignored|Running pip as the 'root' user)|\[notice\]")


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


def main() -> int:
    try:
        with one_at_a_time() as turn:
            if is_ready():
                return 0
            uv = shutil.which("uv")
            ensure_suitable_python(has_uv=uv is not None)
            # pip inherits the lock: if this process is killed and pip goes on, the next set-up waits for it.
            os.set_inheritable(turn.fileno(), True)
            started = time.monotonic()
            build(uv)
            say(f"setup: .venv is ready ({time.monotonic() - started:.0f} s)")
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: cut off; the next `make setup` starts again from nothing", file=sys.stderr)
        return 130
    return 0


@contextlib.contextmanager
def one_at_a_time() -> Generator[BinaryIO, None, None]:
    """Two `make` in two terminals must not build the same .venv; the second waits here."""
    with LOCK.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("setup: another set-up is at work; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle


def fingerprint() -> str:
    """What .venv was made from. The path counts: a virtual environment that was moved or copied does not work."""
    digest = hashlib.sha256(os.fsencode(ROOT))
    for path in INPUTS:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{ROOT}\n{digest.hexdigest()}\n"


def read_stamp() -> str | None:
    try:
        return STAMP.read_text(encoding="utf-8")
    except OSError:
        return None


def is_ready() -> bool:
    return VENV_PYTHON.exists() and read_stamp() == fingerprint()


# --- the interpreter ---------------------------------------------------------------------------------------------


def ensure_suitable_python(*, has_uv: bool) -> None:
    """Return if this Python will do; otherwise start again under one that does, or say what is missing."""
    problem = problem_with(sys.executable, has_uv=has_uv)
    if problem is None:
        return
    found = [f"{sys.executable}: {problem}"]
    for name in CANDIDATES:
        path = shutil.which(name)
        if path is None:
            continue
        problem = problem_with(path, has_uv=has_uv)
        if problem is None:
            restart_under(path)
        found.append(f"{path}: {problem}")
    raise SetupError(
        "Python 3.11 or newer with the venv module is needed. Tried:\n  "
        + "\n  ".join(found)
        + "\nInstall one (on Debian and Ubuntu: apt install python3 python3-venv), "
        + "or name one: make setup PYTHON=/path/to/python"
    )


def problem_with(python: str, *, has_uv: bool) -> str | None:
    # Run it: a file of that name may be a version manager's shim with nothing behind it.
    probe = "import sys; print('%d.%d' % sys.version_info[:2]); import venv, ensurepip"
    result = subprocess.run([python, "-c", probe], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    version = result.stdout.decode().strip()
    if not version:
        return "does not start"
    if tuple(int(part) for part in version.split(".")) < OLDEST:
        return f"is Python {version}"
    if result.returncode != 0 and not has_uv:
        return f"is Python {version}, but its venv or ensurepip module is missing"
    return None


def restart_under(python: str) -> NoReturn:
    os.execv(python, [python, *sys.argv])


# --- building ----------------------------------------------------------------------------------------------------


def build(uv: str | None) -> None:
    stamp = read_stamp()
    same_place = stamp is not None and stamp.startswith(f"{ROOT}\n")
    reusable = same_place and VENV_PYTHON.exists() and (uv is not None or (VENV / "bin" / "pip").exists())
    if VENV.exists() and not reusable:
        say("setup: .venv is incomplete or was made elsewhere; building it again")
    with contextlib.suppress(FileNotFoundError):
        STAMP.unlink()
    if uv is not None:
        try:
            build_with_uv(uv, reusable=reusable)
        except subprocess.CalledProcessError:
            # uv does not read pip's configuration, so a mirror that pip knows may be unknown to it.
            say("setup: uv failed; trying with pip")
            build_with_pip(reusable=False)
    else:
        build_with_pip(reusable=reusable)
    STAMP.write_text(fingerprint(), encoding="utf-8")


def build_with_uv(uv: str, *, reusable: bool) -> None:
    say("setup: installing with uv")
    if not reusable:
        discard_venv()
        run_uv([uv, "venv", "--python", sys.executable, str(VENV)])
    install = [uv, "pip", "install", "--python", str(VENV_PYTHON), "--no-deps"]
    run_uv([*install, "-r", str(LOCK)])
    run_uv([*install, "--no-build-isolation", "-e", str(ROOT)])


def run_uv(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, cwd=str(ROOT), close_fds=False)


def build_with_pip(*, reusable: bool) -> None:
    if not reusable:
        say("setup: making .venv with Python {}.{}.{}".format(*sys.version_info[:3]))
        discard_venv()
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False)
        if made.returncode != 0:
            raise SetupError(f"`{sys.executable} -m venv` failed; its message is above")
    total = sum(1 for line in LOCK.read_text(encoding="utf-8").splitlines() if "==" in line)
    pip_install(["--no-deps", "--no-compile", "-r", str(LOCK)], Progress(total))
    # The build backend is in the lock, so nothing is fetched here.
    pip_install(["--no-deps", "--no-build-isolation", "--no-index", "-e", str(ROOT)], Progress(1))


def discard_venv() -> None:
    if VENV.is_symlink():
        VENV.unlink()
    elif VENV.exists():
        shutil.rmtree(VENV)


def pip_install(arguments: Sequence[str], progress: Progress) -> None:
    """Run pip, turning its output into progress. All of it is shown if it fails."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_USER": "0"}
    for name in ("PYTHONHOME", "PYTHONPATH", "PIP_QUIET", "PIP_VERBOSE", "PIP_TARGET", "PIP_PREFIX"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [str(VENV_PYTHON), "-m", "pip", "install", "--progress-bar", "off", *arguments],
        cwd=str(ROOT),
        env=environment,
        close_fds=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=pump, args=(process.stdout, lines), daemon=True)
    reader.start()
    output: list[str] = []
    try:
        while True:
            try:
                line = lines.get(timeout=0.5)
            except queue.Empty:
                progress.tick()
                continue
            if line is None:
                break
            if not NOISE.match(line):
                output.append(line)
                progress.read(line)
    except BaseException:
        process.kill()
        raise
    finally:
        process.wait()
        progress.end()
    if process.returncode != 0:
        shown = "\n  ".join(output[-40:])
        raise SetupError(f"pip failed:\n  {shown}\nRun `make setup` again once this is mended.")


def pump(stream: Iterable[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line.rstrip())
    lines.put(None)


# --- what the person at the terminal sees ------------------------------------------------------------------------


class Progress:
    """pip's output in short: one line that updates on a terminal, one line per package in a log."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.seen: set[str] = set()
        self.label = ""
        self.unpacking = False
        self.live = sys.stdout.isatty()
        self.started = time.monotonic()
        self.shown_at = self.started

    def read(self, line: str) -> None:
        package = PACKAGE.match(line)
        download = DOWNLOAD.match(line)
        if package is not None:
            name = str(package.group("wanted") or package.group("there") or package.group("wheel"))
            name = re.sub(r"[-_.]+", "-", name).lower()
            if name in self.seen:
                return
            self.seen.add(name)
            if package.group("there") is None:
                self.show(f"fetching {len(self.seen)}/{self.total} {name}")
            elif self.live:
                self.show(f"checking {len(self.seen)}/{self.total} {name}")
        elif download is not None and self.live:
            self.show(f"{self.label} ({download.group('size')})")
        elif line.startswith("Installing collected packages:"):
            self.unpacking = True
            self.show(self.unpacked())
        elif line.lstrip().startswith(("WARNING:", "ERROR:")):
            self.clear()
            say(f"  {line.strip()}")

    def tick(self) -> None:
        """Half a second without a word from pip: it is downloading or unpacking."""
        if self.unpacking and (self.live or time.monotonic() - self.shown_at > 3):
            self.show(self.unpacked())
        elif self.live and self.label:
            self.draw()

    def unpacked(self) -> str:
        if self.total == 1:
            return "installing cloister, editable"
        present = [path.name for path in VENV.glob("lib/python*/site-packages/*.dist-info")]
        ours = [name for name in present if not name.startswith(("pip-", "setuptools-", "cloister-"))]
        return f"unpacking {len(ours)}/{self.total}"

    def show(self, label: str) -> None:
        self.label = label
        self.shown_at = time.monotonic()
        if self.live:
            self.draw()
        else:
            say(f"  {label}")

    def draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        text = f"  {time.monotonic() - self.started:3.0f} s  {self.label}"
        sys.stdout.write("\r\x1b[K" + text[:width])
        sys.stdout.flush()

    def clear(self) -> None:
        if self.live:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()

    def end(self) -> None:
        self.clear()


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
