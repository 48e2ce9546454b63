"""Names of files: one namespace, in which every file has exactly one name.

`/workspace/x`, `/x` and `x` are the same file, and `/x` is its name: every path that is handed out can be handed in.
"""

from collections.abc import Iterator

from cloister.sessions.files.refusal import refuse

MAX_PATH = 1024
ROOT = "/"


def normal_path(path: object) -> str:
    """The one name of what `path` names; refused if it can name nothing."""
    if not isinstance(path, str):
        refuse("invalid_path", f"a path is text, not {type(path).__name__}")
    if not path:
        refuse("invalid_path", "a path needs at least one character; the root is '/'")
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    if ".." in segments:
        refuse("invalid_path", f"the path {short(path)} has '..' in it: write where the file is")
    if "\\" in path:
        refuse("invalid_path", f"the path {short(path)} has a backslash in it: segments are parted by '/'")
    if "\0" in path:
        refuse("invalid_path", f"the path {short(path)} has a NUL character in it")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        refuse("invalid_path", f"the path {short(path)} has half a surrogate pair in it")
    # All of them, not just one: otherwise the name of `/workspace/workspace/x` would name another file.
    while segments and segments[0] == "workspace":
        del segments[0]
    normal = ROOT + "/".join(segments)
    # A store counts the bytes of what it is to find something by.
    if size >= MAX_PATH and len(normal.encode()) > MAX_PATH:
        refuse("invalid_path", f"the path {short(path)} takes more than {MAX_PATH} bytes")
    return normal


def placed(path: object, base: str) -> object:
    """A path as it is meant in the directory `base`: a relative one lies below it. What is no path is told later."""
    if base == ROOT or not isinstance(path, str) or not path or path.startswith("/"):
        return path
    return f"{base}/{path}"


def parent(name: str) -> str:
    """The directory that a normal path is in. The root is in itself."""
    return name.rpartition("/")[0] or ROOT


def last(name: str) -> str:
    return name.rpartition("/")[2]


def ancestors(name: str) -> Iterator[str]:
    """The directories on the way to it, from the one below the root; without the root, and without itself."""
    slash = name.find("/", 1)
    while slash > 0:
        yield name[:slash]
        slash = name.find("/", slash + 1)


def below(name: str, directory: str) -> bool:
    """Whether it is somewhere in the directory; nothing is in itself."""
    return name != directory and name.startswith(directory if directory == ROOT else directory + "/")


def within(directory: str, name: str) -> str:
    return f"/{name}" if directory == ROOT else f"{directory}/{name}"


def can_be(path: str) -> bool:
    """Whether a path that was put together is not too long."""
    return len(path) * 4 <= MAX_PATH or len(path.encode()) <= MAX_PATH


def short(path: str) -> str:
    return repr(path if len(path) <= 128 else path[:128] + "…")
