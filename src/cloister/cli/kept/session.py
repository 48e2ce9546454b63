"""`cloister session`: sessions in a store, looked at, copied and removed."""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cloister.cli.calls import duration
from cloister.cli.exits import OK
from cloister.cli.failures import UsageError
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.kept.where import HERE, Place, SessionId, Yes, sure, tell
from cloister.cli.options import SAME_LIMITS, AsJson, GrantOptions, KeepOptions, NarrowOptions, Tools
from cloister.cli.source import STANDARD_INPUT
from cloister.cli.tables import facts, show
from cloister.cli.terminal import flat, one_json_object
from cloister.core.wire import to_json

if TYPE_CHECKING:
    from cloister.app.kept import Overview
    from cloister.core.history import PastCell
    from cloister.ports.store import Store

At = Annotated[
    str | None, Parameter(metavar="ID", help="As it was at the end of this cell, or where it waited for this call.")
]
As = Annotated[str | None, Parameter(name="--as", metavar="ID", help="What the copy is called.")]
Out = Annotated[
    str, Parameter(name=["--output", "-o"], metavar="FILE", help="Where it is written; - for standard output.")
]
Force = Annotated[bool, Parameter(name="--force", negative="", show_default=False, help="Write over what is there.")]
SnapshotFile = Annotated[str, Parameter(help="What `session snapshot` wrote; - reads standard input.")]
_MOST = 1 << 30


def list_(*, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import overviews

    found = place.do(overviews)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "sessions": [one.to_json() for one in found]})
        return OK
    rows = [(one.id, one.language, one.last_used_at, _cells(one), one.open_questions or "", one.title) for one in found]
    show(["session", "language", "last used", "open cells", "questions", "title"], rows, "there are no sessions")
    return OK


def show_(session: SessionId, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import found, look_at, overview
    from cloister.sessions.history import read_history

    async def work(store: "Store") -> tuple[Any, ...]:
        row = await found(store, session)
        async with look_at(store, row.id) as had:
            files = [one for one in await had.files.list(recursive=True) if one.kind == "file"]
            values, kept = await had.values.list(), await store.secrets(row.id)
        return await overview(store, row), await read_history(store, row.id), files, values, kept

    seen, history, files, values, kept = place.do(work)
    if as_json:
        more = {
            "files": len(files),
            "file_bytes": sum(one.size_bytes for one in files),
            "values": [one.key for one in values],
            "secrets": sorted(one.name for one in kept),
            "history": [to_json(cell) for cell in history],
        }
        with one_json_object() as write:
            write({"ok": True, "session": {**seen.to_json(), **more}})
        return OK
    facts(
        [
            ("session", seen.id),
            ("title", seen.title),
            ("labels", ", ".join(f"{name}={value}" for name, value in seen.labels.items())),
            ("language", seen.language),
            ("durability", seen.durability),
            ("created", seen.created_at),
            ("last used", seen.last_used_at),
            ("open cells", _cells(seen)),
            ("questions", seen.open_questions or ""),
            ("tools", seen.tools),
            ("files", f"{len(files)}, {sum(one.size_bytes for one in files):,} bytes"),
            ("values", [one.key for one in values]),
            ("secrets", sorted(one.name for one in kept)),
        ]
    )
    _show_history(history)
    return OK


def snapshot(
    session: SessionId,
    /,
    *,
    output: Out,
    at: At = None,
    force: Force = False,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    from cloister.app.kept import moment_of
    from cloister.app.keys import Keys
    from cloister.ports.keys import Purpose
    from cloister.sessions.envelope import seal

    if as_json and output == STANDARD_INPUT:
        raise UsageError("both the snapshot and --json would go to standard output", "name a file")
    if output == STANDARD_INPUT and sys.stdout.isatty():
        raise UsageError("a snapshot is bytes, and standard output is a terminal", "name a file: -o FILE")
    if output != STANDARD_INPUT and not force and os.path.lexists(output):
        raise UsageError(f"{output!r} is there already", "--force writes over it")

    async def work(store: "Store") -> tuple[bytes, tuple[str, ...]]:
        envelope = await moment_of(store, session, at)
        return seal(envelope, await Keys(Purpose.SNAPSHOT).ring(make=True)), envelope.left_out

    data, left_out = place.do(work)
    for one in left_out:
        print(flat(f"cloister: not in the snapshot: {one}"), file=sys.stderr)
    if output == STANDARD_INPUT:
        sys.stdout.buffer.write(data)
        return OK
    write_whole(Path(output), data, over=force)
    done = {"session": session, "file": output, "size_bytes": len(data), "left_out": list(left_out)}
    tell(as_json, done, f"{output}: {len(data):,} bytes")
    return OK


def restore(
    file: SnapshotFile,
    /,
    *,
    name: As = None,
    tools: Tools = None,
    limits: NarrowOptions = SAME_LIMITS,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    restored = run_interruptibly(_restore(_read(file), name, tools, limits, place))
    tell(as_json, {"session": restored}, f"session {restored} is in the store")
    return OK


async def _restore(data: bytes, name: str | None, tools: list[str] | None, limits: NarrowOptions, place: Place) -> str:
    from cloister.app.kept import Workbench
    from cloister.cli.job import read_terms

    terms = read_terms(GrantOptions(tools=tools, config=place.config))
    keep = KeepOptions(session=name or "default", store=place.store)
    async with terms.cloister(keep=keep, kind=Workbench) as bench:
        if bench.find(name or "") is not None:
            raise UsageError(f"there is a session {name!r} already")
        return (await bench.restore_session(data, session_id=name, limits=limits.asked())).id


def fork(
    session: SessionId,
    /,
    *,
    name: As = None,
    at: At = None,
    tools: Tools = None,
    limits: NarrowOptions = SAME_LIMITS,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    from cloister.app.kept import copy_belongings, moment_of
    from cloister.app.keys import Keys
    from cloister.core.ids import IdSource
    from cloister.ports.clock import SystemClock
    from cloister.ports.keys import Purpose
    from cloister.sessions.envelope import seal

    copy = name or IdSource(SystemClock().now_ms).new("ses_")

    async def take(store: "Store") -> bytes:
        return seal(await moment_of(store, session, at), await Keys(Purpose.SNAPSHOT).ring(make=True))

    async def add(store: "Store") -> None:
        await copy_belongings(store, session, copy)

    async def work() -> None:
        async with place.open() as store:
            data = await take(store)
        await _restore(data, copy, tools, limits, place)
        async with place.open() as store:
            await add(store)

    run_interruptibly(work())
    tell(as_json, {"session": copy, "forked_from": session}, f"session {copy} is a copy of {session}")
    return OK


def destroy(session: SessionId, /, *, yes: Yes = False, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import claimed, found
    from cloister.ports.rows import Drop

    async def look(store: "Store") -> None:
        await found(store, session)

    async def work(store: "Store") -> None:
        async with claimed(store, session) as ours:
            await ours.write([Drop("sessions", (session,))])

    place.do(look)
    sure(f"Remove session {session} with its variables, values, files and secrets, for good?", yes)
    place.do(work)
    tell(as_json, {"destroyed": session}, f"session {session} is gone")
    return OK


# -- inside -----------------------------------------------------------------------------------------------------------


def write_whole(path: Path, data: bytes, *, over: bool) -> None:
    """The file is there as a whole or not at all, and only its owner reads it."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(data)
        if over:
            draft.replace(path)
        else:
            os.link(draft, path)
    except FileExistsError:
        raise UsageError(f"{str(path)!r} is there already", "--force writes over it") from None
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _read(file: str) -> bytes:
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(_MOST)
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file!r} cannot be read: {error.strerror}") from None


def _cells(seen: "Overview") -> str:
    return ", ".join(f"{count} {state}" for state, count in seen.cells.items())


def _show_history(history: "list[PastCell]") -> None:
    if not history:
        return
    print()
    rows: list[tuple[object, ...]] = []
    for cell in history:
        rows.append((cell.id, cell.state, cell.created_at, _lasted(cell), _first_line(cell.code)))
        rows += [(f"  {call.id}", call.status or "open", call.requested_at, "", call.name) for call in cell.calls]
    show(["cell or call", "state", "began", "took", "program or tool"], rows, "")


def _lasted(cell: "PastCell") -> str:
    if cell.ended_at is None:
        return ""
    return duration((cell.ended_at - cell.created_at).total_seconds() * 1000)


def _first_line(code: str) -> str:
    line, _, rest = code.strip().partition("\n")
    line = line if len(line) <= 60 else line[:59] + "…"
    return f"{line} …" if rest and not line.endswith("…") else line
