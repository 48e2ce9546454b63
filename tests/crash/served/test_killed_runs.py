"""Programs that a client asks for by a key, at a server that is killed meanwhile: asked for again, they ran once."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from cloister.client import AsyncClient, Retry, ServerUnreachable
from cloister.core.cell import Completed, Observation
from cloister.core.errors import SessionExists
from cloister.core.run import RunResult
from tests.crash.parent import check_effects, unknown_in
from tests.crash.plans import SAFE_PY
from tests.crash.served.nursery import Nursery
from tests.crash.served.record import InFile, InServer, Place, read
from tests.crash.served.trial import PATIENCE_SECONDS, TOKEN, reserved
from tests.stores.pg_server import PgServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1200)]
CODE = SAFE_PY + "got = [await safe(pay, {n}), await safe(look, {n} + 1), await safe(pay, {n} + 2)]\nprint('paid')\ngot"
_WRITTEN = "session began suspended intent settlement ended read".split()
POINTS = [
    *(f"{when}:{what}:1" for what in _WRITTEN for when in ("before", "committed", "after", "stall")),
    *(f"{when}:{what}:{n}" for what in ("tool", "dispatch", "end") for when in ("before", "after") for n in (1, 2)),
]
_RETRY = Retry(attempts=2, first_ms=10, most_ms=40)


class Till:
    """A server that is killed, and a client that asks until it has its answers."""

    def __init__(self, nursery: Nursery, directory: Path, place: Place, port: int) -> None:
        self._nursery = nursery
        self._directory = directory
        self._port = port
        self.place = place
        self.kills = 0

    async def live(self, asking: "asyncio.Task[None]", *, at: str | None = None, after: float | None = None) -> None:
        """One life, until it is killed or there is nothing more to ask."""
        words = ["serve", "--port", str(self._port), "--store", self.place.url, "--json", "--workers", "2"]
        words += ["--tools", "tests.crash.served.till"]
        extra = {"CLOISTER_SERVER_TOKEN": TOKEN, "CLOISTER_DATA_DIR": str(self._directory / "data")}
        server = await self._nursery.start(self._directory, words, extra | ({"CRASH_AT": at} if at else {}))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await server.ready
                await asyncio.wait({server.over, asking}, timeout=after, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server.kill()
            self.kills += await server.over == -signal.SIGKILL and not asking.done()

    async def check(self, answers: dict[str, RunResult | Observation]) -> None:
        kept = (await read(self.place, None)).kept
        assert kept.findings == []
        check_effects(self._directory / "effects", kept)
        asked = Counter(row.operation_key for row in kept.cells.values())
        assert asked == {"run a": 1, "exec b": 1}
        unknown = unknown_in(kept)
        for n, answer in ((301, answers["a"]), (311, answers["b"])):
            assert isinstance(answer, (RunResult, Completed)), answer
            assert answer.content == ({"type": "input_text", "text": "paid\n"},)
            for told, known in zip(answer.result, (f"paid {n}", (n + 1) * 2, f"paid {n + 2}"), strict=True):
                assert told == known or int(str(told).removeprefix("!OUTCOME_UNKNOWN ")) in unknown


async def _ask(client: AsyncClient, answers: dict[str, RunResult | Observation]) -> None:
    """Each as often as it takes, by its key."""

    async def session() -> None:
        try:
            await client.sessions.create("s")
        except SessionExists:
            # It was made, and nobody said so.
            pass

    async def run() -> None:
        answers["a"] = await client.sessions.run("s", CODE.format(n=301), key="a")

    async def begin() -> None:
        answers["b"] = await client.sessions.exec("s", CODE.format(n=311), yield_ms=60_000, key="b")

    for asking in (session, run, begin):
        while True:
            try:
                await asking()
            except ServerUnreachable:
                await asyncio.sleep(0.02)
            else:
                break


async def _kill(
    nursery: Nursery, directory: Path, place: Place, lives: Sequence[tuple[str | None, float | None]]
) -> int:
    """One life each, with the point or the time at which it ends; then one without a kill. How many were killed."""
    directory.mkdir()
    answers: dict[str, RunResult | Observation] = {}
    with reserved() as port:
        async with AsyncClient(f"http://127.0.0.1:{port}", TOKEN, retry=_RETRY) as client:
            till = Till(nursery, directory, place, port)
            asking = asyncio.create_task(_ask(client, answers))
            try:
                for at, after in (*lives, (None, None)):
                    if not asking.done():
                        await till.live(asking, at=at, after=after)
                await asking
            finally:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
    await till.check(answers)
    return till.kills


async def test_program_that_is_asked_for_by_a_key_runs_once_wherever_its_server_is_killed(
    servers: Nursery, tmp_path: Path
) -> None:
    points, killed = random.Random(1).sample(POINTS, 6), 0
    for number in range(0, len(points), 3):
        directory = tmp_path / f"{number}"
        lives = [(point, None) for point in points[number : number + 3]]
        killed += await _kill(servers, directory, InFile(directory), lives)
    assert killed >= 3


async def test_program_in_postgresql_that_is_asked_for_by_a_key_runs_once(
    servers: Nursery, pg_server: PgServer, tmp_path: Path
) -> None:
    rng = random.Random(2)
    lives = [(None, rng.uniform(0, 0.2)) for _ in range(2)]
    await _kill(servers, tmp_path / "trial", InServer(pg_server), lives)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
async def test_program_that_is_asked_for_by_a_key_runs_once_for_each_point(
    servers: Nursery, tmp_path: Path, point: str
) -> None:
    directory = tmp_path / "trial"
    await _kill(servers, directory, InFile(directory), [(point, None)] * 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
async def test_program_that_is_asked_for_by_a_key_runs_once_for_many_seeds(
    servers: Nursery, tmp_path: Path, seed: int
) -> None:
    rng, directory = random.Random(seed), tmp_path / "trial"
    await _kill(servers, directory, InFile(directory), [(None, rng.uniform(0, 0.3)) for _ in range(8)])
