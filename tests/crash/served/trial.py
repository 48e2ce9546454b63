"""One conversation at one server that is killed again and again; what must hold after each kill, and in the end."""

import asyncio
import json
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloister.client import AsyncClient, Retry, ServerUnreachable
from cloister.core.content import text_of
from cloister.core.item import ToolCall, item_from_json
from cloister.core.turn import Receipt, Status
from cloister.threads import Projection
from cloister.threads.rows import turn_of as turn_of_row
from tests.crash.parent import check_effects, check_told, same, unknown_in
from tests.crash.served.conversations import CONVERSATIONS, NEVER, STOCK
from tests.crash.served.nursery import Nursery, Server
from tests.crash.served.provider import Provider
from tests.crash.served.record import NOTHING, InFile, Place, Record, read
from tests.crash.served.talker import Talker
from tests.threads.models.wire.server import ModelServer

# A life, or the rest of a conversation, that takes longer is stuck.
PATIENCE_SECONDS = 240.0
TOKEN = "t" * 32
_EXTERNAL = (STOCK.name, NEVER.name)
_RETRY = Retry(attempts=2, first_ms=10, most_ms=40, reconnect_ms=300_000)
_CONFIG = """\
[threads]
model = "there"

[cells]
hibernate_after_ms = 15

[models.there]
provider = "{provider}"
model = "gpt-5"
base_url = "http://127.0.0.1:{port}{path}"
max_retries = 0
{wire}
"""


@dataclass(slots=True)
class Outcome:
    """What a conversation has come to, without what differs from time to time."""

    values: dict[str, Any]
    # By number, what its calls by a model were answered with.
    calls: dict[int, list[str]]
    turns: dict[str, str]


@dataclass(slots=True)
class Trial:
    nursery: Nursery
    name: str
    directory: Path
    place: Place
    port: int
    provider: Provider
    talker: Talker
    talking: "asyncio.Task[None]"
    kills: int = 0
    lives: list[str] = field(default_factory=list[str])
    points: dict[str, int] = field(default_factory=dict[str, int])
    record: Record = NOTHING
    # The client has all that it wanted, and the server says the same.
    is_over: bool = False

    def __str__(self) -> str:
        return f"{self.name} in {self.directory} after {self.lives}"

    # -- lives -------------------------------------------------------------------------------------------------------

    async def live(self, *, at: str | None = None, kill_after: float | None = None, early: bool = False) -> bool:
        """One life; True when the conversation is over. It is killed at a point, or so many seconds after it can be
        used, or after it was started."""
        said = at or (f"{kill_after:.4f} s {'early' if early else ''}" if kill_after is not None else "undisturbed")
        self.lives.append(said.strip())
        self.provider.begin_life(self.record.answered)
        words = ["serve", "--port", str(self.port), "--store", self.place.url, "--json"]
        words += ["--tools", "tests.crash.served.till", "--workers", "2", "--config", "cloister.toml"]
        extra = {"CLOISTER_SERVER_TOKEN": TOKEN, "CLOISTER_DATA_DIR": str(self.directory / "data")}
        server = await self.nursery.start(self.directory, words, extra | ({"CRASH_AT": at} if at is not None else {}))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                status = await self._attend(server, kill_after, early=early)
        except TimeoutError:
            raise AssertionError(f"{self}: stuck\n{self._log()}") from None
        finally:
            server.kill()
            await server.over
        if self.talking.done():
            # Whatever was wrong there is what is wrong here.
            self.talking.result()
        if status == -signal.SIGKILL:
            self.kills += 1
        elif status != 0:
            raise AssertionError(f"{self}: ended with {status}\n{self._log()}")
        self.record = await read(self.place, self.talker.thread.id if self.talker.thread is not None else None)
        self._holding(self._check)
        return self.is_over

    async def _attend(self, server: Server, kill_after: float | None, *, early: bool) -> int:
        """Its exit code."""
        if not early:
            await server.ready
        waiting: set[asyncio.Task[Any]] = {server.over, self.talking}
        await asyncio.wait(waiting, timeout=kill_after, return_when=asyncio.FIRST_COMPLETED)
        if server.over.done() or not self.talking.done() or self.talking.exception() is not None:
            server.kill()
            return await server.over
        try:
            await self._look_at_all()
        except ServerUnreachable:
            # It came to its point only now; one that lives and does not answer is stuck.
            return await server.over
        server.kill(signal.SIGTERM)
        return await server.over

    async def _look_at_all(self) -> None:
        """What the server says in the end is what a client makes of the events that it saw."""
        projection, talker = Projection(), self.talker
        for event in talker.seen:
            projection.take(event)
        assert talker.thread is not None
        async with AsyncClient(f"http://127.0.0.1:{self.port}", TOKEN, retry=_RETRY) as client:
            detail = await client.threads.get(talker.thread.id)
            # There may be more of it than the client waited for, such as what a cell has told that was ended.
            async with client.events(thread_id=talker.thread.id, since=talker.seen[-1].seq or 0) as events:
                while (projection_detail := projection.detail()).latest_seq < detail.latest_seq:
                    event = await anext(events)
                    if event.seq is not None:
                        talker.seen.append(event)
                        projection.take(event)
        assert projection_detail == detail
        self.is_over = True

    # -- what must hold ----------------------------------------------------------------------------------------------

    def _holding(self, check: Any) -> None:
        try:
            check()
        except AssertionError as failed:
            raise AssertionError(f"{self}: {failed}\n{self._log()}") from failed

    def _check(self) -> None:
        record, talker = self.record, self.talker
        assert record.kept.findings == []
        assert self.provider.wrong == []
        assert talker.wrong == []
        check_effects(self.directory / "effects", record.kept, _EXTERNAL)
        check_told(record.kept)
        ends = Counter(row.turn_id for row in record.events if row.kind == "turn.completed")
        assert [turn_id for turn_id, count in ends.items() if count > 1] == []
        assert {row.id for row in record.turns if not row.live} == set(ends)
        # Each event that was told is there, in its place, and none between them was left out.
        told = [(one.seq, one.event, one.turn_id) for one in talker.seen]
        assert told == [(row.seq, row.kind, row.turn_id) for row in record.events[: len(told)]]
        assert [one.previous_seq for one in talker.seen] == [0, *(one.seq for one in talker.seen)][: len(told)]
        self._check_promises()

    def _check_promises(self) -> None:
        """What was acknowledged has happened, and is what happens."""
        record, talker = self.record, self.talker
        turns = {row.id: row for row in record.turns}
        assert {turns[turn_id].operation_key for turn_id in talker.begun.values()} == set(talker.begun)
        calls = {row.id: row for row in record.tool_calls}
        for call_id in talker.answered:
            assert calls[call_id].state == "resolved", f"{call_id} was answered and is {calls[call_id].state}"
            assert calls[call_id].doc["result"]["success"] is True
        for key, call_ids in talker.calls.items():
            assert len(call_ids) == 1, f"the client was asked {key} as {call_ids}"
        for approval_id, decision in talker.decided.items():
            state = record.kept.approvals[approval_id].state
            assert state == {"allow": "allowed", "deny": "denied"}[decision], f"{approval_id}: {decision}, now {state}"
        inputs = {row.client_id: row for row in record.inputs if row.client_id is not None}
        for key, receipt in talker.receipts.items():
            row = inputs[f"steer-{key}"]
            assert row.id == receipt.input_id
            assert receipt.receipt is Receipt.QUEUED or row.state == receipt.receipt, f"{receipt}, now {row.state}"
        for turn_id, status in talker.interrupted.items():
            assert status is Status.INTERRUPTED
            assert turns[turn_id].state == "interrupted"

    def check_final(self, expected: Outcome) -> None:
        self._holding(lambda: self._check_final(expected))

    def _check_final(self, expected: Outcome) -> None:
        """All has come to what it comes to without kills, but for calls that may have happened and are said so."""
        record, talker, outcome = self.record, self.talker, self.tell_outcome()
        assert self.is_over
        assert [row.id for row in record.turns if row.live] == []
        # One may have ended without anybody reading how.
        assert [row.id for row in record.kept.cells.values() if row.live and "result" not in row.doc] == []
        assert [row.id for row in record.kept.approvals.values() if row.state == "pending"] == []
        assert [row.id for row in record.tool_calls if row.state == "pending"] == []
        assert [row.id for row in record.items if row.state == "in_progress"] == []
        assert [row.id for row in record.inputs if row.state == "queued"] == []
        for (name, _), call_ids in talker.calls.items():
            [row] = [row for row in record.tool_calls if row.id in call_ids]
            assert row.state == ("resolved" if name == STOCK.name else "cancelled")
        # What was said in the middle of a turn came to its model once, or is known not to have.
        for row in record.inputs:
            told = [item for item in record.items if item.doc["detail"].get("input_id") == row.id]
            assert len(told) == (row.state == "delivered"), f"{row} is in {told}"
        # Asked for as often as it was not on record: once, and once more for each server that was killed over it.
        answered = Counter({key: count for key, count in record.answered.items() if count})
        assert set(self.provider.asked) == {(key, n) for key in answered for n in range(1, answered[key] + 1)}
        assert self.provider.asked.total() <= answered.total() + self.kills
        unknown = unknown_in(record.kept)
        same(outcome.values, expected.values, unknown)
        assert outcome.turns == expected.turns
        assert outcome.calls.keys() == expected.calls.keys()
        for n in outcome.calls.keys() - unknown:
            assert outcome.calls[n] == expected.calls[n], f"{n}: {outcome.calls[n]} is not {expected.calls[n]}"

    def tell_outcome(self) -> Outcome:
        """Of a conversation that is over."""
        record = self.record
        values = {row.key: row.value for row in record.kept.values.values()}
        turns: dict[str, str] = {}
        calls: dict[int, list[str]] = {}
        over: set[str] = set()
        for row in record.turns:
            turn = turn_of_row(row)
            if turn.operation_key is not None and not turn.operation_key.startswith("wake:"):
                turns[turn.operation_key] = str(turn.status)
            if turn.status is Status.INTERRUPTED:
                over.add(row.id)
        for row in record.items:
            detail = item_from_json(row.doc).detail
            if isinstance(detail, ToolCall) and row.turn_id not in over and "n" in (detail.arguments or {}):
                calls.setdefault(detail.arguments["n"], []).append(f"{row.state}: {text_of(detail.content)}")
        return Outcome(values, calls, turns)

    def tell_points(self) -> dict[str, int]:
        """Which it has come to in a life that ended in order."""
        return json.loads((self.directory / "points.json").read_text())

    def _log(self) -> str:
        log = self.directory / "log"
        return log.read_text("utf-8", "replace")[-4000:] if log.exists() else ""


@contextmanager
def reserved() -> Generator[int, None, None]:
    """A port. Bound and not listened on: a server of ours may have it whenever it starts, and nobody else."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@asynccontextmanager
async def trial_of(nursery: Nursery, name: str, directory: Path, place: Place | None = None) -> AsyncGenerator[Trial]:
    """The provider, the port and the client, who begins to talk; the server's lives are the caller's."""
    talk, provider = CONVERSATIONS[name], Provider(CONVERSATIONS[name])
    directory.mkdir(parents=True)
    with reserved() as port:
        async with (
            ModelServer(provider) as models,
            AsyncClient(f"http://127.0.0.1:{port}", TOKEN, retry=_RETRY) as client,
        ):
            is_anthropic = talk.wire == "anthropic"
            config = _CONFIG.format(
                provider="anthropic" if is_anthropic else "openai",
                port=models.port,
                path="" if is_anthropic else "/v1",
                wire="" if is_anthropic else f'wire = "{talk.wire}"',
            )
            (directory / "cloister.toml").write_text(config)
            talker = Talker(talk, client)
            talking = asyncio.create_task(talker.run())
            try:
                yield Trial(nursery, name, directory, place or InFile(directory), port, provider, talker, talking)
            finally:
                talking.cancel()
                await asyncio.gather(talking, return_exceptions=True)


@dataclass(slots=True)
class Course:
    """A conversation that nobody disturbed: what it comes to, how long it takes, which points it has."""

    outcome: Outcome
    seconds: float
    points: dict[str, int]


async def walk_through(nursery: Nursery, name: str, directory: Path) -> Course:
    async with trial_of(nursery, name, directory) as trial:
        began = time.monotonic()
        assert await trial.live()
        seconds = time.monotonic() - began
        outcome = trial.tell_outcome()
        trial.check_final(outcome)
        return Course(outcome, seconds, trial.tell_points())


async def kill_at_points(trial: Trial, course: Course, points: Sequence[str]) -> None:
    """One life for each point, as long as the conversation is not over; then one without a kill."""
    for point in points:
        if await trial.live(at=point):
            break
    if not trial.is_over:
        await trial.live()
    trial.check_final(course.outcome)


async def kill_at_random(trial: Trial, course: Course, seed: int, *, most_kills: int) -> None:
    """Kills until the conversation is over all the same, or there were enough of them."""
    rng = random.Random(seed)
    while not trial.is_over:
        first, began = not trial.lives, time.monotonic()
        if trial.kills >= most_kills:
            await trial.live()
        elif rng.random() < 0.2:
            # While it goes on with what it has found.
            await trial.live(kill_after=rng.uniform(0, course.seconds / 2), early=True)
        else:
            await trial.live(kill_after=rng.uniform(0, course.seconds / 2))
        if trial.is_over and first:
            # It was taken down on a busier machine than this one: instants beyond its end kill nobody.
            course.seconds = min(course.seconds, time.monotonic() - began)
    trial.check_final(course.outcome)
