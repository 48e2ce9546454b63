"""The other side: starts hosts on one store, kills them, and holds what is in the store against what they had said."""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from cloister import ReplayReport
from cloister.app.engines import EngineRoom
from cloister.core.call import CallStatus
from cloister.ports.clock import SystemClock
from cloister.ports.journal import Entry
from cloister.ports.rows import ApprovalRow, CellRow, EventRow, SessionRow, ValueRow
from cloister.ports.store import Store
from cloister.sessions.replay import replay_cell
from cloister.stores.sqlite import SqliteStore
from tests.crash.plans import FIFTY, PLANS

ROOT = Path(__file__).resolve().parents[2]
# A start that takes longer is stuck.
PATIENCE_SECONDS = 40.0
MOST_STARTS = 400
ONCE = ("pay", "slow", "flop", "ask")
UNKNOWN = "!OUTCOME_UNKNOWN "


def environment() -> dict[str, str]:
    source = os.environ.get("PYTHONPATH") or str(ROOT / "src")
    return {**os.environ, "PYTHONPATH": f"{source}:{ROOT}"}


class Nursery:
    """Forks hosts from a process that has everything imported: a start costs a tenth of one from nothing."""

    def __init__(self) -> None:
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.crash.child", "nursery", str(theirs.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, env=environment(), pass_fds=[theirs.fileno()])
        self.kills = 0
        self.starts = 0

    def close(self) -> None:
        self._wire.close()
        self._process.wait(10)

    def start(self, directory: Path, orders: dict[str, str], kill_after: float | None) -> tuple[int, bytes]:
        """How it ended, and all that it said."""
        self.starts += 1
        ours, theirs = os.pipe()
        said: list[bytes] = []
        try:
            request = json.dumps({"directory": str(directory), "orders": orders}).encode()
            socket.send_fds(self._wire, [request], [theirs])
        finally:
            os.close(theirs)
        listener = threading.Thread(target=_drain, args=(ours, said))
        listener.start()
        pid = self._answer()["pid"]
        patience = PATIENCE_SECONDS if kill_after is None else kill_after
        try:
            # It is only reaped, and its number given to another, right before the answer comes.
            status = self._answer(patience)["status"]
        except TimeoutError:
            _kill(pid)
            status = self._answer()["status"]
            if kill_after is None:
                status = None
        listener.join()
        os.close(ours)
        if status is None:
            raise AssertionError(f"stuck after {patience} s:\n{_tail(directory)}\n{b''.join(said)[-2000:].decode()}")
        self.kills += status == -signal.SIGKILL
        return status, b"".join(said)

    def _answer(self, timeout: float | None = PATIENCE_SECONDS) -> dict[str, Any]:
        self._wire.settimeout(timeout)
        return json.loads(self._wire.recv(1 << 16))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _drain(fd: int, into: list[bytes]) -> None:
    while some := os.read(fd, 1 << 16):
        into.append(some)


def _tail(directory: Path) -> str:
    log = directory / "log"
    return log.read_text("utf-8", "replace")[-4000:] if log.exists() else ""


def parse_acks(said: bytes) -> list[dict[str, Any]]:
    """Whole lines only: of one that was cut off nobody can say that it was said."""
    return [json.loads(line) for line in said.split(b"\n")[:-1]]


@dataclass(frozen=True, slots=True)
class Kept:
    """All that is in a store."""

    sessions: dict[str, SessionRow]
    cells: dict[str, CellRow]
    calls: dict[str, Entry]
    approvals: dict[str, ApprovalRow]
    events: dict[int, EventRow]
    values: dict[tuple[str, str], ValueRow]
    files: dict[tuple[str, str], bytes]
    findings: list[str]


def look(database: Path) -> Kept:
    return asyncio.run(_look(copy_of(database)))


def copy_of(database: Path) -> Path:
    """What is beside the file is left for the next host to recover from."""
    with_copy = database.with_name("copy.db")
    for end in ("", "-wal"):
        source = Path(f"{database}{end}")
        Path(f"{with_copy}{end}").unlink(missing_ok=True)
        if source.exists():
            shutil.copyfile(source, f"{with_copy}{end}")
    Path(f"{with_copy}-shm").unlink(missing_ok=True)
    return with_copy


async def _look(path: Path) -> Kept:
    async with SqliteStore(path, clock=SystemClock()) as store:
        return await look_into(store)


async def replay_all(store: Store) -> list[ReplayReport]:
    """Every cell in a store, gone over again."""
    room = EngineRoom(workers=1, require_confinement=False)
    try:
        async with store:
            return [await replay_cell(store, room.seats, row.id) for row in await store.cells()]
    finally:
        await room.close()


async def look_into(store: Store) -> Kept:
    sessions = {row.id: row for row in await store.sessions()}
    cells = {row.id: row for row in await store.cells()}
    # Those of hosts as well, which have no cell.
    rows = cast("Sequence[Entry]", await store.scan("calls", limit=1_000_000))
    calls = {entry.intent.key: entry for entry in rows}
    approvals = {row.id: row for row in await store.approvals(limit=100_000)}
    events = {row.seq: row for row in await store.events(limit=1_000_000)}
    values = {(row.session_id, row.key): row for name in sessions for row in await store.values(name)}
    files = {
        (row.session_id, row.path): await store.blob(row.blob) or b""
        for name in sessions
        for row in await store.files(name)
    }
    return Kept(sessions, cells, calls, approvals, events, values, files, await _findings(store))


async def _findings(store: Store) -> list[str]:
    # Without any blob, `check` takes those that refer to none for those that refer to one: see `test_findings`.
    return [said for said in await store.check() if not said.endswith("refers to blob None, which is not there")]


def check_effects(path: Path, kept: Kept, elsewhere: Collection[str] = ()) -> None:
    """What tools have done is what the journal says, but for calls that were answered `elsewhere`."""
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    by_key = Counter(key for _, _, key, _ in lines)
    for (name, n), count in Counter((name, n) for name, n, _, _ in lines).items():
        assert name not in ONCE or count == 1, f"{name}({n}) happened {count} times"
    for name, n, key, _ in lines:
        entry = kept.calls.get(key)
        assert entry is not None or name == "look", f"{name}({n}) happened without an intent"
    for key, entry in kept.calls.items():
        is_ok = entry.settled is not None and entry.settled.status is CallStatus.OK
        if is_ok and entry.intent.name not in elsewhere:
            assert by_key[key] >= 1, f"{key} is settled and never happened"


_TOLD = {"pending": "required", "allowed": "decided", "denied": "decided"}


def check_told(kept: Kept) -> None:
    """Whoever has heard of a question has heard what became of it, and nobody of one that is not on record."""
    told: dict[str, list[str]] = {}
    for seq in sorted(kept.events):
        event = kept.events[seq]
        if event.kind.startswith("approval."):
            told.setdefault(event.doc["id"], []).append(event.kind.removeprefix("approval."))
    assert told.keys() == kept.approvals.keys()
    for row in kept.approvals.values():
        kinds = told[row.id]
        assert kinds[0] == "required"
        assert kinds[-1] == _TOLD.get(row.state, row.state), f"{row.id} is {row.state}, and was told to be {kinds}"
        assert len(set(kinds)) == len(kinds), f"{row.id} was told {kinds}"


def unknown_in(kept: Kept) -> set[int]:
    """The numbers of calls of which nobody may know whether they were made."""
    return {
        _number(entry)
        for entry in kept.calls.values()
        if not entry.intent.idempotent
        and (entry.settled is None or entry.settled.status in (CallStatus.UNKNOWN, CallStatus.ERROR))
    }


@dataclass(slots=True)
class Trial:
    """One plan on one store, through as many lives as it takes."""

    nursery: Nursery
    plan: str
    directory: Path
    orders: dict[str, str] = field(default_factory=dict[str, str])
    acks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    final: dict[str, Any] | None = None
    points: dict[str, int] = field(default_factory=dict[str, int])
    kills: int = 0
    lives: list[str] = field(default_factory=list[str])

    def live(self, *, at: str | None = None, kill_after: float | None = None) -> bool:
        """One life; True when the plan was done. What must be true in between is looked at in the end of each."""
        if len(self.lives) >= MOST_STARTS:
            raise AssertionError(f"not done after {MOST_STARTS} starts: {self.lives[-10:]}")
        self.directory.mkdir(parents=True, exist_ok=True)
        orders = {"CRASH_PLAN": self.plan, **self.orders}
        if at is not None:
            orders["CRASH_AT"] = at
        self.lives.append(at or (f"{kill_after:.4f} s" if kill_after is not None else "undisturbed"))
        status, said = self.nursery.start(self.directory, orders, kill_after)
        acks = parse_acks(said)
        for ack in acks:
            ack["life"] = len(self.lives)
        self.acks += acks
        if status == -signal.SIGKILL:
            self.kills += 1
        elif status != 0:
            raise AssertionError(f"{self}: ended with {status}\n{_tail(self.directory)}")
        for ack in acks:
            if ack["what"] == "final":
                self.final = ack["state"]
            elif ack["what"] == "left":
                self.points = ack["points"]
        self.check()
        return self.final is not None

    def __str__(self) -> str:
        return f"{self.plan} in {self.directory} after {self.lives}"

    # -- what must hold ----------------------------------------------------------------------------------------

    def look(self) -> Kept:
        database = self.directory / "store.db"
        return look(database) if database.exists() else Kept({}, {}, {}, {}, {}, {}, {}, [])

    def replay(self) -> list[ReplayReport]:
        """Every cell, gone over again."""
        store = SqliteStore(copy_of(self.directory / "store.db"), clock=SystemClock())
        return asyncio.run(replay_all(store))

    def check(self) -> None:
        try:
            kept = self.look()
            assert kept.findings == []
            self._check_acks(kept)
            check_effects(self.directory / "effects", kept)
            self._check_approvals(kept)
            check_told(kept)
            self._check_files(kept)
        except AssertionError as failed:
            raise AssertionError(f"{self}: {failed}\n{_tail(self.directory)}") from failed

    def _check_acks(self, kept: Kept) -> None:
        seen: set[int] = set()
        last: dict[str, int] = {}
        for ack in self.acks:
            match ack["what"]:
                case "event":
                    assert ack["seq"] not in seen, f"event number {ack['seq']} was used twice"
                    # Within a life and from life to life; between sessions see `test_findings`.
                    assert ack["seq"] > last.get(ack["session"], 0), f"event {ack} came after {last}"
                    last[ack["session"]] = ack["seq"]
                    seen.add(ack["seq"])
                    row = kept.events.get(ack["seq"])
                    assert row is not None, f"event {ack} was told and is gone"
                    assert (row.kind, row.session_id) == (ack["kind"], ack["session"]), f"{row} is not {ack}"
                case "value":
                    row = kept.values.get((ack["session"], ack["key"]))
                    assert row is not None, f"value {ack} was set and is gone"
                    assert row.value == ack["value"]
                case "file":
                    found = kept.files.get((ack["session"], ack["path"]))
                    assert found is not None, f"file {ack} was written and is gone"
                    assert found.decode() == ack["text"]
                case "began":
                    assert ack["cell"] in kept.cells, f"cell {ack} was begun and is gone"
                case "end":
                    row = kept.cells[ack["cell"]]
                    assert row.state == ack["status"], f"cell {ack['cell']} was {ack['status']}, now {row.state}"
                    assert row.doc["result"].get("result") == ack["result"]
                case _:
                    pass

    def _check_files(self, kept: Kept) -> None:
        for (_, path), data in kept.files.items():
            lines = data.decode().split()
            assert len(lines) == len(set(lines)), f"{path} has a line twice: {lines}"

    def _check_approvals(self, kept: Kept) -> None:
        asked: dict[tuple[str, int], str] = {}
        decided: dict[str, str] = {}
        for ack in self.acks:
            if ack["what"] not in ("pending", "decided"):
                continue
            call, name = (ack["cell"], ack["n"]), ack["approval"]
            assert asked.setdefault(call, name) == name, f"{call} was asked about as {asked[call]}, then as {name}"
            if ack["what"] == "pending":
                assert name not in decided, f"{name} was decided ({decided[name]}) and is open again"
            else:
                decided[name] = ack["decision"]
            assert name in kept.approvals, f"{name} was told and is gone"
        for name, decision in decided.items():
            state = {"allow": "allowed", "deny": "denied"}[decision]
            assert kept.approvals[name].state == state, f"{name}: {decision}, now {kept.approvals[name].state}"

    def check_final(self, expected: dict[str, Any]) -> None:
        """The results are those of a life without kills, but for calls that may have happened and are said so."""
        assert self.final is not None
        kept = self.look()
        unknown = unknown_in(kept)
        try:
            for session_id, was in expected.items():
                now = self.final[session_id]
                assert len(now["cells"]) == len(was["cells"])
                for cell, known in zip(now["cells"], was["cells"], strict=True):
                    same(cell, known, unknown)
                same(now["values"], was["values"], unknown)
                assert now["files"] == was["files"]
                assert now["here"] == now["values"]
            assert not [row.id for row in kept.cells.values() if row.live]
            open_ones = [row.id for row in kept.approvals.values() if row.state == "pending"]
            assert not open_ones, f"nobody waits for the answer to {open_ones}"
            # However often its host was killed on the way, each cell does once more what it did.
            reports = self.replay()
            assert len(reports) == len(kept.cells)
            assert [one for one in reports if not one.same or one.ended_from_outside] == []
        except AssertionError as failed:
            raise AssertionError(f"{self}: {failed}\n{_tail(self.directory)}") from failed


def _number(entry: Entry) -> int:
    arguments: Any = entry.intent.arguments
    return arguments["n"]


def same(now: Any, was: Any, unknown: set[int]) -> None:
    if type(now) is type(was) is dict:
        assert now.keys() == was.keys()
        for key in was:
            same(now[key], was[key], unknown)
    elif type(now) is type(was) is list:
        assert len(now) == len(was), f"{now} is not {was}"
        for one, other in zip(now, was, strict=True):
            same(one, other, unknown)
    elif isinstance(now, str) and now.startswith(UNKNOWN):
        n = int(now.removeprefix(UNKNOWN))
        assert was in (f"paid {n}", f"!FLOPPED {n}"), f"{now} instead of {was}"
        assert n in unknown, f"{now}, and the journal knows better"
    else:
        assert now == was, f"{now} is not {was}"


def kill_at_points(trial: Trial, course: "Course", points: Iterable[str]) -> None:
    """One life for each point, as long as the plan is not done; then one without a kill."""
    done = False
    for point in points:
        done = done or trial.live(at=point)
    if not done:
        trial.live()
    trial.check_final(course.expected)


@dataclass(slots=True)
class Course:
    """A plan that was run once without a kill: what it comes to, how long it takes, which points it has."""

    plan: str
    expected: dict[str, Any]
    seconds: float
    points: dict[str, int]


def walk_through(nursery: Nursery, plan: str, directory: Path) -> Course:
    trial = Trial(nursery, plan, directory)
    began = time.monotonic()
    assert trial.live()
    seconds = time.monotonic() - began
    assert trial.final is not None
    trial.check_final(trial.final)
    assert set(trial.final) == set((PLANS | FIFTY)[plan])
    return Course(plan, trial.final, seconds, trial.points)


def kill_at_random(trial: Trial, course: Course, seed: int, *, most_kills: int) -> None:
    """Kills until the plan is done all the same, or there were enough of them."""
    rng = random.Random(seed)
    done = False
    while not done:
        spare, first, began = trial.kills >= most_kills, not trial.lives, time.monotonic()
        done = trial.live(kill_after=None if spare else rng.uniform(0, course.seconds))
        if done and first:
            # It was taken down on a busier machine than this one: instants beyond its end kill nobody.
            course.seconds = min(course.seconds, time.monotonic() - began)
    trial.check_final(course.expected)
