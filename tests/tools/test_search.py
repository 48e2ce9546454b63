"""Searching among tools: the right one comes first, in a catalog of five thousand, and always in the same order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister import Tool, ToolRegistry
from cloister.tools.search import Index, IndexCache, words
from tests.tools.many_tools import ASKED, many_tools


@pytest.fixture(scope="module")
def tools() -> list[Tool]:
    return many_tools()


@pytest.fixture(scope="module")
def index(tools: list[Tool]) -> Index:
    return Index(tools)


def _tool(name: str, description: str = "", *parameters: str, namespace: str | None = None) -> Tool:
    schema: dict[str, Any] = {"type": "object", "properties": {key: True for key in parameters}}

    async def handler(**_named: object) -> None: ...

    return Tool.from_schema(
        name=name, description=description, namespace=namespace, handler=handler, input_schema=schema
    )


def _names(tools: list[Tool]) -> list[str]:
    return [tool.full_name for tool in tools]


def test_right_tool_is_among_the_first_three_for_nearly_all_questions(index: Index) -> None:
    missed = [
        (query, right, _names(index.search(query, 3)))
        for query, right in ASKED
        if right not in _names(index.search(query, 3))
    ]
    assert len(ASKED) == 50
    assert len(missed) <= 5, missed


def test_every_labelled_tool_is_there(tools: list[Tool]) -> None:
    assert len(tools) == 5000
    there = {tool.full_name for tool in tools}
    assert [right for _, right in ASKED if right not in there] == []


def test_whole_name_finds_its_tool_first(index: Index, tools: list[Tool]) -> None:
    some = tools[:200]
    assert [tool.full_name for tool in some if _names(index.search(tool.full_name, 1)) != [tool.full_name]] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listPullRequests", ["list", "pull", "request"]),
        ("list_pull_requests", ["list", "pull", "request"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("categories running stopped merges", ["category", "run", "stop", "merg"]),
        ("", []),
    ],
)
def test_names_are_taken_apart_into_words(text: str, said: list[str]) -> None:
    assert words(text) == said


def test_parameter_and_namespace_are_found_too() -> None:
    index = Index([_tool("a", "", "tracking_number"), _tool("b", namespace="weather"), _tool("c", "Something else.")])
    assert _names(index.search("tracking", 5)) == ["a"]
    assert _names(index.search("weather", 5)) == ["weather.b"]


def test_tools_of_equal_weight_come_in_the_order_of_their_names() -> None:
    tools = [_tool(f"find_{letter}", "Find it.") for letter in "dbca"]
    assert _names(Index(tools).search("find it", 3)) == ["find_a", "find_b", "find_c"]


def test_query_without_a_known_word_finds_nothing() -> None:
    assert Index([_tool("a", "Some words.")]).search("zzz ??? ü", 5) == []
    assert Index([]).search("anything", 5) == []


def test_query_of_nothing_but_small_words_is_still_a_query() -> None:
    assert _names(Index([_tool("get"), _tool("put")]).search("get", 5)) == ["get"]


def test_index_is_built_once_for_registries_with_the_same_tools() -> None:
    cache, registry = IndexCache(), ToolRegistry([_tool("a")])
    built = cache.get(registry)
    other = registry.copy()
    assert cache.get(other) is built
    other.register(_tool("b"))
    assert cache.get(other) is not built
    assert cache.get(registry) is built


@given(st.text(max_size=60), st.integers(1, 20))
def test_any_query_has_an_answer_in_a_stable_order(index: Index, query: str, limit: int) -> None:
    found = _names(index.search(query, limit))
    assert len(found) <= limit
    assert len(set(found)) == len(found)
    assert found == _names(index.search(query, limit))
    # More is the same with more at the end.
    assert _names(index.search(query, limit + 5))[: len(found)] == found
