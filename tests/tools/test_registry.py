"""The registry: names, collisions, and a generation that counts every change."""

import pytest

from cloister.core.capability import capability_digest
from cloister.core.errors import InvalidInput
from cloister.tools import Tool, ToolRegistry


def _tool(name: str, namespace: str | None = None) -> Tool:
    def handler() -> str:
        return name

    return Tool(handler, name=name, namespace=namespace)


def test_empty_registry_has_nothing_and_generation_zero() -> None:
    registry = ToolRegistry()
    assert (len(registry), registry.names(), registry.generation) == (0, [], 0)


def test_registered_tool_is_found_by_its_full_name() -> None:
    registry = ToolRegistry([_tool("a"), _tool("b", "space")])
    assert registry.names() == ["a", "space.b"]
    assert "space.b" in registry
    assert "b" not in registry
    assert registry.get("b") is None
    found = registry.get("space.b")
    assert found is not None
    assert found.name == "b"


def test_plain_function_can_be_registered() -> None:
    def ping() -> str:
        return "pong"

    assert ToolRegistry([ping]).names() == ["ping"]


def test_capabilities_are_in_the_order_of_their_names() -> None:
    registry = ToolRegistry([_tool("b"), _tool("a")])
    assert [one.name for one in registry.capabilities()] == ["a", "b"]


def test_second_tool_of_a_name_is_refused_and_the_first_stays() -> None:
    first = _tool("a")
    registry = ToolRegistry([first])
    with pytest.raises(InvalidInput, match="'a'"):
        registry.register(_tool("a"))
    assert registry.get("a") is first
    assert registry.generation == 1


def test_replaced_tool_takes_the_place_of_the_first() -> None:
    registry, second = ToolRegistry([_tool("a")]), _tool("a")
    assert registry.replace(second) is second
    assert registry.get("a") is second
    assert len(registry) == 1


def test_removed_tool_is_gone() -> None:
    registry = ToolRegistry([_tool("a")])
    registry.remove("a")
    assert "a" not in registry
    assert registry.generation == 2


def test_tool_that_is_not_there_cannot_be_removed() -> None:
    registry = ToolRegistry([_tool("b")])
    with pytest.raises(InvalidInput, match="'a'") as refusal:
        registry.remove("a")
    assert "b" in str(refusal.value.hint)
    assert registry.generation == 1


def test_generation_counts_every_change() -> None:
    registry = ToolRegistry()
    seen = [registry.generation]
    for change in (
        lambda: registry.register(_tool("a")),
        lambda: registry.replace(_tool("a")),
        lambda: registry.remove("a"),
    ):
        change()
        seen.append(registry.generation)
    assert seen == sorted(set(seen))


def test_same_name_in_two_namespaces_is_no_collision() -> None:
    assert len(ToolRegistry([_tool("a"), _tool("a", "one"), _tool("a", "two")])) == 3


@pytest.mark.parametrize("order", [("tool", "space"), ("space", "tool")])
def test_tool_cannot_have_the_name_of_a_namespace(order: tuple[str, str]) -> None:
    made = {"tool": _tool("shop"), "space": _tool("a", "shop")}
    registry = ToolRegistry([made[order[0]]])
    with pytest.raises(InvalidInput, match="'shop'"):
        registry.register(made[order[1]])
    assert len(registry) == 1


def test_namespace_s_name_is_free_again_when_its_last_tool_is_gone() -> None:
    registry = ToolRegistry([_tool("a", "shop"), _tool("b", "shop")])
    registry.replace(_tool("a", "shop"))
    registry.remove("shop.a")
    with pytest.raises(InvalidInput, match="'shop'"):
        registry.register(_tool("shop"))
    registry.remove("shop.b")
    registry.register(_tool("shop"))
    assert registry.names() == ["shop"]


def test_tool_of_a_given_schema_is_registered_like_any_other() -> None:
    made = Tool.from_schema(name="find", namespace="shop", description="", handler=lambda: None)
    assert ToolRegistry([made]).get("shop.find") is made


def test_digests_are_those_of_the_capabilities() -> None:
    made = _tool("a")
    assert ToolRegistry([made]).digests() == {"a": capability_digest(made.capability)}


def test_registry_lists_its_tools() -> None:
    made = [_tool("b"), _tool("a")]
    assert set(ToolRegistry(made)) == set(made)


def test_tool_that_cannot_be_described_is_refused_when_it_is_registered() -> None:
    def odd(where: object) -> None: ...

    odd.__annotations__["where"] = "Nowhere"
    registry = ToolRegistry()
    with pytest.raises(InvalidInput, match="odd"):
        registry.register(Tool(odd))
    assert registry.names() == []
