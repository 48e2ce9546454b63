"""Programs that use files without help of their interpreter: what `load` is asked by certain names goes to them."""

import json
from collections.abc import Callable

import pytest

from cloister.cells import answers as cells_answers
from cloister.core.value import Json
from cloister.ports.helping import Helper
from cloister.sessions import making


def through_load(monkeypatch: pytest.MonkeyPatch, crash: Callable[[], object]) -> None:
    """From now on `load('files.read ["/a", "text"]')` is that helper, and `load('crash')` calls `crash`, both in the
    middle of a step as any helper."""
    real = cells_answers.answers

    def answers(*parts: object) -> Helper:
        helper = real(*parts)  # pyright: ignore[reportArgumentType]

        def answer(name: str, arguments: tuple[Json, ...]) -> Json:
            match name, arguments:
                case "load", ("crash",):
                    crash()
                    return None
                case "load", (str(asked),) if asked.startswith("files."):
                    name, _, given = asked.partition(" ")
                    return helper(name, tuple(json.loads(given)))
                case _:
                    return helper(name, arguments)

        return answer

    monkeypatch.setattr(making, "answers", answers)


def ask(name: str, *arguments: Json) -> str:
    """As an expression in either language."""
    return f"load({json.dumps(f'files.{name} {json.dumps(list(arguments))}')})"


def append(path: str, text: str) -> str:
    return ask("write", path, text, "text", "a")


def read(path: str) -> str:
    return ask("read", path, "text")
