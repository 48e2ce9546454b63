"""Stored values: what a cell sees of them, and what of its own writes is left when it is over."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cloister import CellLimits, Completed, Failed, InvalidInput
from tests.cells.lab import House, Latch, behaviour, in_both, program, result, start


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House(cells=CellLimits(hibernate_after_ms=0)) as made:
        yield made


@in_both
async def test_own_writes_are_seen_at_once_and_kept_for_the_next_cell(house: House, language: str) -> None:
    async with await house.open(language) as session:
        assert result(await session.exec("store('k', {'a': [1]})\nload('k')")) == {"a": [1]}
        assert result(await session.exec("load('k')")) == {"a": [1]}
        assert await session.values.all() == {"k": {"a": [1]}}


@in_both
async def test_writes_of_a_cell_are_nobodys_before_its_end(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "store('k', 1)\nawait hold(1)\nload('k')")
        await latch.until_came()
        assert await session.values.all() == {}
        assert result(await session.exec("load('k')", isolated=True)) is None
        await latch.let_go()
        assert result(await session.wait(cell_id)) == 1
        assert await session.values.all() == {"k": 1}


@in_both
async def test_only_the_keys_that_a_cell_wrote_are_merged(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        await session.values.replace({"read": 1, "written": 1})
        cell_id = await start(session, "store('written', load('read') + 1)\nawait hold(1)")
        await latch.until_came()
        await session.values.set("read", "by the host")
        await session.values.set("new", "by the host")
        await latch.let_go()
        await session.wait(cell_id)
        assert await session.values.all() == {"read": "by the host", "new": "by the host", "written": 2}


@in_both
async def test_writes_are_merged_when_the_program_failed(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec("store('k', 1)\n" + program(language, "fail"))
        assert isinstance(seen, Failed)
        assert await session.values.all() == {"k": 1}


@in_both
async def test_writes_are_merged_when_a_limit_ended_the_cell(house: House, language: str) -> None:
    async with await house.open(language) as session:
        code = "store('k', 1)\n" + program(language, "loop").replace("yield_control()", "text('in')")
        seen = await session.exec(code, limits={"cpu_ms": 100})
        assert isinstance(seen, Failed)
        assert seen.error.code == "TIMEOUT_CPU"
        assert await session.values.all() == {"k": 1}


@in_both
async def test_two_isolated_cells_at_once_write_different_keys_and_both_survive(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        await session.values.set("base", 10)
        ids = [
            await start(session, f"store('k{n}', load('base') + {n})\nawait hold({n})", isolated=True) for n in (1, 2)
        ]
        await latch.until_came(2)
        await latch.let_go()
        for cell_id in ids:
            assert isinstance(await session.wait(cell_id), Completed)
        assert await session.values.all() == {"base": 10, "k1": 11, "k2": 12}


@in_both
async def test_of_two_that_write_one_key_the_last_to_end_wins(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        ids = {n: await start(session, f"store('k', {n})\nawait hold({n})", isolated=True) for n in (1, 2)}
        await latch.until_came(2)
        for n in (2, 1):
            await latch.let_go(n)
            await session.wait(ids[n])
            assert await session.values.get("k") == n


@in_both
async def test_cell_sees_the_values_of_its_start_whatever_the_host_does_meanwhile(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        await session.values.replace({"a": 1, "b": 2})
        cell_id = await start(session, "await hold(1);\n[load('a'), load('b'), load('c')]")
        await latch.until_came()
        await session.values.replace({"a": "other", "c": 3})
        await latch.let_go()
        assert result(await session.wait(cell_id)) == [1, 2, None]
        assert await session.values.all() == {"a": "other", "c": 3}


@in_both
async def test_queued_cell_sees_what_the_one_before_it_stored(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        first = await start(session, "await hold(1)\nstore('k', 'first')")
        second = await start(session, "load('k')")
        await latch.let_go()
        await session.wait(first)
        assert result(await session.wait(second)) == "first"


@in_both
async def test_run_that_waited_for_its_turn_sees_what_the_cell_before_it_stored(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        first = await start(session, "await hold(1)\nstore('k', 'first')")
        running = asyncio.create_task(session.run("load('k')"))
        await latch.until_came()
        await latch.let_go()
        await session.wait(first)
        assert (await running).result == "first"


@in_both
async def test_host_sets_replaces_and_deletes_between_cells(house: House, language: str) -> None:
    async with await house.open(language) as session:
        await session.values.set("k", [1, 2])
        assert result(await session.exec("load('k')")) == [1, 2]
        await session.values.replace({"other": "x"})
        assert result(await session.exec("store('new', 1);\n[load('k'), load('other')]")) == [None, "x"]
        assert await session.values.delete("other")
        assert not await session.values.delete("other")
        assert result(await session.exec("[load('other'), load('new')]")) == [None, 1]


@in_both
async def test_what_was_loaded_is_the_programs_own(house: House, language: str) -> None:
    add = {"python": "append", "typescript": "push"}[language]
    async with await house.open(language) as session:
        await session.values.set("k", [1])
        code = program(language, "let", "v", "load('k')") + f"\nv.{add}(2);\n[v, load('k')]"
        assert result(await session.exec(code)) == [[1, 2], [1]]
        assert await session.values.get("k") == [1]


@pytest.mark.parametrize(
    ("language", "value", "why"),
    [
        ("python", "lambda: 1", "cannot be written in JSON"),
        ("python", "float('nan')", "nan is not a JSON number"),
        ("python", "b'x'", "a value of type bytes cannot be written in JSON"),
        ("python", "{1: 2, (3,): 4}", "a key of type tuple cannot be written in JSON"),
        ("python", "loop", "the value contains itself"),
        ("python", "large", "the value for 'k' cannot be stored: the value takes more than 1048576 bytes"),
        ("typescript", "() => 1", "the value is a function, which cannot be written in JSON"),
        ("typescript", "NaN", "NaN is not a JSON number"),
        ("typescript", "undefined", "undefined cannot be written in JSON"),
        ("typescript", "new Map()", "the value is a Map"),
        ("typescript", "loop", "the value contains itself"),
        ("typescript", "large", "the value for 'k' cannot be stored: the value takes more than 1048576 bytes"),
    ],
)
@behaviour
async def test_storing_what_is_not_json_is_refused_in_words_and_stores_nothing(
    house: House, language: str, value: str, why: str
) -> None:
    given = {
        "python": "loop = [1]\nloop.append(loop)\nlarge = ['x' * 1000] * 2000\n",
        "typescript": "var loop = [1]; loop.push(loop); var large = Array(2000).fill('x'.repeat(1000));\n",
    }[language]
    async with await house.open(language) as session:
        code = given + program(language, "caught", f"store('k', {value})") + "\nstore('after', 1)\ngot"
        said = result(await session.exec(code))
        assert said.startswith("caught ")
        assert why in said
        assert await session.values.all() == {"after": 1}


@in_both
@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("5", "the key is text, not"),
        ("''", "needs at least one character"),
        ("'a\\u0000b'", "has control characters"),
        ("'x'.repeat(257)", "has 257 characters: at most 256 are taken"),
    ],
)
@pytest.mark.parametrize("call", ["store({0}, 1)", "load({0})"])
async def test_what_is_no_key_is_refused_in_words_and_stores_nothing(
    house: House, language: str, key: str, why: str, call: str
) -> None:
    written = key.replace("'x'.repeat(257)", "'x' * 257") if language == "python" else key
    async with await house.open(language) as session:
        said = result(await session.exec(program(language, "caught", call.format(written))))
        assert said.startswith("caught ")
        assert why in said
        assert await session.values.all() == {}


@in_both
@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("text()", "text() takes value"),
        ("text(1, 2)", "text() takes value"),
        ("image()", "image() takes source"),
        ("notify()", "notify() takes message"),
        ("store('k')", "store() takes key and value"),
        ("load()", "load() takes key"),
        ("exit(1)", "exit() takes nothing"),
        ("yield_control(1)", "yield_control() takes nothing"),
    ],
)
async def test_helper_with_the_wrong_number_of_arguments_says_what_it_takes_and_does_nothing(
    house: House, language: str, call: str, why: str
) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(program(language, "caught", call))
        assert result(seen) == f"caught {why}"
        assert seen.content == ()
        assert await session.values.all() == {}


@in_both
async def test_missing_key_loads_as_nothing(house: House, language: str) -> None:
    async with await house.open(language) as session:
        assert result(await session.exec("load('nothing')")) is None
        # Nothing stored is stored all the same.
        await session.exec("store('null', load('nothing'))")
        assert await session.values.all() == {"null": None}


@in_both
async def test_values_of_a_run_are_kept_as_those_of_exec(house: House, language: str) -> None:
    async with await house.open(language) as session:
        assert (await session.run("store('k', 1)")).ok
        assert result(await session.exec("load('k')")) == 1


@in_both
async def test_own_writes_outlive_a_sleep_in_a_call(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(session, "store('a', 1)\nawait hold(1)\nstore('b', load('a') + 1)")
        await latch.until_came()
        await latch.let_go()
        await session.wait(cell_id)
        assert await session.values.all() == {"a": 1, "b": 2}


@in_both
async def test_sessions_do_not_share_values(house: House, language: str) -> None:
    async with await house.open(language) as session, await house.open(language) as other:
        await session.exec("store('k', 1)")
        assert result(await other.exec("load('k')")) is None


@behaviour
async def test_what_the_host_sets_is_checked_before_anything_changes(house: House) -> None:
    async with await house.open("python") as session:
        await session.values.set("k", 1)
        with pytest.raises(InvalidInput, match="cannot be stored"):
            await session.values.replace({"a": 1, "b": object()})  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidInput):
            await session.values.set("", 2)
        assert await session.values.all() == {"k": 1}
