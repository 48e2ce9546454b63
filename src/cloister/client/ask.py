"""One request, as plain data: where it goes, what it says, how its answer is read, and whether it may be sent twice.

Made by the functions in `asks`, sent by either client. Knows neither sockets nor which of the two it is.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from cloister.core.errors import InvalidInput

T = TypeVar("T")
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer: what is in it, as JSON."""

    status: int
    data: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    method: Method
    path: str
    read: Callable[[Reply], T]
    # None: no body.
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    # The server does it once, however often it comes.
    keyed: bool = False
    # What the server may take by our own wish, beside the client's timeout; None for as long as it takes.
    takes_ms: int | None = 0

    @property
    def repeatable(self) -> bool:
        return self.keyed or self.method == "GET"

    def content(self) -> bytes | None:
        if self.body is None:
            return None
        try:
            # ASCII, so that half a surrogate pair gets there, to be refused by who knows.
            return json.dumps(self.body, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the body for {self.path} is no JSON: {error}") from None


def at(*parts: str) -> str:
    """`/v1/…`, with each part as one segment whatever is in it."""
    return "/v1/" + "/".join(map(segment, parts))


def segment(part: str) -> str:
    if not part:
        raise InvalidInput("an id or a name of nothing is none")
    # Dots alone would be taken for steps in the path.
    return part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="")


def below(base: str, path: str) -> str:
    """`path` with its slashes, under a route that takes the rest of the address."""
    return "/".join((base, *(segment(part) if part else "" for part in path.split("/"))))


def asked(**given: Any) -> dict[str, Any]:
    """A body of what was given."""
    return {name: value for name, value in given.items() if value is not None}


def query(**given: object) -> dict[str, str]:
    return {
        name: ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None
    }
