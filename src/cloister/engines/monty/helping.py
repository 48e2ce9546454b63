"""The helpers inside a Python program: what it gave in, Monty's answer out. Nothing waits here."""

from collections.abc import Mapping
from typing import Any

from cloister.core.value import Bounds, Json, ValueRefused
from cloister.engines.monty.readable import readable
from cloister.engines.monty.values import outward
from cloister.ports.helping import HELPERS, Helper, HelperRefused

# An image is the one thing that is larger than other values may be.
_IMAGE = Bounds(size=8 << 20)


def helped(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], helper: Helper) -> dict[str, Any]:
    """The answer to a call of the helper `name`, as Monty takes it."""
    given = _arranged(HELPERS[name], args, kwargs)
    if given is None:
        return _raised("TypeError", f"{name}() takes {' and '.join(HELPERS[name]) or 'nothing'}")
    if name == "exit":
        # Nothing but the program's own `except` stands between this and a good end.
        return _raised("SystemExit", "")
    try:
        return {"return_value": helper(name, _plain(name, given))}
    except HelperRefused as refused:
        return _raised("ValueError", refused.message)
    except ValueRefused as refused:
        return _raised("ValueError", f"{name}: {refused.message}")


def _raised(kind: str, message: str) -> dict[str, Any]:
    return {"exc_type": kind, "message": message}


def _arranged(parameters: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any] | None:
    """The arguments in order, or None if they are not those."""
    rest = parameters[len(args) :]
    if len(args) > len(parameters) or set(kwargs) != set(rest):
        return None
    return [*args, *(kwargs[name] for name in rest)]


def _plain(name: str, given: list[Any]) -> tuple[Json, ...]:
    match name:
        case "text" | "notify":
            return (readable(given[0]),)
        case "image":
            return (outward(given[0], _IMAGE)[0],)
        case "store":
            return (_key(name, given[0]), outward(given[1])[0])
        case "load":
            return (_key(name, given[0]),)
        case _:
            return ()


def _key(name: str, given: Any) -> str:
    if not isinstance(given, str):
        raise ValueRefused("", f"the key is text, not {type(given).__name__}")
    return given
