"""What a provider is to say, whatever format it says it in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """An answer. Streamed or not is decided by the request; texts come in `pieces` each."""

    text: str = ""
    reasoning: str = ""
    # Name and arguments, as text.
    calls: Sequence[tuple[str, str]] = ()
    # Name and text, of calls of custom tools: OpenAI's responses only.
    customs: Sequence[tuple[str, str]] = ()
    # In the format's own words; otherwise what fits the answer. An empty one is left out.
    finish: str | None = None
    input_tokens: int = 20
    cached_tokens: int = 5
    output_tokens: int = 7
    pieces: int = 2
    # Instead of the rest of the stream, after so many events: the connection is cut, or nothing more comes until
    # `server.go` is set, or the stream ends as if it were complete, or this is said and it ends.
    cut_after: int | None = None
    stall_after: int | None = None
    end_after: int | None = None
    error_after: tuple[int, Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class Raw:
    """Whatever one likes. A body of several parts is sent part by part."""

    status: int = 200
    body: bytes | Sequence[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    # Cut the connection before anything is said; `broken`: where the body should have ended.
    cut: bool = False
    broken: bool = False


def split(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[at : at + size] for at in range(0, len(text), size)]
