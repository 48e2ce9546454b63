"""Cells that used files, gone over again: told what they were told of them, and nothing is read or written."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloister import CannotReplay, DivergenceKind, Mount, Secret, Session, SessionLimits, Terminated
from cloister.cells.file_record import pack, unpack
from cloister.ports.clock import SystemClock
from cloister.ports.rows import CellRow, Put
from cloister.stores.sqlite import SqliteStore
from cloister.testing.stores.lab import everything
from tests.sessions.replay_lab import World, both, ended

pytestmark = pytest.mark.anyio

# Something of everything that a program can ask, with what is refused.
ALL = {
    "python": """
import os
from pathlib import Path
Path('a/b').mkdir(parents=True)
open('a/b/one', 'w').write('one')
open('a/b/one', 'a').write(' more')
Path('bytes').write_bytes(b'\\x00\\xff')
os.rename('a/b/one', 'a/two')
told = [open('a/two').read(), sorted(os.listdir('a')), os.stat('a/two').st_mtime, Path('bytes').read_bytes()[1]]
os.remove('bytes')
for path, mode in (('nowhere', 'r'), ('a', 'r'), ('/kept', 'w')):
    try:
        open(path, mode)
    except OSError as e:
        told.append([type(e).__name__, str(e)])
print([str(p) for p in Path('.').glob('**/*')])
told.append(await pay(len(told)))
told.append(open('a/two').read())
told
""",
    "typescript": """
files.mkdir('a/b', {parents: true})
files.write('a/b/one', 'one')
files.append('a/b/one', ' more')
files.write('bytes', new Uint8Array([0, 255]))
files.move('a/b/one', 'a/two')
files.copy('a/two', 'a/three')
const hash = files.write_if_match('a/three', 'changed', files.stat('a/three').hash)
let told: any[] = [files.read('a/two'), files.list('a'), files.stat('a/two'), files.read_bytes('bytes')[1], hash,
  files.grep('more'), files.exists('no')]
files.delete('bytes')
const acts = [() => files.read('nowhere'), () => files.read('a'), () => files.write('/kept', 'x'),
  () => files.read('half \\ud83d')]
for (const act of acts)
  try { act() } catch (e: any) { told.push([e.code, e.message]) }
console.log(files.list('/'))
told.push(await pay({n: told.length}))
told.push(files.read('a/two'));
told
""",
}
AROUND = {
    "python": "a = open('log').read()\nopen('mine', 'a').write('x')\nb = await turn(1)\n[a, open('log').read(), b]",
    "typescript": "const a = files.read('log'); files.append('mine', 'x'); const b = await turn({n: 1});\n"
    "[a, files.read('log'), b]",
}
WRITE = {
    "python": "open('{0}', 'w').write('{1}')\nawait pay(1)\nopen('{0}').read()",
    "typescript": "files.write('{0}', '{1}'); await pay({{n: 1}}); files.read('{0}')",
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def contents(world: World) -> Any:
    async with SqliteStore(world.path, clock=SystemClock()) as store:
        return await everything(store)


async def ran(session: Session, code: str, **options: Any) -> str:
    result = await session.run(code, **options)
    assert result.ok, result
    return result.cell_id


@both
async def test_cell_is_told_of_files_what_it_was_told_and_the_files_stay_as_they_are(
    world: World, language: str
) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        await session.files.mkdir("/kept")
        cell_id = await ran(session, ALL[language])
        # None of what it found is there any more.
        await session.files.delete("/a", recursive=True)
        await session.files.write("/nowhere", "here now")
        listed = await session.files.list(recursive=True)
        report = await cloister.replay(cell_id)
        assert (report.diverged, report.ended_from_outside, report.calls) == (None, None, 1)
        assert await session.files.list(recursive=True) == listed
        assert len(world.done) == 1
    before = await contents(world)
    # By somebody who has nothing but the store.
    async with world.open() as other:
        assert (await other.replay(cell_id)).same
    assert await contents(world) == before


@both
async def test_what_somebody_else_changed_on_the_way_is_told_as_it_was(
    world: World, language: str, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "log").write_text("first")
    code = AROUND[language].replace("'log'", "'/real/log'")
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language, mounts={"/real": Mount(tmp_path / "real")})
        seen = await session.exec(code, yield_ms=0)
        await world.entered[1].wait()
        (tmp_path / "real" / "log").write_text("second")
        world.turns[1].set()
        done = await ended(session, seen.cell_id)
        assert done.result == ["first", "second", 1]
        (tmp_path / "real" / "log").unlink()
        assert (await cloister.replay(seen.cell_id)).same


@both
@pytest.mark.parametrize("text", ["short", "long"])
async def test_cell_that_went_on_in_another_process_is_replayed_whole(world: World, language: str, text: str) -> None:
    # The long ones are written down for good where the program waits, the short ones with its end.
    first, second = (f"{word} " * (1 if text == "short" else 3000) for word in ("one", "two"))
    code = {
        "python": "a = open('log').read()\ntry:\n    b = await ask(1)\nexcept RuntimeError as e:\n    b = 'denied'\n"
        "c = open('log').read()\n[len(a), len(c), a[:3], c[:3], await ask(2), len(open('log').read())]",
        "typescript": "const a = files.read('log'); let b; try { b = await ask({n: 1}) } catch (e) { b = 'denied' }\n"
        "const c = files.read('log');\n"
        "[a.length, c.length, a.slice(0, 3), c.slice(0, 3), await ask({n: 2}), files.read('log').length]",
    }[language]
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        await session.files.write("/log", first)
        result = await session.run(code)
        assert result.status == "waiting_for_approval"
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        await session.files.write("/log", second)
        await cloister.decide(result.approvals[0].id, "deny")
        result = await session.resume(result.cell_id)
        assert result.status == "waiting_for_approval"
        await cloister.decide(result.approvals[0].id, "allow")
        result = await session.resume(result.cell_id)
        assert result.result == [len(first), len(second), "one", "two", "allowed 2", len(second)]
        report = await cloister.replay(result.cell_id)
        assert (report.diverged, report.calls) == (None, 2)


@both
async def test_isolated_and_narrow_cells_are_replayed_too(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        beside = await session.exec(WRITE[language].format("beside", "x"), isolated=True, yield_ms=30_000)
        narrow = await ran(session, WRITE[language].format("narrow", "y"), limits={"memory_mb": 32})
        for cell_id in (beside.cell_id, narrow):
            assert (await cloister.replay(cell_id)).same


@both
async def test_cell_that_was_terminated_is_replayed_up_to_there(world: World, language: str) -> None:
    code = {
        "python": "open('n', 'w').write('')\nawait pay(1)\nyield_control()\nwhile True:\n    open('n', 'w').write('x')",
        "typescript": "files.write('n', ''); await pay({n: 1}); yield_control()\nwhile (true) files.write('n', 'x')",
    }[language]
    async with world.open(limits=SessionLimits(cpu_ms=3_000, wall_ms=60_000)) as cloister:
        session = await cloister.open_session("s", language=language)
        seen = await session.exec(code)
        assert isinstance(await session.terminate(seen.cell_id), Terminated)
        report = await cloister.replay(seen.cell_id)
        assert report.diverged is None
        assert report.ended_from_outside is not None


# -- what is not kept -------------------------------------------------------------------------------------------------


@both
async def test_cell_that_was_told_too_much_cannot_be_replayed_and_says_so(world: World, language: str) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        await session.files.write("/half", "x" * 600_000)
        read = "len(open('half').read())" if language == "python" else "files.read('half').length"
        cell_id = await ran(session, read)
        assert (await cloister.replay(cell_id)).same
        cell_id = await ran(session, f"{read}\n{read}")
        with pytest.raises(CannotReplay, match="more than the 1 MiB that are kept"):
            await cloister.replay(cell_id)
        # What it was told is not kept for nothing.
        assert len(json.dumps(dict((await row_of(world, cell_id)).doc))) < 4_000


@both
async def test_file_with_the_value_of_a_secret_is_on_no_record(world: World, language: str, tmp_path: Path) -> None:
    value = "sk-8f14e45fceea167a5a36dedd4bea2543"
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / ".env").write_text(f"TOKEN={value}")
    read = "len(open('/real/.env').read())" if language == "python" else "files.read('/real/.env').length"
    async with world.open(secrets={"TOKEN": Secret(value, ("pay",))}) as cloister:
        session = await cloister.open_session("s", language=language, mounts={"/real": Mount(tmp_path / "real")})
        cell_id = await ran(session, read)
        with pytest.raises(CannotReplay, match="value of a secret"):
            await cloister.replay(cell_id)
    assert value not in json.dumps(await contents(world), default=str)


# -- a record that is not this program's ------------------------------------------------------------------------------


async def row_of(world: World, cell_id: str) -> CellRow:
    async with SqliteStore(world.path, clock=SystemClock()) as store:
        row = await store.cell(cell_id)
    assert row is not None
    return row


async def rewritten(world: World, row: CellRow, **filed: Any) -> None:
    """The cell was told something else of files."""
    await world.write(Put(replace(row, doc={**row.doc, "filed": {**row.doc["filed"], **filed}})))


@both
async def test_record_of_files_that_was_changed_is_pointed_at(world: World, language: str) -> None:
    code = {
        "python": "await pay(1)\nx = open('log').read()\nopen('log', 'a').write('two')\nx",
        "typescript": "await pay({n: 1}); const x = files.read('log'); files.append('log', 'two'); x",
    }[language]
    async with world.open() as cloister:
        session = await cloister.open_session("s", language=language)
        await session.files.write("/log", "one")
        cell_id = await ran(session, code)
    row = await row_of(world, cell_id)
    asked = unpack(row.doc["filed"]["tail"])
    read = next(place for place, one in enumerate(asked) if one[0] == "files.read")
    path = asked[read][1][0]
    elsewhere = [asked[read][0], ["/elsewhere", *asked[read][1][1:]], asked[read][2]]
    another = ["files.delete", ["/log", False], True]
    changes: list[tuple[list[Any], DivergenceKind, str, str]] = [
        ([*asked[:read], elsewhere, *asked[read + 1 :]], DivergenceKind.OTHER_FILES, "/elsewhere", str(path)),
        (asked[:-1], DivergenceKind.OTHER_FILES, "nothing more of files", "files.write"),
        ([*asked, another], DivergenceKind.OTHER_FILES, "files.delete", "nothing more of files"),
        ([*asked[:read], another, *asked[read:]], DivergenceKind.OTHER_FILES, "files.delete", "files.read"),
        ([*asked[:read], [*asked[read][:2], "ONE"], *asked[read + 1 :]], DivergenceKind.OTHER_RESULT, "one", "ONE"),
    ]
    for changed, kind, expected, actual in changes:
        await rewritten(world, row, tail=pack(changed))
        async with world.open() as cloister:
            diverged = (await cloister.replay(cell_id)).diverged
        assert diverged is not None
        assert (diverged.kind, diverged.step) == (kind, 2)
        assert expected in diverged.expected
        assert actual in diverged.actual


@pytest.mark.parametrize("broken", ["garbage", "[[", "KLUv/SAA", '[["files.read"]]', 7, None])
async def test_record_of_files_that_cannot_be_read_is_said_to_be_so(world: World, broken: Any) -> None:
    async with world.open() as cloister:
        session = await cloister.open_session("s")
        cell_id = await ran(session, "open('log', 'w').write('x')")
    row = await row_of(world, cell_id)
    for change in ({"tail": broken}, {"before": 3}):
        await rewritten(world, row, **change)
        async with world.open() as cloister:
            with pytest.raises(CannotReplay, match="cannot be"):
                await cloister.replay(cell_id)
