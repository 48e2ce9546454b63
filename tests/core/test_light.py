"""Light dataclasses are made in another way, and are the same in every other."""

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from cloister.core.light import light


@dataclass(frozen=True, slots=True)
class Plain:
    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list[int])
    fourth: int | None = field(default=4, kw_only=True)
    fifth: str = field(default="always", init=False)


@light
@dataclass(frozen=True, slots=True)
class Light:
    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list[int])
    fourth: int | None = field(default=4, kw_only=True)
    fifth: str = field(default="always", init=False)


@light
@dataclass(frozen=True, slots=True, kw_only=True)
class Longer(Light):
    sixth: int = 6


def values(made: Any) -> dict[str, Any]:
    return {one.name: getattr(made, one.name) for one in fields(made)}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((1,), {}),
        ((1, "b", [3]), {"fourth": None}),
        ((), {"third": [1, 2], "first": 0, "fourth": 9}),
    ],
)
def test_a_light_class_holds_what_a_plain_one_would(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    made = Light(*given, **named)
    assert values(made) == values(Plain(*given, **named))
    assert repr(made) == repr(Plain(*given, **named)).replace("Plain", "Light")
    assert made == Light(*given, **named)
    assert replace(made, second="c") == Light(made.first, "c", made.third, fourth=made.fourth)
    assert pickle.loads(pickle.dumps(made)) == made
    assert values(Longer(*given, **named, sixth=7)) == {**values(made), "sixth": 7}


def test_a_light_class_is_called_like_a_plain_one_and_stays_frozen() -> None:
    assert inspect.signature(Light) == inspect.signature(Plain)
    assert Light(1).third is not Light(1).third
    call: Any = Light
    for wrong in (lambda: call(), lambda: call(1, "b", [], 4), lambda: call(1, fifth="x")):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(FrozenInstanceError):
        Light(1).first = 2  # type: ignore[misc]


def test_a_class_with_work_of_its_own_after_init_cannot_be_light() -> None:
    class Careful:
        def __post_init__(self) -> None: ...

    with pytest.raises(TypeError, match="Careful has a __post_init__"):
        light(Careful)
