"""No secret of the host is in a worker: not in its environment, not on its command line, not behind a descriptor.

Each worker is looked at from outside while it holds a program in the middle of a call, the moment at which a host
that leaks would have leaked.
"""

import asyncio
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cloister import Cloister, tool
from tests.security.watch import descendants

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc to look at"),
]

# In the host's memory for as long as the tests run; and, as text, in its environment.
CANARY = b"canary-" + secrets.token_hex(24).encode()
NAME = "CLOISTER_TEST_CANARY"
# What a descriptor of a worker may lead to.
HARMLESS = re.compile(r"pipe:\[\d+\]|socket:\[\d+\]|anon_inode:.*|/dev/null")
PROGRAMS = {"python": "await ask()\n1", "typescript": "await ask();\n1"}


@dataclass
class Visit:
    """Sessions that wait in a call, and the processes they wait in."""

    asked: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    answer: asyncio.Event = field(default_factory=asyncio.Event)
    workers: list[int] = field(default_factory=list[int])


@pytest.fixture(scope="module", params=["python", "typescript"])
async def visit(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Visit]:
    """Workers of one language, each suspended in a tool call. The canary is set before any engine starts."""
    visit = Visit()
    before = set(descendants())
    os.environ[NAME] = CANARY.decode()

    @tool
    async def ask() -> None:
        visit.asked.release()
        await visit.answer.wait()

    try:
        async with Cloister(tools=[ask], workers=2, snapshot_key=b"k" * 32) as cloister:
            sessions = [await cloister.open_session(name, language=request.param) for name in ("one", "two")]
            runs = [asyncio.create_task(session.run(PROGRAMS[request.param])) for session in sessions]
            async with asyncio.timeout(60):
                for _ in runs:
                    await visit.asked.acquire()
            visit.workers = [pid for pid in descendants() if pid not in before]
            yield visit
            visit.answer.set()
            for run in runs:
                assert (await run).result == 1
    finally:
        del os.environ[NAME]


def _read(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


async def test_there_are_workers_to_look_at(visit: Visit) -> None:
    assert len(visit.workers) >= 2


async def test_child_of_the_host_would_hold_the_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests below would find nothing wherever they looked."""
    monkeypatch.setenv(NAME, CANARY.decode())
    child = await asyncio.create_subprocess_exec("/bin/cat", "/proc/self/environ", stdout=asyncio.subprocess.PIPE)
    told, _ = await child.communicate()
    assert CANARY in told


async def test_environment_of_a_worker_is_empty(visit: Visit) -> None:
    assert {pid: _read(pid, "environ") for pid in visit.workers} == {pid: b"" for pid in visit.workers}


async def test_command_line_of_a_worker_names_no_secret(visit: Visit) -> None:
    for pid in visit.workers:
        line = _read(pid, "cmdline")
        assert line
        assert CANARY not in line


async def test_descriptors_of_a_worker_lead_to_no_file(visit: Visit) -> None:
    for pid in visit.workers:
        links = {fd: os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        assert not [
            f"{fd} -> {link}" for fd, link in links.items() if not HARMLESS.fullmatch(link) and not _lifeline(fd)
        ]


def _lifeline(fd: Path) -> bool:
    """Whether it is the FIFO by which a worker learns that its host is gone: named, and open for reading only."""
    flags = re.search(r"flags:\s+(\d+)", Path(str(fd).replace("/fd/", "/fdinfo/")).read_text())
    assert flags is not None
    return stat.S_ISFIFO(fd.stat().st_mode) and int(flags[1], 8) & os.O_ACCMODE == os.O_RDONLY


async def test_descriptors_of_a_worker_are_not_those_of_another(visit: Visit) -> None:
    """A pipe or socket that two workers share lets one listen to, or speak for, the other."""
    seen: dict[str, int] = {}
    for pid in visit.workers:
        links = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if int(fd.name) != 2}
        for link in links:
            if link.startswith(("pipe:", "socket:")):
                assert link not in seen, f"{link} is held by {seen[link]} and {pid}"
                seen[link] = pid


async def test_memory_map_of_a_worker_names_no_file_of_the_host(visit: Visit) -> None:
    """Code and libraries are mapped; a file of the working directory or of the user is not."""
    home = str(Path.home()) if Path.home() != Path("/") else "/nonexistent"
    for pid in visit.workers:
        rows = [line.split(None, 5) for line in _read(pid, "maps").decode().splitlines()]
        mapped = {row[5] for row in rows if len(row) > 5}
        assert mapped
        assert not [path for path in mapped if path.startswith((f"{home}/.ssh", "/etc/", "/var/", "/dev/"))]


async def test_working_directory_of_a_worker_is_nobodys(visit: Visit) -> None:
    for pid in visit.workers:
        assert os.readlink(f"/proc/{pid}/cwd") != os.getcwd()
