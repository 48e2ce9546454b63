"""Signatures for programs in TypeScript."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister import Cloister
from cloister.core.capability import Capability
from cloister.tools import Tool
from cloister.tools.typescript import typescript_signature

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "enum", "const", "$ref", "required", "object", "array", "#/"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def test_parameters_are_written_as_one_object() -> None:
    def find(
        order_id: str, kinds: list[Literal["a", "b"]], limit: int = 10, note: str | None = None
    ) -> dict[str, float]:
        return {}

    assert typescript_signature(Tool(find, namespace="shop").capability) == (
        'shop.find({order_id: string, kinds: ("a" | "b")[], limit?: number, note?: string | null}): '
        "Promise<Record<string, number>>"
    )


def test_tool_without_parameters_takes_none() -> None:
    def ping() -> str:
        return "pong"

    assert typescript_signature(Tool(ping).capability) == "ping(): Promise<string>"


@given(st.dictionaries(st.sampled_from(["type", "properties", "items", "anyOf", "enum", "$ref", "required"]), JSON))
def test_any_schema_has_a_signature(schema: dict[str, Any]) -> None:
    made = typescript_signature(Capability("tool", input_schema=schema, output_schema=schema))
    assert made.startswith("tool(")


@pytest.mark.anyio
async def test_bad_argument_in_typescript_shows_how_typescript_writes_the_call() -> None:
    async def get_order(order_id: str) -> str:
        return order_id

    async with Cloister(tools=[get_order]) as cloister:
        session = await cloister.open_session(language="typescript")
        for code in ("await tools.get_order({order_id: 5})", "await tools.get_ordr({})"):
            error = (await session.run(code)).error
            assert error is not None
            assert error.hint is not None
            assert "get_order({order_id: string}): Promise<string>" in error.hint
