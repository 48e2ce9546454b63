"""`secret` in Python programs, as Monty is answered."""

from typing import Any

import pytest

from cloister.engines.monty.standins import handle_for
from cloister.ports.secrets import handle

MARK = "q7w3e9r5t1y8u2i6o4p0"


@pytest.mark.parametrize(("args", "kwargs"), [(("TOKEN",), {}), ((), {"name": "TOKEN"})])
def test_name_may_be_given_by_position_or_by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert handle_for(MARK, args, kwargs) == {"return_value": handle(MARK, "TOKEN")}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), (("A", "B"), {}), (("A",), {"name": "B"}), ((), {"key": "A"}), ((b"A",), {}), ((None,), {})],
)
def test_anything_else_is_a_value_error(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert handle_for(MARK, args, kwargs)["exc_type"] == "ValueError"
