"""A search through what a session has: which files, in which order, and when it is enough."""

from collections.abc import Iterator

from cloister.core.file import FileMatch
from cloister.ports.clock import Clock
from cloister.sessions.files.grep import check_limit, line_matcher, path_matcher, search
from cloister.sessions.files.node import Content
from cloister.sessions.files.paths import normal_path
from cloister.sessions.files.refusal import Refused
from cloister.sessions.files.system import FileSystem
from cloister.sessions.files.view import Seen


def chosen(system: FileSystem, path: object, glob: object) -> "list[Seen]":
    """The files that are searched, by path."""
    directory = normal_path(path)
    fits = path_matcher(glob, directory) if glob is not None else None
    files = [seen for seen in system.everything(directory) if seen.kind == "file"]
    return files if fits is None else [seen for seen in files if seen.path == directory or fits(seen.path)]


def grep(
    system: FileSystem,
    pattern: object,
    clock: Clock,
    *,
    path: object = "/",
    glob: object = None,
    literal: bool = False,
    limit: object = 1000,
) -> list[FileMatch]:
    most, fits = check_limit(limit), line_matcher(pattern, literal=literal)
    return list(search(_contents(system, chosen(system, path, glob)), fits, most, clock))


def _contents(system: FileSystem, files: "list[Seen]") -> Iterator[tuple[str, bytes]]:
    for seen in files:
        try:
            content: Content = system.content(seen)
        except Refused:
            # It is in a mounted directory, and too large or gone since.
            continue
        if content.data is not None:
            yield seen.path, content.data
