"""Values of the host that a source sends along and that nobody else may see: tokens in headers, keys, passwords.

A value is a text, or a function that gives one and is asked each time, so that a rotated secret is the new one. What
comes back from the other side is searched for the values that were sent: an echo of them reaches no program.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import quote

from cloister.core.value import Json
from cloister.ports.source import SourceFailed

Value: TypeAlias = str | Callable[[], str]

# Shorter ones would be found in texts that have nothing to do with them.
_SHORTEST = 6
_SECRET_NAME = re.compile(r"auth|cookie|token|secret|passw|credential|api.?key|key$", re.IGNORECASE)


class Held:
    """A text that is not shown, as a function that gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "<held>"


def given(value: Value, what: str) -> str:
    """The text of `value`. Raises `SourceFailed`, which names `what` and never the value."""
    if isinstance(value, str):
        return value
    text: object
    try:
        text = value()
    # Containment: a provider of the host; what its exception says may have the secret in it.
    except Exception as error:  # noqa: BLE001
        raise SourceFailed(f"{what} could not be had: {type(error).__name__}", gone=True) from None
    if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SourceFailed(f"{what} could not be had: its function gave no text", gone=True)
    return text


def is_secret(name: str, value: Value) -> bool:
    """Whether what is sent under this name must not be seen: what a function gave, or what is called like a secret."""
    return not isinstance(value, str) or _SECRET_NAME.search(name) is not None


class Veil:
    """Covers values in whatever comes back. An empty one costs nothing."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms: set[str] = set()
        for secret in secrets:
            # A header has a scheme in front: the token alone is as secret.
            for part in {secret, secret.rpartition(" ")[2]}:
                if len(part) >= _SHORTEST:
                    forms |= {part, quote(part, safe=""), base64.b64encode(part.encode()).decode().rstrip("=")}
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    @classmethod
    def over(cls, sent: Mapping[str, Value], texts: Mapping[str, str]) -> "Veil":
        """Over those of `texts` that are secret by their name or by where they came from."""
        return cls(texts[name] for name, value in sent.items() if is_secret(name, value) and name in texts)

    def text(self, text: str) -> str:
        return self._pattern.sub("[secret]", text) if self._pattern else text

    def json(self, value: Json) -> Json:
        return self._json(value) if self._pattern else value

    def _json(self, value: Any) -> Any:
        # The value is bounded in depth by whoever read it.
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._json(part) for part in cast("list[Any]", value)]
        if isinstance(value, dict):
            parts = cast("dict[str, Any]", value)
            return {self.text(name): self._json(part) for name, part in parts.items()}
        return value
