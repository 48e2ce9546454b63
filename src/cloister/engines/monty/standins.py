"""What stands in a program for functions that are not in it: tools, helpers and `secret`."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_monty import ExternalModule

from cloister.ports.secrets import SECRET_NAME, handle

SECRET = "secret"  # noqa: S105


def stand_in(name: str) -> Any:
    """A host function that stands for one of ours. Monty only reads its name; it is never called."""

    def tool() -> None:
        raise AssertionError("a stand-in is never called")

    tool.__name__ = tool.__qualname__ = name
    return tool


def modules_of(names: Iterable[str]) -> dict[str, Any]:
    """What `from namespace import tool` finds, by the namespace."""
    tree: dict[str, dict[str, Any]] = {}
    for full in names:
        namespace, dot, name = full.partition(".")
        if dot:
            tree.setdefault(namespace, {})[name] = stand_in(name)
    return {space: ExternalModule(tools) for space, tools in tree.items()}


def handle_for(mark: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to `secret(name)`, as Monty takes it."""
    given = (*args, *kwargs.values())
    if len(given) == 1 and kwargs.keys() <= {"name"} and isinstance(given[0], str) and SECRET_NAME.match(given[0]):
        return {"return_value": handle(mark, given[0])}
    # What was given is not repeated: it may be the value itself, by mistake.
    message = "secret() takes the name of a secret: up to 64 letters, digits and underscores, and no digit first"
    return {"exc_type": "ValueError", "message": message}
