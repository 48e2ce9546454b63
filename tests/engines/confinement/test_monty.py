"""Monty's real pool over the launcher: everything that an engine asks of a worker works under confinement."""

import asyncio
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pydantic_monty
import pytest

from cloister.engines.confinement import discard_launcher, probe, write_launcher
from tests.engines.confinement.child import on_linux

BINARY = Path(sysconfig.get_path("scripts")) / "monty"

pytestmark = [
    on_linux,
    pytest.mark.skipif(not BINARY.exists(), reason="the monty binary is not installed"),
]


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    complete = probe(foreign=BINARY)["foreign"].complete
    path = write_launcher(tmp_path_factory.mktemp("launcher"), BINARY, required=complete)
    yield path
    discard_launcher(path)


@pytest.fixture(scope="module")
def pool(launcher: Path) -> Iterator[pydantic_monty.Monty]:
    with pydantic_monty.Monty(binary_path=launcher, max_processes=3) as pool:
        yield pool


@pytest.mark.parametrize(
    ("program", "result"),
    [
        ("sum(range(100_000))", 4_999_950_000),
        ("import re\nre.sub('a', 'b', 'banana')", "bbnbnb"),
        ("import json\njson.loads('[1, 2]')", [1, 2]),
        ("import datetime as d\nstr(d.datetime(2024, 1, 1, tzinfo=d.timezone(d.timedelta(hours=1))))",
         "2024-01-01 00:00:00+01:00"),
        ("import datetime as d\nd.datetime.now(d.timezone.utc).year >= 2024", True),
        ("import time\ntime.time() > 0", True),
        ("import random\n0 <= random.random() < 1", True),
        ("import hashlib\nhashlib.sha256(b'x').hexdigest()[:8]", "2d711642"),
        ("len([0] * 10_000_000)", 10_000_000),
    ],
)  # fmt: skip
def test_program_runs(pool: pydantic_monty.Monty, program: str, result: object) -> None:
    with pool.checkout() as session:
        assert session.feed_run(program) == result


def test_program_that_recurses_without_end_is_told_and_the_worker_lives(pool: pydantic_monty.Monty) -> None:
    with pool.checkout() as session:
        with pytest.raises(pydantic_monty.MontyRuntimeError, match="RecursionError"):
            session.feed_run("def f(n):\n    return f(n + 1)\nf(0)")
        assert session.feed_run("1 + 1") == 2


def test_types_are_checked(pool: pydantic_monty.Monty) -> None:
    with pool.checkout(type_check=True) as session:
        assert session.feed_run("x: int = 1\nx") == 1
        with pytest.raises(pydantic_monty.MontyTypingError, match="invalid-assignment"):
            session.feed_run("y: int = 'a'")


def test_session_is_dumped_and_loaded_in_another_worker(pool: pydantic_monty.Monty) -> None:
    with pool.checkout() as session, pool.checkout() as other:
        session.feed_run("x = [1, 2, 3]")
        assert session.worker_pid != other.worker_pid
        other.load_session(session.dump())
        assert other.feed_run("sum(x)") == 6


def test_call_out_is_dumped_and_answered_in_another_worker(pool: pydantic_monty.Monty) -> None:
    with pool.checkout() as session, pool.checkout() as other:
        asked = session.feed_start("fetch('a') + 1", external_lookup={"fetch": len})
        while isinstance(asked, pydantic_monty.NameLookupSnapshot):
            asked = asked.resume_auto()
        assert isinstance(asked, pydantic_monty.FunctionSnapshot)
        again = other.load_snapshot(asked.dump())
        assert isinstance(again, pydantic_monty.FunctionSnapshot)
        done = again.resume({"return_value": 41})
        assert isinstance(done, pydantic_monty.MontyComplete)
        assert done.output == 42


def test_memory_beyond_the_limit_ends_the_worker_and_not_the_pool(tmp_path: Path) -> None:
    small = write_launcher(tmp_path, BINARY, required=False, data_bytes=256 << 20)
    with pydantic_monty.Monty(binary_path=small) as pool:
        with pytest.raises(pydantic_monty.MontyError), pool.checkout() as session:
            session.feed_run("len([0] * 100_000_000)")
        with pool.checkout() as session:
            assert session.feed_run("1 + 1") == 2
    discard_launcher(small)


def test_worker_has_no_environment_and_no_descriptor_of_the_host(
    launcher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-secret")
    with pydantic_monty.Monty(binary_path=launcher) as pool, pool.checkout() as session:
        session.feed_run("1")
        process = Path(f"/proc/{session.worker_pid}")
        assert os.readlink(process / "exe") == str(BINARY.resolve())
        assert (process / "environ").read_bytes() == b""
        held = {path.name: os.readlink(path) for path in (process / "fd").iterdir()}
        beyond = [target for name, target in held.items() if int(name) > 2 and "anon_inode" not in target]
        assert beyond == [str(launcher.with_suffix(".lifeline"))]


def test_asynchronous_pool_runs_over_the_same_launcher(launcher: Path) -> None:
    async def run() -> object:
        async with pydantic_monty.AsyncMonty(binary_path=launcher) as pool, pool.checkout() as session:
            return await session.feed_run("6 * 7")

    assert asyncio.run(run()) == 42


def test_kernel_agrees_that_the_worker_is_confined(pool: pydantic_monty.Monty) -> None:
    if not probe(foreign=BINARY)["foreign"].complete:
        pytest.skip("a layer is missing on this machine")
    with pool.checkout() as session:
        session.feed_run("1")
        process = Path(f"/proc/{session.worker_pid}")
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        assert (status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16)) == ("1", "2", 0)
        assert os.readlink(process / "ns/net") != os.readlink("/proc/self/ns/net")
