"""`cloister files`: the files of a session, as it has them in the store."""

import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cloister.cli.exits import FAILED, OK
from cloister.cli.failures import UsageError, complain
from cloister.cli.kept.session import Force, write_whole
from cloister.cli.kept.where import HERE, Place, SessionId, tell
from cloister.cli.options import AsJson
from cloister.cli.source import STANDARD_INPUT
from cloister.cli.tables import show
from cloister.cli.terminal import flat, one_json_object, safe
from cloister.core.wire import to_json

if TYPE_CHECKING:
    from cloister.core.file import FileInfo, FileMatch
    from cloister.ports.store import Store
    from cloister.sessions.files import Files

FilePath = Annotated[str, Parameter(help="In the session: a/b.txt, /a/b.txt and /workspace/a/b.txt are the same.")]
Root = Annotated[str, Parameter(help="The directory.  [default: the whole of it]", show_default=False)]
Local = Annotated[str, Parameter(help="A file or a directory here; - is standard input.")]
LocalOut = Annotated[str | None, Parameter(help="Where it goes here.  [default: its name]")]
To = Annotated[str | None, Parameter(help="Where it goes in the session.  [default: its name]")]
Recursive = Annotated[
    bool, Parameter(name=["--recursive", "-r"], negative="", show_default=False, help="With all that is below.")
]
Pattern = Annotated[str, Parameter(help="A regular expression (RE2), for a line.", allow_leading_hyphen=True)]
Literal_ = Annotated[
    bool, Parameter(name=["--literal", "-F"], negative="", show_default=False, help="The pattern is plain text.")
]
Glob = Annotated[str | None, Parameter(help="Only files whose paths fit, such as '*.md'.")]
Limit = Annotated[int, Parameter(help="Lines at most.")]
Other = Annotated[str, Parameter(help="Another session; or a directory here, with a / in its name: ./report.")]
_TEXT_MOST = 1 << 20


def ls(
    session: SessionId,
    path: Root = "/",
    /,
    *,
    recursive: Recursive = False,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    async def work(files: "Files") -> "list[FileInfo]":
        return [await files.stat(one.path) for one in await files.list(path, recursive=recursive)]

    found = _look(place, session, work)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "session": session, "path": path, "entries": [to_json(one) for one in found]})
        return OK
    rows = [
        (
            one.path + ("/" if one.kind == "directory" else ""),
            one.size_bytes if one.kind == "file" else "",
            one.modified_at,
            "read-only" if one.read_only else "",
        )
        for one in found
    ]
    show(["path", "bytes", "changed", ""], rows, "there are no files")
    return OK


def cat(session: SessionId, path: FilePath, /, *, place: Place = HERE) -> int:
    async def work(files: "Files") -> bytes:
        return await files.read(path)

    data = _look(place, session, work)
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(data)
        return OK
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path!r} is not text", f"cloister files get {session} {path} FILE takes it out") from None
    print(safe(text), end="" if text.endswith("\n") or not text else "\n")
    return OK


def put(session: SessionId, local: Local, path: To = None, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import belongings

    if local == STANDARD_INPUT and path is None:
        raise UsageError("standard input has no name", "say where it goes in the session")
    given = _gathered(local, path)
    limits = place.settings().file_limits()

    async def work(store: "Store") -> None:
        async with belongings(store, session, limits) as had:
            for name, data in given:
                await had.files.write(name, data)

    place.do(work)
    size = sum(len(data) for _, data in given)
    written = [name for name, _ in given]
    tell(as_json, {"session": session, "written": written, "size_bytes": size}, "")
    return OK


def get(
    session: SessionId,
    path: FilePath,
    local: LocalOut = None,
    /,
    *,
    force: Force = False,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    async def work(files: "Files") -> dict[str, bytes] | bytes:
        if (await files.stat(path)).kind == "file":
            return await files.read(path)
        root = (await files.stat(path)).path.rstrip("/")
        below = [one.path for one in await files.list(path, recursive=True) if one.kind == "file"]
        return {one.removeprefix(root + "/"): await files.read(one) for one in below}

    found = _look(place, session, work)
    name = local or Path(path.rstrip("/")).name or session
    if isinstance(found, bytes):
        if name == STANDARD_INPUT:
            sys.stdout.buffer.write(found)
            return OK
        target = Path(name) / Path(path).name if Path(name).is_dir() else Path(name)
        write_whole(target, found, over=force)
        done = [str(target)]
    else:
        done = _lay_out(Path(name), found)
    tell(as_json, {"session": session, "path": path, "written": done}, "")
    return OK


def rm(
    session: SessionId,
    path: FilePath,
    /,
    *,
    recursive: Recursive = False,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    from cloister.app.kept import belongings

    async def work(store: "Store") -> tuple[bool, bool]:
        async with belongings(store, session) as had:
            return await had.files.exists(path), await had.files.delete(path, recursive=recursive)

    was_there, gone = place.do(work)
    if not gone:
        why = "is a directory with something in it" if was_there else "is not there"
        complain(f"{path!r} {why}", "--recursive removes all that is below" if was_there else None)
        return FAILED
    tell(as_json, {"session": session, "deleted": path}, "")
    return OK


def grep(
    session: SessionId,
    pattern: Pattern,
    path: Root = "/",
    /,
    *,
    glob: Glob = None,
    literal: Literal_ = False,
    limit: Limit = 1000,
    place: Place = HERE,
    as_json: AsJson = False,
) -> int:
    async def work(files: "Files") -> "list[FileMatch]":
        return await files.grep(pattern, path=path, glob=glob, literal=literal, limit=limit)

    found = _look(place, session, work)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "session": session, "matches": [to_json(one) for one in found]})
    else:
        for one in found:
            print(flat(f"{one.path}:{one.line}:{one.text}"))
        if len(found) >= limit:
            complain(f"these are the first {limit}; there may be more", "--limit says how many are shown")
    return OK if found else FAILED


def diff(session: SessionId, other: Other, /, *, place: Place = HERE, as_json: AsJson = False) -> int:
    from cloister.app.kept import look_at

    here = "/" in other or other in (".", "..")
    if not here and Path(other).is_dir():
        complain(f"{other!r} is taken for a session; the directory is ./{other}")

    async def all_of(store: "Store", name: str) -> dict[str, bytes]:
        async with look_at(store, name) as had:
            below = await had.files.list(recursive=True)
            return {one.path: await had.files.read(one.path) for one in below if one.kind == "file"}

    async def work(store: "Store") -> tuple[dict[str, bytes], dict[str, bytes]]:
        first = await all_of(store, session)
        return first, {} if here else await all_of(store, other)

    ours, theirs = place.do(work)
    if here:
        theirs = {f"/{name.lstrip('/')}": data for name, data in _gathered(other, "/")}
    changes = [
        {"path": path, "change": _change(path, ours, theirs)}
        for path in sorted({*ours, *theirs})
        if ours.get(path) != theirs.get(path)
    ]
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "same": not changes, "changes": changes})
    else:
        for one in changes:
            _show_change(one["path"], session, other, ours.get(one["path"]), theirs.get(one["path"]))
    return FAILED if changes else OK


# -- inside -----------------------------------------------------------------------------------------------------------


def _look(place: Place, session: str, ask: Any) -> Any:
    from cloister.app.kept import look_at

    async def work(store: "Store") -> Any:
        async with look_at(store, session) as had:
            return await ask(had.files)

    return place.do(work)


def _gathered(local: str, path: str | None) -> list[tuple[str, bytes]]:
    """A file, or all files below a directory: symbolic links and what is no file are left out, and named."""
    if local == STANDARD_INPUT:
        return [(path or "", sys.stdin.buffer.read())]
    root = Path(local)
    try:
        if not root.is_dir():
            name = path or root.name
            return [(name + root.name if name.endswith("/") else name, root.read_bytes())]
        # As a copy of directories does: beneath its own name, unless that is said.
        base = (path if path is not None else root.resolve().name).rstrip("/")
        found: list[tuple[str, bytes]] = []
        for above, directories, names in os.walk(root):
            directories.sort()
            for name in sorted([*names, *(one for one in directories if (Path(above) / one).is_symlink())]):
                one = Path(above) / name
                if one.is_symlink() or not one.is_file():
                    complain(f"left out, as it is no plain file: {one}")
                    continue
                found.append((f"{base}/{one.relative_to(root).as_posix()}", one.read_bytes()))
        return found
    except OSError as error:
        raise UsageError(f"{str(error.filename or local)!r} cannot be read: {error.strerror}") from None


def _lay_out(target: Path, found: dict[str, bytes]) -> list[str]:
    """Files below a directory that is made now, so that nothing in it leads elsewhere."""
    try:
        target.mkdir(mode=0o700)
        for name, data in found.items():
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as out:
                out.write(data)
    except FileExistsError:
        raise UsageError(f"{str(target)!r} is there already", "name a directory that is not") from None
    except OSError as error:
        raise UsageError(f"{str(error.filename or target)!r} cannot be written: {error.strerror}") from None
    return [str(target / name) for name in found]


def _change(path: str, ours: dict[str, bytes], theirs: dict[str, bytes]) -> str:
    if path not in theirs:
        return "removed"
    return "changed" if path in ours else "added"


def _show_change(path: str, session: str, other: str, ours: bytes | None, theirs: bytes | None) -> None:
    names = (
        f"{session}:{path}" if ours is not None else "/dev/null",
        f"{other}:{path}" if theirs is not None else "/dev/null",
    )
    try:
        first, second = (ours or b"").decode(), (theirs or b"").decode()
    except UnicodeDecodeError:
        first = second = None
    if first is None or second is None or max(len(first), len(second)) > _TEXT_MOST:
        print(flat(f"{names[0]} and {names[1]} differ"))
        return
    lines = list(difflib.unified_diff(first.splitlines(), second.splitlines(), *names, lineterm=""))
    for line in lines or [f"{names[0]} and {names[1]} differ in their ends of lines"]:
        print(flat(line))
