"""What a cell says: texts, prints, images and notes, in order; and how it ends by itself."""

from collections.abc import AsyncIterator

import pytest

from cloister import Completed, Failed
from tests.cells.lab import (
    House,
    Latch,
    behaviour,
    error_code,
    in_both,
    program,
    reading,
    result,
    start,
    texts,
    to_the_end,
)

PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with House() as made:
        yield made


# -- the end ----------------------------------------------------------------------------------------------------------


@in_both
async def test_exit_is_success_and_nothing_after_it_runs(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec("text('a')\nexit()\ntext('b')")
    assert isinstance(seen, Completed)
    assert seen.result is None
    assert texts(seen) == ["a"]


@in_both
async def test_exit_keeps_what_was_assigned_and_stored(house: House, language: str) -> None:
    async with await house.open(language) as session:
        await session.exec(program(language, "let", "x", 5) + "\nstore('k', 6)\nexit()")
        assert result(await session.exec("[x, load('k')]")) == [5, 6]


@in_both
async def test_exit_inside_a_function_ends_the_whole_cell(house: House, language: str) -> None:
    leave = {"python": "def leave():\n    exit()", "typescript": "function leave() { exit() }"}[language]
    async with await house.open(language) as session:
        seen = await session.exec(f"{leave}\ntext('a')\nleave()\ntext('b')")
        assert (result(seen), texts(seen)) == (None, ["a"])


@in_both
async def test_exit_cannot_be_caught(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(program(language, "caught", "exit()") + "\ntext('went on')")
        assert (result(seen), texts(seen)) == (None, [])


@in_both
async def test_output_before_a_failure_is_kept(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec("text('a')\n" + program(language, "print", "'b'") + "\n" + program(language, "fail"))
    assert isinstance(seen, Failed)
    assert texts(seen) == ["a", "b\n"]
    assert "no way" in seen.error.message
    assert seen.error.span is not None
    assert seen.error.span.line == 3


@in_both
async def test_value_of_a_cell_is_its_last_expression(house: House, language: str) -> None:
    async with await house.open(language) as session:
        assert result(await session.exec("text('x');\n[1, 'two']")) == [1, "two"]


# -- text -------------------------------------------------------------------------------------------------------------


@in_both
async def test_helpers_give_nothing_back(house: House, language: str) -> None:
    names = "text(1), image(url), notify('n'), store('k', 1), yield_control()"
    code = {
        "python": f"[given is None for given in [{names}]]",
        "typescript": f"[{names}].map(given => given === undefined)",
    }[language]
    async with await house.open(language) as session:
        cell_id = await start(session, code, inputs={"url": PIXEL})
        assert result(await to_the_end(session, cell_id)) == [True] * 5


@pytest.mark.parametrize(
    ("language", "value", "written"),
    [
        ("python", "'a\\nb'", "a\nb"),
        ("typescript", "'a\\nb'", "a\nb"),
        ("python", "''", ""),
        ("typescript", "''", ""),
        ("python", "42", "42"),
        ("typescript", "42", "42"),
        ("python", "1.5", "1.5"),
        ("typescript", "1.5", "1.5"),
        ("python", "{'a': [1, 'ä']}", '{"a": [1, "ä"]}'),
        ("typescript", "{a: [1, 'ä']}", '{"a":[1,"ä"]}'),
        ("python", "[1, None, True]", "[1, null, true]"),
        ("typescript", "[1, null, true]", "[1,null,true]"),
        ("python", "None", "null"),
        ("typescript", "null", "null"),
        ("typescript", "undefined", "undefined"),
        ("python", "ValueError('no')", "ValueError: no"),
        ("typescript", "new RangeError('no')", "RangeError: no"),
    ],
)
@behaviour
async def test_text_of_a_value_is_what_a_reader_expects(house: House, language: str, value: str, written: str) -> None:
    async with await house.open(language) as session:
        assert texts(await session.exec(f"text({value})")) == [written]


@in_both
async def test_text_of_a_value_that_holds_itself_is_shown_all_the_same(house: House, language: str) -> None:
    code = {
        "python": "v = [1, 'two']\nv.append(v)\ntext(v)\n'on'",
        "typescript": "const v = [1, 'two']; v.push(v); text(v); 'on'",
    }[language]
    async with await house.open(language) as session:
        seen = await session.exec(code)
    assert result(seen) == "on"
    (written,) = texts(seen)
    assert "two" in written
    assert len(written) < 1000


@in_both
async def test_prints_texts_and_images_come_in_the_order_they_were_made(house: House, language: str) -> None:
    def say(what: str) -> str:
        return program(language, "print", repr(what))

    code = "\n".join([say("1"), say("2"), "text('3')", "image(url)", say("4"), "text('5')", "text('6')", say("7")])
    async with await house.open(language) as session:
        seen = await session.exec(code, inputs={"url": PIXEL})
    assert [item.get("text", item["type"]) for item in seen.content] == [
        "1\n2\n",
        "3",
        "input_image",
        "4\n",
        "5",
        "6",
        "7\n",
    ]


# -- images -----------------------------------------------------------------------------------------------------------


@in_both
async def test_images_by_https_by_data_and_with_a_detail_are_shown_as_they_are(house: House, language: str) -> None:
    given = {"image_url": PIXEL, "detail": "low"}
    async with await house.open(language) as session:
        code = "image('https://example.com/a.png')\nimage(url)\nimage(given)"
        seen = await session.exec(code, inputs={"given": given, "url": PIXEL})
    assert isinstance(seen, Completed)
    assert seen.content == (
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "input_image", "image_url": PIXEL},
        {"type": "input_image", "image_url": PIXEL, "detail": "low"},
    )


@in_both
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("http://example.com/a.png", "http:"),
        ("file:///etc/passwd", "file:"),
        ("picture.png", "not a URL"),
        ("", "empty"),
        ("https://", "no host"),
        ("https://a b/c", "blanks"),
        ("data:text/plain;base64,aGk=", "not an image"),
        ("data:image/png,abc", "base64"),
        ("data:image/png;base64,", "no data"),
        ("data:image/png;base64,###", "not base64"),
        (5, "a number"),
        (None, "nothing"),
        ([PIXEL], "an array"),
        ({"url": PIXEL}, "'url'"),
        ({"detail": "low"}, "needs 'image_url'"),
        ({"image_url": PIXEL, "detail": "huge"}, "unknown detail"),
    ],
)
async def test_what_is_no_image_is_refused_by_name_and_can_be_caught(
    house: House, language: str, source: object, why: str
) -> None:
    async with await house.open(language) as session:
        seen = await session.exec(program(language, "caught", "image(given)"), inputs={"given": source})
        said = result(seen)
        assert said.startswith("caught ")
        assert why in said
        assert seen.content == ()


@in_both
async def test_refused_image_that_nobody_catches_fails_the_cell(house: House, language: str) -> None:
    async with await house.open(language) as session:
        seen = await session.exec("text('before')\nimage('nowhere')")
        assert error_code(seen) == "RUNTIME_ERROR"
        assert texts(seen) == ["before"]


# -- notify -----------------------------------------------------------------------------------------------------------


@in_both
async def test_note_becomes_an_event_and_is_no_output(house: House, language: str) -> None:
    async with await house.open(language) as session, reading(session) as events:
        seen = await session.exec("notify('half way')")
        assert isinstance(seen, Completed)
        assert seen.content == ()
        told = await events.until("cell.notified")
        assert told.data == {"cell_id": seen.cell_id, "message": "half way"}


@in_both
async def test_note_is_told_while_the_cell_goes_on(house: House, language: str) -> None:
    latch = Latch()
    async with await house.open(language, latch.tool) as session, reading(session) as events:
        cell_id = await start(session, "notify('waiting')\nawait hold(7)")
        assert (await events.until("cell.notified", cell_id)).data["message"] == "waiting"
        assert "cell.completed" not in events.kinds
        await latch.let_go()
        assert result(await session.wait(cell_id)) == 7


@in_both
@pytest.mark.parametrize("nothing", ["", "  \n\t"])
async def test_note_that_says_nothing_is_refused_and_can_be_caught(house: House, language: str, nothing: str) -> None:
    async with await house.open(language) as session, reading(session) as events:
        seen = await session.exec(program(language, "caught", "notify(nothing)"), inputs={"nothing": nothing})
        assert "notify() needs something to say" in result(seen)
        await events.until("cell.completed")
        assert "cell.notified" not in events.kinds


@in_both
async def test_listener_of_exec_hears_output_as_it_is_made(house: House, language: str) -> None:
    heard: list[tuple[str, str]] = []
    code = program(language, "print", "'a'") + "\ntext('b')\n" + program(language, "print", "'c'")
    async with await house.open(language) as session:
        await session.exec(code, on_output=lambda kind, text: heard.append((kind, text)))
    assert heard == [("stdout", "a\n"), ("text", "b"), ("stdout", "c\n")]
