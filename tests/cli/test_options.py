import pytest

from cloister.app.config import Config
from cloister.app.config.layers import together
from cloister.cli.failures import UsageError
from cloister.cli.options import DEFAULTS, parse_inputs
from cloister.core.limits import SessionLimits


def test_inputs_are_json_of_any_kind() -> None:
    assert parse_inputs(['a={"b": [1, null]}', "c=-1.5", 'd="x=y"']) == {"a": {"b": [1, None]}, "c": -1.5, "d": "x=y"}


@pytest.mark.parametrize("pair", ["n", "=1", "1n=1", "a-b=1", "n=", "n=NaN", "n={'a': 1}", "n=" + "[" * 100_000])
def test_input_that_is_not_name_and_json_is_refused_by_name(pair: str) -> None:
    with pytest.raises(UsageError, match="--input"):
        parse_inputs([pair])


def test_input_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_inputs(["n=1", "n=2"])


def test_limits_default_to_those_of_a_session() -> None:
    assert DEFAULTS.limits(Config(together([]))) == SessionLimits()
