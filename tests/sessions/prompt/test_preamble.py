"""The preamble: within its budget whatever there is, the same bytes while nothing changes, and growing at its end."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister import InvalidInput, Language, PromptPart, SessionLimits, Tool, ToolRegistry
from cloister.sessions.prompt import SLOTS, PreambleWriter
from cloister.sessions.prompt.preamble import LEAST_BUDGET
from tests.sessions.ways import LANGUAGES, House

pytestmark = pytest.mark.anyio


async def _nothing(**_named: object) -> None: ...


def _tool(name: str, description: str = "", parameters: int = 1, *, namespace: str | None = None) -> Tool:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {f"p{number}": {"type": "string", "description": description} for number in range(parameters)},
    }
    return Tool.from_schema(
        name=name, namespace=namespace, description=description, handler=_nothing, input_schema=schema
    )


def _writer(registry: ToolRegistry, *parts: PromptPart, language: Language = Language.PYTHON) -> PreambleWriter:
    return PreambleWriter(registry, language, SessionLimits(), lambda: parts)


texts = st.text(max_size=300)
parts = st.builds(PromptPart, st.sampled_from(SLOTS), texts, st.integers(-5, 5))
descriptions = st.lists(st.tuples(texts, st.integers(0, 6), st.booleans()), max_size=25)
languages = st.sampled_from(Language)


def _tools(described: list[tuple[str, int, bool]]) -> list[Tool]:
    return [
        _tool(f"tool{number}", text, size, namespace="space" if spaced else None)
        for number, (text, size, spaced) in enumerate(described)
    ]


@given(descriptions, st.lists(parts, max_size=5), st.integers(LEAST_BUDGET, 3000), languages)
def test_it_is_never_over_its_budget(
    described: list[tuple[str, int, bool]], contributed: list[PromptPart], budget: int, language: Language
) -> None:
    registry = ToolRegistry(_tools(described))
    made = _writer(registry, *contributed, language=language).write(budget)
    assert len(made.text.encode()) <= budget * 4
    assert made.tokens <= budget
    assert made.full + made.brief + made.unlisted == len(registry)


@given(descriptions, st.integers(LEAST_BUDGET, 3000), languages)
def test_one_more_tool_changes_nothing_before_its_own_place(
    described: list[tuple[str, int, bool]], budget: int, language: Language
) -> None:
    tools = _tools(described)
    registry = ToolRegistry()
    writer = _writer(registry, language=language)
    before = writer.write(budget)
    for tool in tools:
        registry.register(tool)
        after = writer.write(budget)
        # Until the budget is exhausted, and again from then on.
        if (after.brief == 0 and after.unlisted == 0) or before.brief > 0:
            shown = before.text if before.unlisted == 0 else before.text[: before.text.rindex("\n", 0, -1)]
            if before.full + before.brief:
                assert after.text.startswith(shown)
                assert (after.full, after.brief) >= (before.full, before.brief)
        before = after


@given(descriptions, languages)
def test_equal_tools_give_equal_bytes(described: list[tuple[str, int, bool]], language: Language) -> None:
    first = _writer(ToolRegistry(_tools(described)), language=language).write(1000)
    second = _writer(ToolRegistry(_tools(described)), language=language).write(1000)
    assert first == second


def test_tools_are_told_in_full_then_in_a_line_then_by_the_search_alone() -> None:
    registry = ToolRegistry([_tool(f"tool{number}", "It does something useful. " * 4, 4) for number in range(300)])
    made = _writer(registry).write(2500)
    assert made.full > 0
    assert made.brief > 0
    assert made.unlisted == 300 - made.full - made.brief > 0
    assert made.text.index("async def tool0(") < made.text.index(f"- tool{made.full}(p0, p1, p2, p3): It does")
    assert made.text.endswith(f"\n{made.unlisted} more tools are not listed: search for them.\n")
    assert made.tokens > 2300


def test_all_tools_are_told_in_full_where_they_fit() -> None:
    registry = ToolRegistry([_tool(f"tool{number}", "Useful.") for number in range(10)])
    made = _writer(registry).write(2000)
    assert (made.full, made.brief, made.unlisted) == (10, 0, 0)
    assert "not listed:" not in made.text


@pytest.mark.parametrize("language", Language)
def test_smallest_budget_still_says_what_this_is_and_how_to_find_tools(language: Language) -> None:
    made = _writer(ToolRegistry([_tool("a")]), language=language).write(LEAST_BUDGET)
    assert "You act by writing" in made.text
    assert "search_tools" in made.text
    assert "rules" in made.left_out


def test_texts_stand_in_their_slots_in_their_order() -> None:
    contributed = [
        PromptPart("notes", "note two", 2),
        PromptPart("notes", "note one", 1),
        PromptPart("intro", "before us", -1),
        PromptPart("tools", "about the tools"),
    ]
    text = _writer(ToolRegistry([_tool("a")]), *contributed).write().text
    places = [text.index(part) for part in ("before us", "You act by", "## Rules", "## Finding", "## Notes")]
    places += [text.index(part) for part in ("note one", "note two", "## Tools", "about the tools", "async def a(")]
    assert places == sorted(places)


def test_text_that_does_not_fit_is_left_out_whole_and_named() -> None:
    made = _writer(ToolRegistry(), PromptPart("notes", "x" * 5000), PromptPart("rules", "short")).write(1000)
    assert made.left_out == ("notes",)
    assert "xx" not in made.text
    assert "short" in made.text


@pytest.mark.parametrize("budget", [LEAST_BUDGET - 1, 0, -1, 1.5, True, "many", None])
def test_budget_that_is_none_is_refused(budget: Any) -> None:
    with pytest.raises(InvalidInput, match="token_budget"):
        _writer(ToolRegistry()).write(budget)


@pytest.mark.parametrize(
    ("slot", "text", "order"), [("end", "x", 0), ("notes", "x" * 20_001, 0), ("notes", 5, 0), ("notes", "x", "1")]
)
def test_part_that_is_none_is_refused(slot: Any, text: Any, order: Any) -> None:
    with pytest.raises(InvalidInput):
        PromptPart(slot, text, order)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_it_shows_can_be_run(language: str) -> None:
    async def buy(sku: str) -> str:
        """Buy something."""
        return sku

    async with House() as house:
        session = await house.open(language, Tool(buy, namespace="shop"))
        text = session.preamble().text
        assert session.preamble().text is text
        if language == "python":
            assert "# from shop import buy\nasync def buy(sku: str) -> str:" in text
            result = await session.run("from shop import buy\nawait buy('tea')")
        else:
            assert "declare namespace shop {" in text
            result = await session.run("await shop.buy({sku: 'tea'})")
        assert result.result == "tea"
