"""The secrets port: where the values come from that programs use and never see.

A program writes `secret("NAME")` and gets a *handle*, a text that stands for the value. The gate puts the value in its
place when a tool is called that the secret is allowed for, and takes it out of everything that comes back.

What a provider must keep: `names` and `get` are quick and may be called from any thread, and `generation` only ever
grows, with every change of a name, a value or what a secret is allowed for.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cloister.core.errors import InvalidInput

SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
MIN_CHARACTERS = 4
MAX_BYTES = 64 << 10

_ALLOWED = re.compile(r"\*|[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|\*))?", re.ASCII)


def handle(mark: str, name: str) -> str:
    """What `secret(name)` gives in a session with this mark. Engines in other languages write the same text."""
    return f"~secret.{mark}.{name}."


@dataclass(frozen=True, slots=True)
class Secret:
    """A value, and the tools that it may be given to: full names, `shop.*` for a namespace, `*` for every tool.

    Nothing is allowed that is not written out. The value is never part of `repr`.
    """

    value: str = field(repr=False)
    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_value(self.value)
        _check_allowed(self.allowed)

    def allows(self, capability: str) -> bool:
        """Whether it may be given to the tool with this full name."""
        namespace, dot, _ = capability.partition(".")
        return capability in self.allowed or "*" in self.allowed or (bool(dot) and f"{namespace}.*" in self.allowed)


class SecretProvider(Protocol):
    @property
    def generation(self) -> int: ...

    def names(self) -> Sequence[str]: ...

    def get(self, name: str) -> Secret | None: ...


def _check_value(value: object) -> None:
    # What is wrong is said without the value: this text ends up in logs.
    if not isinstance(value, str):
        raise InvalidInput(f"the value of a secret is text, not {type(value).__name__}", hint="write it as text")
    if len(value.replace("\n", "").replace("\r", "")) < MIN_CHARACTERS:
        raise InvalidInput(
            f"the value of a secret has at least {MIN_CHARACTERS} characters, line breaks not counted",
            hint="a shorter one would be found in texts that have nothing to do with it",
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput(
            "the value of a secret is text that can be written as UTF-8", hint="remove the half surrogate pair"
        ) from None
    if size > MAX_BYTES:
        raise InvalidInput(
            f"the value of a secret has at most {MAX_BYTES} bytes, not {size}",
            hint="keep large data where the tool can read it, and let the secret be the key to it",
        )


def _check_allowed(allowed: object) -> None:
    if not isinstance(allowed, tuple):
        raise InvalidInput(
            f"`allowed` is a list of tools, not {type(allowed).__name__}", hint='write them one by one: ["shop.buy"]'
        )
    for tool in allowed:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(tool, str) or not _ALLOWED.fullmatch(tool):
            raise InvalidInput(
                f"{tool!r} is not a tool that a secret can be allowed for",
                hint="use a tool's full name, `shop.*` for a namespace, or `*` for every tool",
            )
