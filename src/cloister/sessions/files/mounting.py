"""What a host gives a session as files, limits and mounts, checked before anything is opened."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from cloister.core.errors import InvalidInput
from cloister.core.file import FileLimits, InitialFile, Mount
from cloister.sessions.files.mounted import RealDirectory
from cloister.sessions.files.paths import ROOT, below, normal_path
from cloister.sessions.files.refusal import Refused

_MOST_MOUNTS = 32
# Below it the host's environments are mounted, each under its id.
ENVIRONMENTS = "/environments"


def check_file_limits(limits: object) -> FileLimits:
    if limits is None:
        return FileLimits()
    if isinstance(limits, FileLimits):
        return limits
    raise InvalidInput(f"files are FileLimits, not {type(limits).__name__}", hint="write FileLimits(max_bytes=...)")


def parse_mounts(mounts: object) -> dict[str, Mount]:
    """By their normal paths; raises `InvalidInput`."""
    if mounts is None:
        return {}
    if not isinstance(mounts, Mapping):
        raise InvalidInput("mounts are a mapping of paths to Mount", hint="write mounts={'/repo': Mount('/srv/repo')}")
    found: dict[str, Mount] = {}
    for path, mount in cast("Mapping[object, object]", mounts).items():
        name = _named(path)
        if not isinstance(mount, Mount):
            raise InvalidInput(f"what is mounted at {name!r} is a Mount, not {type(mount).__name__}")
        if name == ROOT:
            raise InvalidInput("nothing can be mounted at the root", hint="name a directory such as '/repo'")
        if name == ENVIRONMENTS or below(name, ENVIRONMENTS):
            raise InvalidInput(f"{name!r} is where the host's environments are", hint="mount it somewhere else")
        check_apart(name, found)
        found[name] = mount
    if len(found) > _MOST_MOUNTS:
        raise InvalidInput(f"a session has at most {_MOST_MOUNTS} mounts, not {len(found)}")
    return found


def check_apart(name: str, mounts: Iterable[str]) -> None:
    for other in mounts:
        if name == other or below(name, other) or below(other, name):
            raise InvalidInput(f"the mounts {other!r} and {name!r} lie in each other")


def parse_files(files: object) -> dict[str, InitialFile]:
    """What a session begins with, by path; raises `InvalidInput`."""
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise InvalidInput("files are a mapping of paths to text, bytes or InitialFile")
    found: dict[str, InitialFile] = {}
    for path, given in cast("Mapping[object, Any]", files).items():
        name = _named(path)
        if name in found:
            raise InvalidInput(f"the initial file {name!r} is given twice")
        found[name] = given if isinstance(given, InitialFile) else InitialFile(given)
    return found


def open_mounts(mounts: Mapping[str, Mount]) -> dict[str, RealDirectory]:
    opened: dict[str, RealDirectory] = {}
    try:
        for path, mount in mounts.items():
            opened[path] = RealDirectory(mount)
    except BaseException:
        for directory in opened.values():
            directory.close()
        raise
    return opened


def _named(path: object) -> str:
    try:
        return normal_path(path)
    except Refused as refused:
        raise refused.for_host() from None
