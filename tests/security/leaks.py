"""Looking for a secret: every way in which its value could be written, in everything that a host or a reader can see.

`Witness` hears all that a Cloister says while a test runs; `found_in` says in which forms a value is in it.
"""

import base64
import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, cast
from urllib.parse import quote, quote_plus

import zstandard

from cloister import Cloister, Event, RunResult, Session
from cloister.engines.quickjs import module_cache
from cloister.engines.quickjs.engine import boot_source
from cloister.engines.quickjs.guest import Guest, Machine
from cloister.sessions.envelope import unseal

KEY = b"k" * 32
_IMAGE_HEADER = 36


def forms_of(value: str) -> dict[str, str]:
    """How `value` could be written. For base64, the part that is the same whatever stands before and after it."""
    raw = value.encode()
    forms = {
        "raw": value,
        "url": quote(value, safe=""),
        "url with slashes": quote(value),
        "url with plus": quote_plus(value),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
        "json": json.dumps(value)[1:-1],
        "json in unicode": json.dumps(value, ensure_ascii=False)[1:-1],
        "json in json": json.dumps(json.dumps(value)[1:-1])[1:-1],
        "repr": repr(value)[1:-1],
    }
    if len(value) >= 12:
        # Cut off somewhere, it is still most of a secret.
        forms["half"] = value[: len(value) // 2 - 1]
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + raw + bytes(3)).decode()
        core = whole[(8 * shift + 5) // 6 : 8 * (shift + len(raw)) // 6]
        forms[f"base64 after {shift}"] = core
        forms[f"base64 after {shift}, url-safe"] = core.translate(str.maketrans("+/", "-_"))
    return forms


def found_in(seen: Iterable[str | bytes], value: str) -> set[str]:
    """The forms of `value` that stand somewhere in `seen`, also where they are broken over lines."""
    texts = [part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") for part in seen]
    texts += [text.translate(None, b"\r\n") for text in texts if b"\n" in text]
    found: set[str] = set()
    for name, form in forms_of(value).items():
        flat = form.replace("\r", "").replace("\n", "")
        # QuickJS keeps text as Latin-1 or UTF-16; everybody else as UTF-8.
        needles = {form.encode(), flat.encode(), form.encode("utf-16-le")}
        if not form.isascii() and max(form) < "\u0100":
            needles.add(form.encode("latin-1"))
        if any(needle in text for text in texts for needle in needles):
            found.add(name)
    return found


def texts_in(value: object) -> Iterable[str | bytes]:
    """Every text in a value, however deep: fields, keys, items. Each by itself, and all of it as JSON-like text."""
    if isinstance(value, (str, bytes)):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from texts_in(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, part in cast("Mapping[Any, Any]", value).items():
            yield from texts_in(key)
            yield from texts_in(part)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in cast("Iterable[Any]", value):
            yield from texts_in(part)
    elif value is not None:
        yield str(value)


def texts_of_snapshot(snapshot: bytes) -> Iterable[str | bytes]:
    """What is in a snapshot once everything in it is unpacked, the engine's own bytes too."""
    yield snapshot
    envelope = unseal(snapshot, KEY)
    yield from texts_in(replace(envelope, state=None))
    if envelope.state is not None:
        yield envelope.state
        if envelope.engine == "quickjs":
            yield _linear_memory(envelope.state)


def _linear_memory(image: bytes) -> bytes:
    dictionary = zstandard.ZstdCompressionDict(_boot_memory(), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdDecompressor(dict_data=dictionary).decompress(image[_IMAGE_HEADER:])


@cache
def _boot_memory() -> bytes:
    guest = Guest(Machine(module_cache.load(), 256), None, 64 << 20)
    try:
        return guest.boot(boot_source()).live
    finally:
        guest.close()


class Witness:
    """Sees what there is to see: output as it comes, events, results, approvals, snapshots, the journal."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.heard: dict[str, str] = {"stdout": "", "stderr": ""}
        self.seen: list[str | bytes] = []

    def hear(self, stream: str, text: str) -> None:
        self.heard[stream] += text

    async def run(self, session: Session, code: str) -> RunResult:
        """Run a program and keep what is in its result, in the snapshot that comes with it and in one made later."""
        result = self.look(await session.run(code, on_output=self.hear, return_snapshot=True))
        for snapshot in filter(None, (result.snapshot, await session.snapshot())):
            self.seen += texts_of_snapshot(snapshot)
        return result

    def look(self, result: RunResult) -> RunResult:
        self.seen += texts_in(replace(result, snapshot=None))
        return result

    async def all(self, cloister: Cloister) -> list[str | bytes]:
        """Everything so far."""
        # Nobody but a test looks into it.
        journal: object = getattr(cloister, "_wiring").journal  # noqa: B009
        return [
            *self.seen,
            *self.heard.values(),
            *texts_in(self.events),
            *texts_in(await cloister.approvals()),
            *texts_in(vars(journal)),
        ]
