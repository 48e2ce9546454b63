"""How long a cell is observed and how much of it is told: what was asked for, what the host allows, what is cut."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cloister import CellLimits, Completed, Failed, FileNotFound, InvalidInput, Session, SessionLimits, Yielded
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
)

SIGN = {"python": "#", "typescript": "//"}


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


@pytest.fixture(scope="module")
async def strict() -> AsyncIterator[House]:
    async with House(cells=CellLimits(max_yield_ms=1, max_output_tokens=10)) as made:
        yield made


def pragma(language: str, settings: str) -> str:
    return f"{SIGN[language]} @exec: {settings}\n"


# -- the pragma -------------------------------------------------------------------------------------------------------


@in_both
async def test_pragma_sets_how_long_to_observe_and_wins_over_the_argument(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        seen = await session.exec(pragma(language, '{"yield_time_ms": 0}') + "await hold(1)", yield_ms=LONG)
        assert isinstance(seen, Yielded)
        await latch.let_go()
        assert result(await session.wait(seen.cell_id)) == 1
        longer = pragma(language, f'{{"yield_time_ms": {LONG}}}')
        assert result(await session.exec(longer + "await hold(2)", yield_ms=0)) == 2


@in_both
async def test_pragma_sets_how_much_to_tell_and_wins_over_the_argument(house: House, language: str) -> None:
    say = program(language, "print", "'x' * 100" if language == "python" else "'x'.repeat(100)")
    async with await house.open(language) as session:
        less = await session.exec(pragma(language, '{"max_output_tokens": 5}') + say, max_output_tokens=1000)
        assert "bytes (about" in texts(less)[0]
        more = await session.exec(pragma(language, '{"max_output_tokens": 1000}') + say, max_output_tokens=5)
        assert texts(more) == ["x" * 100 + "\n"]


@in_both
async def test_pragma_is_clamped_by_the_host(strict: House, language: str) -> None:
    latch = Latch()
    async with await strict.open(language, latch.tool) as session, reading(session) as events:
        asked = pragma(language, '{"yield_time_ms": 86400000, "max_output_tokens": 100000}')
        seen = await session.exec(asked + "await hold(1)\ntext(given)", inputs={"given": "z" * 1000})
        assert isinstance(seen, Yielded)
        await latch.let_go()
        await events.until("cell.completed")
        ended = await session.wait(seen.cell_id)
        assert texts(ended)[0].count("z") == 40
        assert ended.saved_output == f"/outputs/{seen.cell_id}.txt"


@in_both
async def test_host_clamps_how_long_anybody_waits(strict: House, language: str) -> None:
    latch = Latch()
    async with await strict.open(language, latch.tool) as session:
        seen = await session.exec("await hold(1)", yield_ms=LONG)
        assert isinstance(seen, Yielded)
        assert isinstance(await session.wait(seen.cell_id, yield_ms=LONG), Yielded)
        assert await session.wait_any([seen.cell_id], timeout_ms=LONG) is None
        await latch.let_go()


@in_both
async def test_line_numbers_count_the_pragma(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(pragma(language, "{}") + program(language, "fail"))
        assert isinstance(seen, Failed)
        assert seen.error.span is not None
        assert seen.error.span.line == 2


@in_both
@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "there is nothing after '@exec:'"),
        ("{", "not JSON"),
        ("[]", "must be an object, not an array"),
        ("null", "must be an object, not null"),
        ('{"yield_ms": 1}', "unknown key 'yield_ms'"),
        ('{"yield_time_ms": -1}', "'yield_time_ms' must not be negative"),
        ('{"yield_time_ms": 1.5}', "'yield_time_ms' must be a whole number, not a number with a fraction"),
        ('{"yield_time_ms": true}', "'yield_time_ms' must be a whole number, not a boolean"),
        ('{"max_output_tokens": "9"}', "'max_output_tokens' must be a whole number, not a text"),
        ('{"max_output_tokens": 99999999999999999}', "'max_output_tokens' is larger than"),
        ('{"yield_time_ms": 1, "yield_time_ms": 2}', "the key 'yield_time_ms' is there twice"),
        ("{} " + "x" * 5000, "characters: at most 4096 are read"),
    ],
)
async def test_wrong_pragma_is_a_failure_in_words_and_no_cell_is_left(
    house: House, language: str, written: str, why: str
) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        seen = await session.exec(pragma(language, written) + "await hold(1)")
        assert isinstance(seen, Failed)
        assert seen.error.code == "INVALID_INPUT"
        assert why in seen.error.message
        assert seen.error.hint is not None
        assert seen.error.span is not None
        assert seen.error.span.line == 1
        assert await session.cells() == []
        assert latch.came == []


@in_both
async def test_pragma_without_a_colon_is_told_of(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(f"{SIGN[language]} @exec {{}}\n1")
        assert isinstance(seen, Failed)
        assert "there is no colon after '@exec'" in seen.error.message


@in_both
async def test_pragma_of_another_line_or_language_is_a_comment(house: House, language: str) -> None:
    latch = Latch()
    await latch.let_go()
    async with await house.open(language, latch.tool) as session:
        assert result(await session.exec("\n" + pragma(language, '{"yield_time_ms": 0}') + "await hold(1)")) == 1
        assert result(await session.exec(f"{SIGN[language]} @executive: 1\nawait hold(2)")) == 2


# -- what is refused before -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (-1, "max_output_tokens is between 0 and"),
        (2**60, "max_output_tokens is between 0 and"),
        (True, "max_output_tokens is a whole number, not bool"),
        (1.5, "max_output_tokens is a whole number, not float"),
        ("9", "max_output_tokens is a whole number, not str"),
    ],
)
@behaviour
async def test_budget_that_is_no_number_is_refused_and_no_cell_is_left(house: House, wrong: Any, why: str) -> None:
    async with await house.open("python") as session:
        with pytest.raises(InvalidInput) as refused:
            await session.exec("1", max_output_tokens=wrong)
        assert refused.value.message.startswith(why)
        assert await session.cells() == []


@pytest.mark.parametrize(
    ("code", "more", "code_of_error"),
    [
        (17, {}, "INVALID_INPUT"),
        ("x" * (1 << 21), {}, "INVALID_INPUT"),
        ("1", {"inputs": {"not a name": 1}}, "INVALID_INPUT"),
        ("1", {"inputs": {"x": object()}}, "INVALID_INPUT"),
        ("1", {"limits": {"cpu_ms": 10**9}}, "INVALID_LIMITS"),
        ("'\ud800'", {}, "SYNTAX_ERROR"),
    ],
    ids=["not text", "too long", "no name", "no json", "too wide", "half a character"],
)
@behaviour
async def test_request_that_does_not_fit_is_a_failure_and_no_cell_is_left(
    house: House, code: Any, more: dict[str, Any], code_of_error: str
) -> None:
    async with await house.open("python") as session:
        assert error_code(await session.exec(code, **more)) == code_of_error
        assert await session.cells() == []


# -- what is told -----------------------------------------------------------------------------------------------------


async def _file(session: Session, seen: Any) -> str:
    assert seen.saved_output == f"/outputs/{seen.cell_id}.txt"
    return await session.files.read_text(seen.saved_output)


@in_both
async def test_long_text_is_cut_in_its_middle_with_a_marker_and_saved_whole(house: House, language: str) -> None:
    text = "a" * 500 + "b" * 500
    async with await house.open(language) as session:
        seen = await session.exec("text(given)", inputs={"given": text}, max_output_tokens=20)
        assert isinstance(seen, Completed)
        (shown,) = texts(seen)
        path = f"/outputs/{seen.cell_id}.txt"
        marker = f"\n[… 920 bytes (about 230 tokens) are missing here; they are in {path} …]\n"
        assert shown == "a" * 40 + marker + "b" * 40
        assert await _file(session, seen) == text + "\n"


@in_both
async def test_cut_never_splits_a_character(house: House, language: str) -> None:
    text = "€" * 300
    async with await house.open(language) as session:
        for tokens in (1, 2, 3, 4, 5):
            seen = await session.exec("text(given)", inputs={"given": text}, max_output_tokens=tokens)
            (shown,) = texts(seen)
            head, _, rest = shown.partition("\n[… ")
            tail = rest.rpartition(" …]\n")[2]
            assert set(head + tail) <= {"€"}
            assert len((head + tail).encode()) <= tokens * 4
            missing = int(rest.split(" ")[0])
            assert missing == len(text.encode()) - len((head + tail).encode())


@in_both
async def test_what_fits_is_told_whole_and_no_file_is_made(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec("text(given)", inputs={"given": "x" * 80}, max_output_tokens=20)
        assert (texts(seen), seen.saved_output) == (["x" * 80], None)
        with pytest.raises(FileNotFound):
            await session.files.read_text(f"/outputs/{seen.cell_id}.txt")


@in_both
async def test_budget_is_clamped_by_the_host(strict: House, language: str) -> None:
    async with await strict.open(language) as session, reading(session) as events:
        for tokens in (None, 10, 11, 10**6):
            cell_id = await start(session, "text(given)", inputs={"given": "z" * 1000}, max_output_tokens=tokens)
            await events.until("cell.completed", cell_id)
            assert texts(await session.wait(cell_id))[0].count("z") == 40


@in_both
async def test_error_is_kept_when_nothing_else_is(house: House, language: str) -> None:
    code = "text('before')\n" + program(language, "fail")
    async with await house.open(language) as session:
        seen = await session.exec(code, max_output_tokens=0)
        assert isinstance(seen, Failed)
        assert "no way" in seen.error.message
        assert "before" not in "".join(texts(seen))
        assert "6 bytes" in "".join(texts(seen))
        assert await _file(session, seen) == "before\n"


@in_both
async def test_images_are_not_cut(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(
            "text(given)\nimage('https://example.com/a.png')\ntext(given)",
            inputs={"given": "z" * 1000},
            max_output_tokens=5,
        )
        assert [item["type"] for item in seen.content if item["type"] == "input_image"] == ["input_image"]
        assert "".join(texts(seen)).count("z") == 20
        assert await _file(session, seen) == "z" * 1000 + "\n[image https://example.com/a.png]\n" + "z" * 1000 + "\n"


@in_both
async def test_saved_output_has_what_came_after_a_first_cut_observation(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        code = "text(given)\nawait hold(1)\ntext('and more')\nawait hold(2)\ntext('the end')"
        cell_id = await start(session, code, inputs={"given": "x" * 1000}, max_output_tokens=10)
        await latch.until_came()
        first = await session.wait(cell_id, yield_ms=0)
        assert isinstance(first, Yielded)
        assert await _file(session, first) == "x" * 1000 + "\n"
        await latch.let_go(1)
        await latch.until_came(2)
        second = await session.wait(cell_id, yield_ms=0)
        assert (texts(second), second.saved_output) == (["and more"], None)
        await latch.let_go()
        last = await session.wait(cell_id)
        assert (texts(last), last.saved_output) == (["the end"], None)
        whole = await session.files.read_text(f"/outputs/{cell_id}.txt")
        assert whole == "x" * 1000 + "\nand more\nthe end\n"


@in_both
async def test_each_observation_has_the_whole_budget(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session:
        cell_id = await start(
            session, "text(given)\nawait hold(1)\ntext(given)", inputs={"given": "x" * 40}, max_output_tokens=10
        )
        await latch.until_came()
        first = await session.wait(cell_id, yield_ms=0)
        await latch.let_go()
        last = await session.wait(cell_id)
        assert texts(first) == texts(last) == ["x" * 40]
        assert first.saved_output is None
        assert last.saved_output is None


@in_both
async def test_result_that_is_too_large_is_shown_as_text_and_is_whole_in_the_file(house: House, language: str) -> None:
    value = {"items": ["x" * 50 for _ in range(50)]}
    async with await house.open(language) as session:
        seen = await session.exec("text('said');\ngiven", inputs={"given": value}, max_output_tokens=20)
        assert isinstance(seen, Completed)
        assert seen.result is None
        assert "RESULT_TOO_LARGE" in codes(seen)
        said, shown = texts(seen)
        assert said == "said"
        assert shown.startswith('{"items": ["')
        assert "are missing here" in shown
        whole = await _file(session, seen)
        assert whole.startswith("said\n")
        assert whole.count("x") == 2500
        # The cell ended well: what it made is the session's.
        assert result(await session.exec("1")) == 1


@in_both
async def test_small_results_are_values_whatever_the_budget(house: House, language: str) -> None:
    async with await house.open(language) as session:
        for value in (17, 1.5, True, None):
            assert result(await session.exec("given", inputs={"given": value}, max_output_tokens=0)) == value


@in_both
async def test_output_past_the_sessions_own_bound_is_dropped_and_said_so(language: str) -> None:
    limits = SessionLimits(wall_ms=LONG, cpu_ms=LONG, max_stdout_bytes=100)
    async with House(limits=limits) as house:
        session = await house.open(language)
        seen = await session.exec("text(given)\ntext('lost')", inputs={"given": "x" * 90 + "€€€€"})
        assert isinstance(seen, Completed)
        assert texts(seen)[0] == "x" * 90 + "€€€"
        assert "STDOUT_EXCEEDED" in codes(seen)
