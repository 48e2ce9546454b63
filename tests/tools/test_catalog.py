"""The catalog of a registry: names, stubs and signatures, under a revision that says whether they changed."""

import ast
from collections.abc import Callable
from typing import Any

import pytest

from cloister.core.capability import SideEffect
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits
from cloister.tools import Tool, ToolRegistry
from cloister.tools.catalog import render_catalog


def find(order_id: str) -> str:
    """Find it."""
    return order_id


def find_many(order_id: str, most: int = 5) -> str:
    return order_id * most


def _revision(*tools: Tool, language: Language = Language.PYTHON) -> str:
    return render_catalog(ToolRegistry(tools), language).revision


def test_catalog_names_every_tool_as_programs_write_it() -> None:
    made = render_catalog(ToolRegistry([Tool(find), Tool(find, namespace="shop")]), Language.PYTHON)
    assert made.names == {"find", "shop.find"}
    assert made.signatures == {
        "find": "find(order_id: str) -> str",
        "shop.find": "find(order_id: str) -> str",
    }


def test_catalog_has_stubs_of_plain_tools_and_modules_of_namespaces() -> None:
    made = render_catalog(ToolRegistry([Tool(find), Tool(find_many, namespace="shop")]), Language.PYTHON)
    functions = [node.name for node in ast.parse(made.stubs).body if isinstance(node, ast.AsyncFunctionDef)]
    assert functions == ["find"]
    assert set(made.modules) == {"shop"}
    assert "async def find_many(" in made.modules["shop"]


def test_catalog_of_nothing_is_empty() -> None:
    made = render_catalog(ToolRegistry(), Language.PYTHON)
    assert (made.names, made.stubs, made.modules, made.signatures) == (frozenset(), "", {}, {})


def test_typescript_catalog_has_no_python_in_it() -> None:
    made = render_catalog(ToolRegistry([Tool(find), Tool(find, namespace="shop")]), Language.TYPESCRIPT)
    assert (made.stubs, made.modules) == ("", {})
    assert made.names == {"find", "shop.find"}


def test_revision_is_the_same_for_the_same_tools_in_any_order() -> None:
    assert _revision(Tool(find), Tool(find_many)) == _revision(Tool(find_many), Tool(find))


def test_revision_of_nothing_differs_from_that_of_something() -> None:
    assert _revision() != _revision(Tool(find))


@pytest.mark.parametrize(
    "changed",
    [
        lambda: Tool(find, name="found"),
        lambda: Tool(find, namespace="shop"),
        lambda: Tool(find, description="other words"),
        lambda: Tool(find, side_effect=SideEffect.READ),
        lambda: Tool(find_many, name="find", description="Find it."),
    ],
    ids=["name", "namespace", "description", "side effect", "parameters"],
)
def test_revision_changes_with_anything_a_program_could_see(changed: Callable[[], Any]) -> None:
    assert _revision(changed()) != _revision(Tool(find))


def test_revision_does_not_change_with_what_no_program_sees() -> None:
    assert _revision(Tool(find, limits=CapabilityLimits(timeout_ms=1), idempotent=False)) == _revision(Tool(find))
