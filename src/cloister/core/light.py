"""A cheaper `__init__` for frozen dataclasses that are made many times for each program.

The one that `dataclasses` writes goes through `object.__setattr__` for every field, which in a run of a small program
costs more than all its checks together. This one puts the values where the slots are: same signature, same defaults,
frozen as before. Nothing else about the class changes; it must have slots and no `__post_init__`.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from types import FunctionType
from typing import Any, TypeVar, cast

T = TypeVar("T")


def light(cls: type[T]) -> type[T]:
    """To be put above `@dataclass(frozen=True, slots=True)`."""
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__} has a __post_init__, which a light class cannot have")
    written = cast("FunctionType", cls.__init__)
    code, named = written.__code__, written.__kwdefaults__ or {}
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    given, only_named = names[: code.co_argcount - 1], names[code.co_argcount - 1 :]
    left_out = dict(zip(reversed(given), reversed(written.__defaults__ or ()), strict=False)) | named
    space: dict[str, Any] = {}
    lines: list[str] = []
    for field in fields(cast("Any", cls)):
        name = field.name
        space[f"_put_{name}"] = cls.__dict__[name].__set__ if name in cls.__dict__ else getattr(cls, name).__set__
        value = name
        if not field.init:
            space[f"_is_{name}"], value = field.default, f"_is_{name}"
        elif field.default_factory is not MISSING:
            space[f"_make_{name}"], space[f"_none_{name}"] = field.default_factory, left_out[name]
            value = f"_make_{name}() if {name} is _none_{name} else {name}"
        lines.append(f"  _put_{name}(self, {value})")
    head = ", ".join(["self", *given, *(["*", *only_named] if only_named else [])])
    # The names are those of fields, which are identifiers.
    exec(f"def __init__({head}):\n" + "\n".join(lines), space)  # noqa: S102
    made = cast("FunctionType", space["__init__"])
    made.__defaults__, made.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
    made.__annotations__, made.__qualname__, made.__module__ = (
        written.__annotations__,
        written.__qualname__,
        cls.__module__,
    )
    cls.__init__ = cast("Callable[..., None]", made)
    return cls
