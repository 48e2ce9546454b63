"""What a cell may pile up in its host: items of output, notes, results that nobody reads; and a file in the way."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cloister import CellLimits, Completed, Event, Failed, InvalidInput, QueueFull, SessionLimits, Terminated
from tests.cells.lab import (
    LONG,
    House,
    Latch,
    behaviour,
    codes,
    error_code,
    in_both,
    program,
    reading,
    result,
    start,
    texts,
    to_the_end,
)
from tests.sessions.till import Till

TIMES = {
    "python": "for i in range({0}):\n    {1}\n'end'",
    "typescript": "for (let i = 0; i < {0}; i++) {{ {1} }}; 'end'",
}


def times(language: str, many: int, what: str) -> str:
    return TIMES[language].format(many, what)


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


# -- output -----------------------------------------------------------------------------------------------------------


@in_both
async def test_texts_without_a_letter_in_them_are_bounded_like_all_others(language: str) -> None:
    limits = SessionLimits(wall_ms=LONG, cpu_ms=LONG, max_stdout_bytes=100)
    async with House(limits=limits) as house:
        session = await house.open(language)
        seen = await session.exec(times(language, 300, "text('')"))
        assert result(seen) == "end"
        assert texts(seen) == [""] * 100
        assert "STDOUT_EXCEEDED" in codes(seen)


@in_both
async def test_texts_past_counting_are_told_as_one_with_all_that_was_said(house: House, language: str) -> None:
    async with await house.open(language) as session:
        code = times(language, 1500, "text(i)") + "\n" + "image('https://example.com/a.png')\ntext('after')\n1"
        seen = await session.exec(code)
        assert result(seen) == 1
        said, image, after = seen.content
        assert said["text"] == "".join(f"{n}\n" for n in range(1500))
        assert image["type"] == "input_image"
        assert after["text"] == "after\n"


@in_both
async def test_as_many_texts_as_anybody_shows_stay_apart(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(times(language, 100, "text(i)"))
        assert texts(seen) == [str(n) for n in range(100)]


@in_both
async def test_file_in_the_way_of_a_saved_output_costs_nobody_the_observation(house: House, language: str) -> None:
    async with await house.open(language) as session:
        await session.files.write_text("/outputs", "in the way")
        seen = await session.exec("text(given);\ngiven", inputs={"given": "x" * 1000}, max_output_tokens=5)
        assert isinstance(seen, Completed)
        assert seen.saved_output is None
        said, shown = texts(seen)
        assert said.startswith("x" * 10)
        for text in (said, shown):
            assert "are missing here …]" in text
        assert await session.files.read_text("/outputs") == "in the way"


# -- notes ------------------------------------------------------------------------------------------------------------


@behaviour
async def test_cell_that_has_sent_as_many_notes_as_it_may_is_refused_the_next() -> None:
    told: list[Event] = []
    async with House(on_event=told.append) as house:
        session = await house.open("python")
        seen = await session.exec(times("python", 10_001, "notify('n')"))
        assert error_code(seen) == "RUNTIME_ERROR"
        assert isinstance(seen, Failed)
        assert "notify() may be called 10000 times in a cell" in seen.error.message
        # The next cell may notify again.
        assert result(await session.exec("notify('again')\n7")) == 7
        assert [event.kind for event in told].count("cell.notified") == 10_001


@in_both
async def test_cell_whose_notes_are_too_large_together_is_refused_the_next(language: str) -> None:
    heard: list[Event] = []
    async with House(on_event=heard.append) as house:
        session = await house.open(language)
        seen = await session.exec(times(language, 1000, "notify(given)"), inputs={"given": "x" * 4000})
        assert error_code(seen) == "RUNTIME_ERROR"
        assert isinstance(seen, Failed)
        assert "notes" in seen.error.message
        told = [event.data["message"] for event in heard if event.kind == "cell.notified"]
        assert 250 <= len(told) <= 270
        assert set(told) == {"x" * 4000}


@in_both
async def test_note_that_is_too_long_says_what_is_missing_of_it(house: House, language: str) -> None:
    async with await house.open(language) as session, reading(session) as events:
        await session.exec("notify(given)", inputs={"given": "a" * 5000 + "z" * 5000})
        message = (await events.until("cell.notified")).data["message"]
        assert message.startswith("a" * 2000 + "\n[… 6000 bytes (about 1500 tokens) are missing here …]\n")
        assert message.endswith("z" * 2000)


# -- results ----------------------------------------------------------------------------------------------------------


@in_both
async def test_no_cell_begins_while_there_are_too_many_results_that_nobody_reads(language: str) -> None:
    async with House(cells=CellLimits(max_unread=3)) as house:
        session = await house.open(language)
        async with reading(session) as events:
            ids = [await start(session, f"{n}") for n in range(3)]
            await events.until("cell.completed", ids[-1])
            with pytest.raises(QueueFull, match="nobody has read the ends of 3 cells, and no more than 3 are kept"):
                await session.exec("3")
            # A run is read by its caller, and leaves nothing.
            assert (await session.run("4")).result == 4
            assert result(await session.wait(ids[0])) == 0
            assert result(await session.exec("5")) == 5
            assert [result(await session.wait(cell_id)) for cell_id in ids[1:]] == [1, 2]


# -- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["no", 1, None, 0.0])
@behaviour
async def test_switch_that_is_neither_true_nor_false_is_refused_and_nothing_happens(house: House, wrong: Any) -> None:
    latch = Latch()
    async with await house.open("python", latch.tool) as session:
        with pytest.raises(InvalidInput, match="isolated is True or False, not"):
            await session.exec("await hold(1)", isolated=wrong)
        assert await session.cells() == []
        cell_id = await start(session, "await hold(2)")
        with pytest.raises(InvalidInput, match="terminate is True or False, not"):
            await session.wait(cell_id, terminate=wrong)
        await latch.let_go()
        assert result(await session.wait(cell_id)) == 2


@behaviour
async def test_listener_that_cannot_be_called_is_refused_and_no_cell_is_left(house: House) -> None:
    async with await house.open("python") as session:
        wrong: Any = "print"
        for begin in (session.exec, session.run):
            with pytest.raises(InvalidInput, match="on_output is a function that takes a kind and a text, not str"):
                await begin("1", on_output=wrong)
        assert await session.cells() == []
        assert (await session.run("1 + 1")).result == 2


@in_both
async def test_cell_may_be_given_any_wall_that_the_host_allows_cells(language: str) -> None:
    own = SessionLimits(wall_ms=300, cpu_ms=LONG)
    latch = Latch()
    async with House(cells=CellLimits(cell_wall_ms=LONG), limits=own) as house:
        session = await house.open(language, latch.tool)
        nap = program(language, "sleep", 0.6)
        # More than a run has, and less than a cell may have.
        assert result(await session.exec(nap, limits={"wall_ms": 30_000})) == "slept"
        # What is not asked for is not taken away.
        assert result(await session.exec(nap, limits=SessionLimits(cpu_ms=500))) == "slept"
        # As much as a run has is no more than that.
        short = await session.exec(nap, limits={"wall_ms": 300})
        assert error_code(short) == "TIMEOUT_WALL"
        assert error_code(await session.exec("1", limits={"wall_ms": LONG + 1})) == "INVALID_LIMITS"


@in_both
async def test_run_that_was_waited_for_counts_among_the_cells_of_its_host(language: str) -> None:
    latch = Latch()
    async with House(cells=CellLimits(max_cells=1)) as house:
        session = await house.open(language, latch.tool)
        till = Till()
        other = await house.open(language, till.tool)
        asked = await other.run("await refund('A7')")
        await other.wait(asked.cell_id, yield_ms=0)
        with pytest.raises(QueueFull):
            await session.exec("1")
        assert isinstance(await other.terminate(asked.cell_id), Terminated)
        assert result(await to_the_end(session, await start(session, "1"))) == 1
