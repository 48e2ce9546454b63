"""Programs that use files without help of their interpreter: what `load` is asked by certain names goes to them."""

import json
from collections.abc import Callable

from cloister.cells import answers as cells_answers
from cloister.core.value import Json
from cloister.ports.helping import Helper
from cloister.sessions import making


def through_load(put: Callable[[object, str, object], None], crash: Callable[[], object] | None = None) -> None:
    """From now on `load('files.read ["/a", "text"]')` is that helper, and `load('crash')` calls `crash`, both in the
    middle of a step as any helper. `put` is `setattr`, or one that is undone."""
    real = cells_answers.answers

    def answers(*parts: object) -> Helper:
        helper = real(*parts)  # pyright: ignore[reportArgumentType]

        def answer(name: str, arguments: tuple[Json, ...]) -> Json:
            match name, arguments:
                case "load", ("crash",) if crash is not None:
                    crash()
                    return None
                case "load", (str(asked),) if asked.startswith("files."):
                    name, _, given = asked.partition(" ")
                    return helper(name, tuple(json.loads(given)))
                case _:
                    return helper(name, arguments)

        return answer

    put(making, "answers", answers)


def ask(name: str, *arguments: Json) -> str:
    """As an expression in either language."""
    return f"load({json.dumps(f'files.{name} {json.dumps(list(arguments))}')})"


def append(path: str, text: str) -> str:
    return ask("write", path, text, "text", "a")


def read(path: str) -> str:
    return ask("read", path, "text")
