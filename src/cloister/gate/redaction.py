"""Takes the values of secrets out of everything that leaves a session or is written down about it.

Wherever a value stands, in one of the forms of `forms.py` and one of the readings of `readings.py`, `[secret NAME]`
stands afterwards. What has no value in it comes back as the same object.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from cloister.core.diagnostic import ErrorObject
from cloister.core.value import Json
from cloister.gate.forms import Needle, Needles, gather, needles_of
from cloister.gate.scan import Begun, decoded, encoded, redacted, scan, scan_open
from cloister.ports.secrets import SecretProvider

# How many values are remembered that the provider no longer has.
_MOST_FORMER = 64
# From this length on the beginning of a value counts as the value where nobody waits for the rest of it.
_TELLING = 8
# A needle's byte takes at most this many in a text, and so many line breaks may stand between.
_WIDEST = 16
_MOST_BREAKS = 4096


class Redactor:
    """Scrubs a provider's values, those that it has now and those that it had. May be used from any thread."""

    def __init__(self, provider: SecretProvider) -> None:
        self._provider = provider
        self._generation: int | None = None
        self._needles = Needles()
        self._forms: dict[tuple[str, str], tuple[Needle, ...]] = {}
        # value -> name, what the provider has and what it had; an answer may hold a value that was replaced meanwhile.
        self._current: dict[str, str] = {}
        self._former: OrderedDict[str, str] = OrderedDict()
        # Needles belong to the values that were last seen; two rebuilds must not mix theirs.
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        """Whether there is anything to scrub."""
        return bool(self.needles().anchored)

    def learn(self, name: str, value: str) -> None:
        """From now on scrub this too."""
        if value not in self._current and value not in self._former:
            with self._lock:
                self._former[value] = name
                self._rebuild()

    def text(self, text: str) -> str:
        needles = self.needles()
        if not needles or not text:
            return text
        data = encoded(text)
        spots = scan(data, needles)
        return redacted(data, spots) if spots else text

    def value(self, value: Json) -> Json:
        """The same with every text in it scrubbed, keys too. A number whose digits are a value becomes a text."""
        needles = self.needles()
        if not needles or value is None or value is True or value is False:
            return value
        texts = [str(item) for item in _leaves(value, numbers=needles.numeric)]
        # One look at all of it: nearly always there is nothing, and no part needs to be looked at by itself.
        if not scan(encoded("\0".join(texts)), needles):
            return value
        clean = self._scrubbed(value)
        return value if clean == value else clean

    def error(self, error: ErrorObject) -> ErrorObject:
        code, message = self.text(error.code), self.text(error.message)
        hint = self.text(error.hint) if error.hint is not None else None
        if (code, message, hint) == (error.code, error.message, error.hint):
            return error
        return replace(error, code=code, message=message, hint=hint)

    def stream(self) -> "Stream":
        return Stream(self)

    def needles(self) -> Needles:
        if self._provider.generation != self._generation:
            with self._lock:
                self._refresh()
        return self._needles

    # -- inside ----------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        # Read before the values: a change in between is seen next time.
        generation = self._provider.generation
        current: dict[str, str] = {}
        for name in self._provider.names():
            if (secret := self._provider.get(name)) is not None:
                current.setdefault(secret.value, name)
        for value, name in self._current.items():
            if value not in current:
                self._former[value] = name
        self._current = current
        self._rebuild()
        self._generation = generation

    def _rebuild(self) -> None:
        for value in self._current:
            self._former.pop(value, None)
        while len(self._former) > _MOST_FORMER:
            self._former.popitem(last=False)
        known = {(name, value) for values in (self._current, self._former) for value, name in values.items()}
        self._forms = {item: self._forms.get(item) or needles_of(*item) for item in sorted(known)}
        self._needles = gather(needle for needles in self._forms.values() for needle in needles)

    def _scrubbed(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._scrubbed(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            out: dict[str, Any] = {}
            for key, item in cast("dict[str, Any]", value).items():
                clean, count = self.text(key), 1
                shown = clean
                # Two keys may read alike once the values are out of them; neither is lost.
                while shown in out:
                    count += 1
                    shown = f"{clean} ({count})"
                out[shown] = self._scrubbed(item)
            return out
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            shown = self.text(str(value))
            return value if shown == str(value) else shown
        return value


class Stream:
    """A text that comes in pieces, such as what a program prints: a value is caught across pieces and line breaks.

    What could still become a value is held back, and no more than that.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = b""
        # How much of what is held was shown before, as a marker: see `expect`.
        self._shown = 0

    def feed(self, text: str) -> str:
        """What is safe to be seen so far and was not returned before."""
        needles = self._redactor.needles()
        if not needles and not self._held:
            return text
        data = self._held + encoded(text)
        spots, hold, _ = scan_open(data, needles)
        if len(data) - hold > _WIDEST * needles.longest + _MOST_BREAKS:
            hold = len(data)
        shown, self._shown = self._shown, max(self._shown - hold, 0)
        self._held = data[hold:]
        return redacted(data[:hold], [spot for spot in spots if spot[1] <= hold], min(shown, hold))

    def flush(self) -> str:
        """Everything that was held back: nothing more comes."""
        data, self._held = self._held, b""
        shown, self._shown = self._shown, 0
        return redacted(data, scan(data, self._redactor.needles()), shown)

    def peek(self) -> str:
        """What is held back, as it may be seen while the rest is still to come. It stays held back."""
        spots = scan(self._held, self._redactor.needles())
        if (begun := self._telling()) is not None:
            spots.append((begun.start, begun.end, begun.needle.name))
        return redacted(self._held, spots, self._shown)

    def begun(self) -> tuple[str, str, int, str] | None:
        """The value whose beginning `peek` hides: its name, how it is written, how much of it is there, and what of an
        escape follows. It tells nothing of the value, so that it may be kept where the value may not."""
        begun = self._telling()
        if begun is None:
            return None
        follows = decoded(self._held[begun.end :]).strip("\r\n")
        return begun.needle.name, begun.needle.form, begun.size, follows

    def expect(self, name: str, form: str, size: int, follows: str) -> None:
        """Go on where another stream was: what it had `begun` is shown already, and the rest may come."""
        needle = next((n for _, n in self._redactor.needles().anchored if (n.name, n.form) == (name, form)), None)
        if needle is not None:
            # The value may be another by now. That does no harm: what is taken from it here is never shown.
            self._held = needle.data[:size] + encoded(follows)
            self._shown = len(self._held)

    def _telling(self) -> Begun | None:
        begun = scan_open(self._held, self._redactor.needles())[2]
        if begun is None or len(decoded(self._held[begun.start : begun.end])) < _TELLING:
            return None
        return begun


def _leaves(value: Json, *, numbers: bool) -> Iterable[Any]:
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack += item
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        elif numbers and isinstance(item, (int, float)) and not isinstance(item, bool):
            yield item
