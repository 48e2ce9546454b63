"""A record that was changed behind everybody's back: the replay says that it was, and exactly where."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloister import CannotReplay, DivergenceKind, ReplayReport
from cloister.core.call import CallStatus
from cloister.core.diagnostic import ErrorObject
from cloister.core.digest import digest_json
from cloister.ports.clock import SystemClock
from cloister.ports.journal import Entry
from cloister.ports.rows import Drop, Put, SnapshotRow, Write
from cloister.stores.sqlite import SqliteStore
from tests.sessions.replay_lab import World, both

pytestmark = pytest.mark.anyio
Tamper = Callable[[list[Entry]], list[Write]]

CODE = {
    "python": """
import asyncio
got = [await pay(1), await look(2)]
got += await asyncio.gather(pay(3), look(4), pay(5))
try:
    await flop(6)
except RuntimeError as e:
    got.append(str(e))
print('done', len(got))
store('got', got)
got
""",
    "typescript": """
let got: any[] = [await pay({n: 1}), await look({n: 2})]
got.push(...await Promise.all([pay({n: 3}), look({n: 4}), pay({n: 5})]))
try { await flop({n: 6}) } catch (e: any) { got.push(e.message) }
console.log('done', got.length)
store('got', got)
got
""",
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def replayed(world: World, language: str, tamper: Callable[[SqliteStore, str], Any]) -> ReplayReport:
    """A cell is run, its record is changed by what `tamper` gives, and the cell is replayed."""
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        result = await session.run(CODE[language])
        assert result.ok, result
        assert (await cloister.replay(result.cell_id)).same
        async with SqliteStore(world.path, clock=SystemClock()) as store:
            writes = await tamper(store, result.cell_id)
        await world.write(*writes)
        return await cloister.replay(result.cell_id)


async def of_journal(world: World, language: str, tamper: Tamper) -> ReplayReport:
    async def change(store: SqliteStore, cell_id: str) -> list[Write]:
        return tamper(list(await store.calls(cell_id)))

    return await replayed(world, language, change)


def _arguments(entry: Entry, n: int) -> Entry:
    return replace(entry, intent=replace(entry.intent, arguments={"n": n}))


def _settled(entry: Entry, **changes: Any) -> Entry:
    assert entry.settled is not None
    return replace(entry, settled=replace(entry.settled, **changes))


def _with_digests(entry: Entry) -> Entry:
    """A forgery that took care of the digests too."""
    intent = entry.intent
    entry = replace(entry, intent=replace(intent, request_digest=digest_json([intent.name, intent.arguments])))
    if entry.settled is None or entry.settled.response_digest is None:
        return entry
    return _settled(entry, response_digest=digest_json(entry.settled.value))


def _swapped(entries: list[Entry], one: int, other: int) -> list[Write]:
    first, second = entries[one], entries[other]
    made = replace(second.intent, key=first.intent.key, number=first.intent.number)
    back = replace(first.intent, key=second.intent.key, number=second.intent.number)
    assert first.settled is not None
    assert second.settled is not None
    return [
        Put(Entry(made, replace(second.settled, key=made.key))),
        Put(Entry(back, replace(first.settled, key=back.key))),
    ]


def _put_in(entries: list[Entry]) -> list[Write]:
    intent = replace(entries[0].intent, key=f"{entries[0].intent.cell_id}/7", number=7, call_id="cal_" + "0" * 26)
    assert entries[0].settled is not None
    return [Put(Entry(intent, replace(entries[0].settled, key=intent.key)))]


ALTERED, MISSING, EXTRA = DivergenceKind.ENTRY_ALTERED, DivergenceKind.ENTRY_MISSING, DivergenceKind.ENTRY_EXTRA
CASES: dict[str, tuple[Tamper, DivergenceKind, int, str]] = {
    "arguments": (lambda e: [Put(_arguments(e[0], 99))], ALTERED, 1, '{"n": 99}'),
    "arguments and digest": (lambda e: [Put(_with_digests(_arguments(e[1], 99)))], ALTERED, 2, '{"n": 99}'),
    "name": (lambda e: [Put(replace(e[1], intent=replace(e[1].intent, name="pay")))], ALTERED, 2, "`pay`"),
    "result": (lambda e: [Put(_settled(e[3], value=7))], ALTERED, 4, ": 7"),
    "result and digest": (lambda e: [Put(_with_digests(_settled(e[4], value="no")))], ALTERED, 5, '"no"'),
    "error": (lambda e: [Put(_settled(e[5], error=ErrorObject("FLOPPED", "by chance")))], ALTERED, 6, "by chance"),
    "error to result": (
        lambda e: [Put(_settled(e[5], error=None, status=CallStatus.OK, value=1, response_digest=digest_json(1)))],
        ALTERED,
        6,
        "ok: 1",
    ),
    "settlement gone": (lambda e: [Put(replace(e[2], settled=None))], ALTERED, 3, "no settlement"),
    "order": (lambda e: _swapped(e, 2, 4), ALTERED, 3, '{"n": 5}'),
    "gone": (lambda e: [Drop("calls", (e[1].intent.key,))], MISSING, 2, "no entry"),
    "last one gone": (lambda e: [Drop("calls", (e[5].intent.key,))], MISSING, 6, "no entry"),
    "put in": (_put_in, EXTRA, 7, '{"n": 1}'),
    # Of two that do not fit the first is told.
    "two": (lambda e: [Put(_arguments(e[4], 1)), Put(_settled(e[1], value=0))], ALTERED, 2, ": 0"),
}


@both
@pytest.mark.parametrize("case", CASES)
async def test_entry_of_the_journal_that_was_changed_is_pointed_at(world: World, language: str, case: str) -> None:
    tamper, kind, call, found = CASES[case]
    report = await of_journal(world, language, tamper)
    assert report.diverged is not None
    assert (report.diverged.kind, report.diverged.call) == (kind, call)
    assert found in report.diverged.actual
    # Nothing was run on the strength of it.
    assert (report.steps, report.calls) == (0, 0)


async def change_row(world: World, language: str, change: Callable[[dict[str, Any]], object]) -> ReplayReport:
    async def tamper(store: SqliteStore, cell_id: str) -> list[Write]:
        row = await store.cell(cell_id)
        assert row is not None
        doc: Any = dict(row.doc)
        change(doc)
        return [Put(replace(row, doc=doc))]

    return await replayed(world, language, tamper)


def _code(before: str, after: str) -> Callable[[dict[str, Any]], object]:
    def change(doc: dict[str, Any]) -> None:
        code = doc["program"]["code"]
        assert before in code
        doc["program"]["code"] = code.replace(before, after)

    return change


ROWS: dict[str, tuple[Callable[[dict[str, Any]], object], DivergenceKind, int | None, str]] = {
    "result": (lambda doc: doc["result"].update(result=1), DivergenceKind.OTHER_RESULT, None, "the result 1"),
    "output": (
        lambda doc: doc["result"].update(content=[{"type": "input_text", "text": "done 7\n"}]),
        DivergenceKind.OTHER_OUTPUT,
        None,
        "done 7",
    ),
    "nothing was said": (
        lambda doc: doc["result"].update(content=[]),
        DivergenceKind.OTHER_OUTPUT,
        None,
        "nothing more",
    ),
    "stdout": (lambda doc: doc["result"].update(stdout="x"), DivergenceKind.OTHER_OUTPUT, None, '"x"'),
    "error": (
        lambda doc: doc["result"].update(error={"code": "RUNTIME_ERROR", "message": "no"}),
        DivergenceKind.OTHER_ERROR,
        None,
        "RUNTIME_ERROR",
    ),
    "stored values": (lambda doc: doc["written"].update(got=[[]]), DivergenceKind.OTHER_VALUES, None, "'got': []"),
    "a value more": (lambda doc: doc["written"].update(more=[1]), DivergenceKind.OTHER_VALUES, None, "'more': 1"),
    "another call": (_code("look", "turn"), DivergenceKind.OTHER_CALL, 2, "`look`"),
    "fewer steps": (lambda doc: doc["tail"].pop(), DivergenceKind.OTHER_END, None, "the result"),
}


@both
@pytest.mark.parametrize("case", ROWS)
async def test_cell_whose_row_was_changed_is_told_from_what_it_does(world: World, language: str, case: str) -> None:
    change, kind, call, expected = ROWS[case]
    report = await change_row(world, language, change)
    assert report.diverged is not None
    assert (report.diverged.kind, report.diverged.call) == (kind, call)
    assert expected in report.diverged.expected


@pytest.mark.parametrize(
    ("before", "after", "kind", "call"),
    [
        ("pay(1)", "pay(2)", DivergenceKind.OTHER_ARGUMENTS, 1),
        ("pay(1), await look(2)", "pay(1)", DivergenceKind.OTHER_CALL, 2),
        ("print('done', len(got))", "await pay(7)\nprint('done', len(got))", DivergenceKind.EXTRA_CALL, 7),
        ("pay(3), look(4), pay(5)", "pay(3), look(4)", DivergenceKind.MISSING_CALL, 5),
        ("await flop(6)", "pass", DivergenceKind.OTHER_END, None),
        ("print('done', len(got))", "raise ValueError('no')", DivergenceKind.OTHER_ERROR, None),
        ("print('done'", "print('gone'", DivergenceKind.OTHER_OUTPUT, None),
        ("store('got', got)", "store('gotten', got)", DivergenceKind.OTHER_VALUES, None),
    ],
)
async def test_another_program_diverges_where_it_first_does_something_else(
    world: World, before: str, after: str, kind: DivergenceKind, call: int | None
) -> None:
    report = await change_row(world, "python", _code(before, after))
    assert report.diverged is not None
    assert (report.diverged.kind, report.diverged.call) == (kind, call)
    assert str(report.diverged.kind).replace("_", " ") in str(report.diverged)


async def test_what_a_divergence_shows_is_bounded(world: World) -> None:
    report = await change_row(world, "python", lambda doc: doc["result"].update(result="x" * 1_000_000))
    assert report.diverged is not None
    assert len(report.diverged.expected) < 1000


FORMLESS: list[Callable[[dict[str, Any]], object]] = [
    lambda doc: doc.pop("program"),
    lambda doc: doc.update(tail=7),
    lambda doc: doc.update(tail=[[1, [["x", {}]]]]),
    lambda doc: doc.update(limits={"memory_mb": -1}),
    lambda doc: doc.update(start={"ran": True}),
    lambda doc: doc["start"].update(catalog={"names": 3}),
    lambda doc: doc.update(before="x"),
]


@pytest.mark.parametrize("change", FORMLESS)
async def test_record_that_has_lost_its_form_is_refused_by_name(
    world: World, change: Callable[[dict[str, Any]], object]
) -> None:
    with pytest.raises(CannotReplay, match="cannot be"):
        await change_row(world, "python", change)


async def test_course_told_in_another_order_is_another_course(world: World) -> None:
    """The answers are those of the journal, and yet the program was not told so."""

    async def tamper(store: SqliteStore, cell_id: str) -> list[Write]:
        rows = [row for row in await store.snapshots("s") if row.cell_id == cell_id and "course" in row.doc]
        first: SnapshotRow = rows[1]
        place, items = first.doc["course"]
        assert items
        items[0][1] = [[2, items[0][1][0][1]]]
        return [Put(replace(first, doc={**first.doc, "course": [place, items]}))]

    report = await replayed(world, "python", tamper)
    assert report.diverged is not None
    assert report.diverged.call == 2
