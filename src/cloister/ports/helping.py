"""The helpers port: what a program says to its host within a step, without waiting: output, notes, stored values.

Helpers are functions inside every cell. They are no calls: nothing passes the gate, nothing is counted or recorded,
and the answer is there at once. An engine makes plain values of the arguments (`text` and `notify` get text, as the
engine's language writes values) and hands them to the `Helper` of the turn; what that refuses, the program can catch.
`exit` never comes here: an engine ends the program by itself.

A tool of the same name stands in front of a helper: the catalog says which of them a program has.

The session's files are reached the same way, by the names in `FILES`. What a program sees of that is its engine's
affair: `open()`, `pathlib` and `os` in Python, an object `files` in TypeScript.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from cloister.core.value import Json

# Their names and parameters, the same in every language.
HELPERS: Mapping[str, tuple[str, ...]] = {
    "text": ("value",),
    "image": ("source",),
    "notify": ("message",),
    "store": ("key", "value"),
    "load": ("key",),
    "yield_control": (),
    "exit": (),
}

# What an engine asks of the session's files, and with which arguments. All are JSON: bytes travel as base64, and
# `encoding` says what a text is ("text" or "base64"). The host makes one path of `/workspace/x`, `/x` and `x`.
FILES: Mapping[str, tuple[str, ...]] = {
    "files.read": ("path", "encoding"),
    "files.write": ("path", "content", "encoding", "mode"),
    "files.write_if_match": ("path", "content", "encoding", "hash"),
    "files.delete": ("path", "recursive"),
    "files.rmdir": ("path",),
    "files.list": ("path",),
    "files.stat": ("path",),
    "files.mkdir": ("path", "parents", "exist_ok"),
    "files.move": ("source", "target"),
    "files.copy": ("source", "target"),
    "files.grep": ("pattern", "options"),
}
# The object by which a TypeScript program reaches them; it is one of `Catalog.helpers`.
FILES_OBJECT = "files"
# No more of a file than this goes into a program or out of it at once.
MAX_FILE_BYTES = 16 << 20

# Name and arguments, in order; called on any thread, must be quick, raises nothing but `HelperRefused`.
Helper: TypeAlias = Callable[[str, tuple[Json, ...]], Json]


class HelperRefused(Exception):
    """The arguments do not fit. The program sees `message` as an error of its language, and may catch it.

    Those of files have a `code`: not_found, exists, is_directory, not_directory, not_empty, read_only, invalid_path,
    quota, too_large, not_text, conflict, invalid.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def no_helper(name: str, _arguments: tuple[Json, ...]) -> Json:
    """For steps that nobody listens to."""
    if name in FILES:
        raise HelperRefused("there are no files here", code="invalid")
    return None
