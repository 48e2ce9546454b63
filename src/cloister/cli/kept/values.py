"""`cloister values`: what cells have stored, by key."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cloister.cli.exits import FAILED, OK
from cloister.cli.failures import UsageError, complain
from cloister.cli.kept.where import HERE, Place, SessionId, tell
from cloister.cli.options import AsJson
from cloister.cli.tables import show
from cloister.cli.terminal import one_json_object, safe
from cloister.core.wire import format_time

if TYPE_CHECKING:
    from cloister.ports.store import Store

KeyName = Annotated[str, Parameter(help="Under which it is stored.")]
Json = Annotated[
    str, Parameter(help="The value as JSON, or - to read it from standard input.", allow_leading_hyphen=True)
]
_PREVIEW = 100


def list_(session: SessionId, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import look_at

    async def work(store: "Store") -> list[tuple[Any, Any]]:
        async with look_at(store, session) as had:
            stored = await had.values.all()
            return [(info, stored[info.key]) for info in await had.values.list()]

    found = place.do(work)
    if as_json:
        values = [
            {
                "key": info.key,
                "size_bytes": info.size_bytes,
                "created_at": format_time(info.created_at),
                "updated_at": format_time(info.updated_at),
            }
            for info, _ in found
        ]
        with one_json_object() as write:
            write({"ok": True, "session": session, "values": values})
        return OK
    rows = [(info.key, info.size_bytes, info.updated_at, _short(value)) for info, value in found]
    show(["key", "bytes", "updated", "value"], rows, "nothing is stored")
    return OK


def get(session: SessionId, key: KeyName, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import look_at

    nothing = object()

    async def work(store: "Store") -> Any:
        async with look_at(store, session) as had:
            return (await had.values.all()).get(key, nothing)

    value = place.do(work)
    if value is nothing:
        complain(f"session {session!r} has nothing under {key!r}", f"cloister values list {session} shows what it has")
        return FAILED
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "session": session, "key": key, "value": value})
    else:
        print(safe(json.dumps(value, indent=2, ensure_ascii=False)))
    return OK


def set_(session: SessionId, key: KeyName, value: Json, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import belongings

    made = _parsed(value)

    async def work(store: "Store") -> None:
        async with belongings(store, session) as had:
            await had.values.set(key, made)

    place.do(work)
    tell(as_json, {"session": session, "key": key}, "")
    return OK


def delete(session: SessionId, key: KeyName, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import belongings

    async def work(store: "Store") -> bool:
        async with belongings(store, session) as had:
            return await had.values.delete(key)

    if not place.do(work):
        complain(f"session {session!r} has nothing under {key!r}")
        return FAILED
    tell(as_json, {"session": session, "deleted": key}, "")
    return OK


def _parsed(text: str) -> Any:
    from cloister.cli.options import no_constant
    from cloister.cli.source import STANDARD_INPUT

    given = sys.stdin.read() if text == STANDARD_INPUT else text
    try:
        return json.loads(given, parse_constant=no_constant)
    except ValueError:
        shown = given if len(given) <= _PREVIEW else given[:_PREVIEW] + "…"
        raise UsageError(f"{shown!r} is not JSON", f"text has quotes: '{json.dumps(shown)}'") from None
    except RecursionError:
        raise UsageError("the value is nested too deeply") from None


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"
