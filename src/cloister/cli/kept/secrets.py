"""`cloister secrets`: what a session's programs may use and never see. A value comes from standard input or is typed
without being shown; never from the command line, where histories and process lists would keep it."""

import getpass
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cloister.cli.exits import FAILED, OK
from cloister.cli.failures import UsageError, complain
from cloister.cli.kept.where import HERE, Place, SessionId, tell
from cloister.cli.options import AsJson
from cloister.cli.tables import show
from cloister.cli.terminal import one_json_object
from cloister.core.wire import format_time

if TYPE_CHECKING:
    from cloister.ports.rows import SecretRow
    from cloister.ports.store import Store

Name = Annotated[str, Parameter(help='As programs name it: secret("NAME").')]
Allow = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        metavar="TOOL",
        help="A tool that may have it, by its full name; NAMESPACE.* or * for more. Repeatable. Without it one that is "
        "replaced is allowed for what it was.",
    ),
]
_MOST = 1 << 20


def list_(session: SessionId, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import found
    from cloister.ports.clock import moment
    from cloister.sessions.vault import allowed_of

    async def work(store: "Store") -> "list[SecretRow]":
        row = await found(store, session)
        return sorted(await store.secrets(row.id), key=lambda one: one.name)

    rows = place.do(work)
    if as_json:
        secrets: list[dict[str, Any]] = [
            {
                "name": row.name,
                "allowed": list(allowed_of(row)),
                "created_at": format_time(moment(row.created_ms)),
                "updated_at": format_time(moment(row.updated_ms)),
            }
            for row in rows
        ]
        with one_json_object() as write:
            write({"ok": True, "session": session, "secrets": secrets})
        return OK
    lines = [(row.name, allowed_of(row), moment(row.updated_ms)) for row in rows]
    show(["name", "allowed for", "updated"], lines, "there are no secrets")
    return OK


def set_(
    session: SessionId, name: Name, /, *, allow: Allow = None, place: Place = HERE, as_json: AsJson = False
) -> int:
    from cloister.app.kept import belongings

    value = _value(name)

    async def work(store: "Store") -> None:
        async with belongings(store, session) as had:
            await had.secrets.take_up(await store.secrets(session))
            await had.secrets.set(name, value, allow=allow)

    place.do(work)
    tell(as_json, {"session": session, "name": name}, "")
    return OK


def delete(session: SessionId, name: Name, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import claimed
    from cloister.ports.rows import Drop

    async def work(store: "Store") -> bool:
        async with claimed(store, session) as ours:
            # One that no key opens any more can go as well.
            if all(row.name != name for row in await store.secrets(session)):
                return False
            await ours.write([Drop("secrets", (session, name))])
            return True

    if not place.do(work):
        complain(f"session {session!r} has no secret {name!r}")
        return FAILED
    tell(as_json, {"session": session, "deleted": name}, "")
    return OK


def _value(name: str) -> str:
    if sys.stdin is None:
        raise UsageError("standard input is closed", "the value is read from there")
    if sys.stdin.isatty():
        try:
            value = getpass.getpass(f"value of {name}: ")
        except EOFError:
            value = ""
    else:
        data = sys.stdin.buffer.read(_MOST + 1)
        try:
            # One line end is the shell's, not the secret's.
            value = data.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise UsageError("a secret is UTF-8 text") from None
    if not value:
        raise UsageError("there is no value", f"echo -n VALUE | cloister secrets set …, or type it: {name} is not set")
    return value
