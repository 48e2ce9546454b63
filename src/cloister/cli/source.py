"""A program as the command line was given it, and an excerpt of it with a caret under a span."""

import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from cloister.cli.failures import UsageError
from cloister.cli.terminal import safe
from cloister.core.diagnostic import Span
from cloister.core.language import Language

_SUFFIXES = {".py": Language.PYTHON, ".ts": Language.TYPESCRIPT, ".js": Language.TYPESCRIPT}
STANDARD_INPUT = "/dev/stdin"
# An excerpt is one line and fits a terminal of 80 columns with its margin.
_WIDTH = 72


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    code: str
    language: Language


def read_source(file: str | None, code: str | None, language: str | None) -> Source:
    """The program from FILE, from standard input (`-`) or from `-e`; exactly one of them."""
    if (file is None) == (code is None):
        given = "both" if code is not None else "neither"
        raise UsageError(
            f"a program is given as FILE or as -e CODE, and this has {given}",
            "cloister run hello.py, cloister run -e '1 + 1', or cloister run - to read standard input",
        )
    if code is not None:
        return Source("<-e>", code, Language(language or Language.PYTHON))
    assert file is not None
    if file == STANDARD_INPUT:
        return Source("<stdin>", _decode(sys.stdin.buffer.read(), "<stdin>"), Language(language or Language.PYTHON))
    path = Path(file)
    try:
        text = _decode(path.read_bytes(), file)
    except OSError as error:
        hint = "to run code from the command line, use -e CODE" if _looks_like_code(file) else None
        raise UsageError(f"{file!r} cannot be read: {error.strerror or error}", hint) from None
    chosen = Language(language) if language else _SUFFIXES.get(path.suffix)
    if chosen is None:
        raise UsageError(
            f"the language of {file!r} cannot be told from its name", "add --language python or --language typescript"
        )
    return Source(file, text, chosen)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name!r} is not UTF-8 text: byte {error.start} does not fit") from None


def _looks_like_code(text: str) -> bool:
    return any(mark in text for mark in " ()+=")


def excerpt(code: str, span: Span) -> list[tuple[str, str]]:
    """The line a span begins on and the caret under it, as (margin, text) pairs. Nothing for a span outside."""
    lines = code.split("\n")
    if not 1 <= span.line <= len(lines):
        return []
    line = lines[span.line - 1].rstrip("\r")
    start = min(max(span.column - 1, 0), len(line))
    if span.end_line in (None, span.line):
        end = min(span.end_column - 1, len(line)) if span.end_column is not None else start + 1
    else:
        end = len(line)
    before, marked, after = _clip(line[:start], line[start : max(end, start)], line[max(end, start) :])
    number = str(span.line)
    caret = " " * _columns(before) + "^" * max(_columns(marked), 1)
    return [(f"{number} | ", before + marked + after), (" " * len(number) + " | ", caret)]


def _clip(before: str, marked: str, after: str) -> tuple[str, str, str]:
    """The three parts of a line, shown as they will be seen and cut so that the marked one stays in view."""
    before, marked, after = (safe(part.replace("\t", "    ")) for part in (before, marked, after))
    if len(marked) > _WIDTH:
        marked = marked[: _WIDTH - 1] + "…"
        after = ""
    room = _WIDTH - len(marked)
    if len(before) > room:
        before = "…" + before[len(before) - room + 1 :] if room > 1 else ""
    room -= len(before)
    if len(after) > room:
        after = after[: room - 1] + "…" if room > 0 else ""
    return before, marked, after


def _columns(text: str) -> int:
    """How many columns a terminal needs for it."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
