"""Searching files: lines that fit a pattern or contain a text, in files whose paths fit a glob.

Patterns come from programs, so none may take for ever: they are matched by an engine whose work grows with the text and
not with the ways to fail (no look-around, no back-references), a line has a bound, and so has the time of a search. A
file that is not UTF-8 text, or has a line beyond the bound, is passed over.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

from cloister.core.file import FileMatch
from cloister.ports.clock import Clock
from cloister.sessions.files.paths import ROOT, last
from cloister.sessions.files.refusal import refuse

MAX_PATTERN = 1000
MAX_LINE = 64 << 10
MAX_MATCHES = 10_000
DEFAULT_MATCHES = 1000
# What is shown of a line.
MAX_SHOWN = 1000
_SECONDS = 2.0

Matcher: TypeAlias = Callable[[str], bool]


def line_matcher(pattern: object, *, literal: bool) -> Matcher:
    if not isinstance(pattern, str) or not pattern:
        refuse("invalid", "a search needs a pattern: text of at least one character")
    if len(pattern) > MAX_PATTERN:
        refuse("invalid", f"a pattern has at most {MAX_PATTERN} characters, this one has {len(pattern)}")
    if literal:
        return lambda line: pattern in line
    return _compiled(pattern, "pattern")


def path_matcher(glob: object, directory: str) -> Matcher:
    """`*.py` fits names wherever they are, `src/**/x?.py` paths below the directory that is searched."""
    if not isinstance(glob, str) or not glob or len(glob) > MAX_PATTERN:
        refuse("invalid", f"a glob is text of 1 to {MAX_PATTERN} characters")
    fits = _compiled(_translated(glob.removeprefix("/")), "glob")
    if "/" not in glob:
        return lambda path: fits(last(path))
    start = 1 if directory == ROOT else len(directory) + 1
    return lambda path: fits(path[start:])


def check_limit(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_MATCHES:
        refuse("invalid", f"limit is a whole number from 1 to {MAX_MATCHES}, not {limit!r:.80}")
    return limit


def search(files: Iterable[tuple[str, bytes]], fits: Matcher, limit: int, clock: Clock) -> Iterator[FileMatch]:
    ends = clock.monotonic() + _SECONDS
    found = 0
    for path, data in files:
        for number, line in enumerate(["", *_lines(data)]):
            if clock.monotonic() > ends:
                refuse("quota", f"the search was not done after {_SECONDS:.0f} s: narrow it with a path or a glob")
            if number and fits(line):
                yield FileMatch(path, number, line if len(line) <= MAX_SHOWN else line[:MAX_SHOWN] + "…")
                found += 1
                if found >= limit:
                    return


def _lines(data: bytes) -> list[str]:
    """None of what is not text."""
    if b"\0" in data:
        return []
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return []
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[-1] == "":
        del lines[-1]
    return lines if all(len(line) <= MAX_LINE for line in lines) else []


@lru_cache(64)
def _regex(pattern: str) -> Matcher:
    from pydantic_core import SchemaValidator, core_schema

    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
    return SchemaValidator(schema).isinstance_python


def _compiled(pattern: str, what: str) -> Matcher:
    from pydantic_core import SchemaError

    try:
        return _regex(pattern)
    except SchemaError as error:
        said = re.sub(r"\s+", " ", str(error)).partition("SchemaError: ")[2].strip() or "it cannot be read"
        refuse("invalid", f"the {what} {pattern[:80]!r} cannot be used: {said[:200]}")
    except UnicodeEncodeError:
        refuse("invalid", f"the {what} has half a surrogate pair in it")


def _translated(glob: str) -> str:
    """As a regular expression."""
    out: list[str] = []
    at = 0
    while at < len(glob):
        here = glob[at]
        if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
            out.append("(?:.*/)?")
            at += 3
        elif here == "*":
            many = glob.startswith("**", at)
            out.append(".*" if many else "[^/]*")
            at += 2 if many else 1
        elif here == "?":
            out.append("[^/]")
            at += 1
        elif here == "[" and (end := glob.find("]", at + 2)) > 0:
            inner = glob[at + 1 : end]
            negated, inner = inner[:1] in ("!", "^"), inner.removeprefix("!") if inner[:1] == "!" else inner
            inner = inner.removeprefix("^") if negated else inner
            escaped = re.sub(r"[\[\]&~^\\]", lambda found: "\\" + found[0], inner)
            out.append(f"[^/{escaped}]" if negated else f"[{escaped}]")
            at = end + 1
        else:
            # Rust has escapes of its own for some of what `re.escape` escapes: this does for both.
            out.append(here if here.isalnum() or here in "_/ " else f"\\x{{{ord(here):x}}}")
            at += 1
    return f"(?s)^(?:{''.join(out)})$"
