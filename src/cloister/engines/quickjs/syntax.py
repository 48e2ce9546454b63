"""The text of a TypeScript cell under its grammar: positions, edits that keep them, and where it is broken.

Knows byte offsets, code points and how QuickJS counts; knows nothing of what is erased, or why. A parser that
refused a cell is asked a second time with its log on: the log names the token at which every reading of the source
had failed, which the recovered tree no longer shows.

Invariant: lines and columns are 1-based, columns count Unicode code points, ends are exclusive, and a line ends at
a line feed only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import tree_sitter
import tree_sitter_typescript
from tree_sitter import Node

__all__ = [
    "LANGUAGE",
    "PROBLEM_LIMIT",
    "Edits",
    "Positions",
    "Problem",
    "Shifts",
    "Span",
    "diagnose",
    "guest_position",
    "lone_surrogate",
    "operand",
    "original_position",
    "token",
]

LANGUAGE: Final = tree_sitter.Language(tree_sitter_typescript.language_typescript())
PROBLEM_LIMIT: Final = 20

# The log costs a Python call per character read; past this size the recovered tree has to be good enough.
_LOGGED_BYTES: Final = 100_000
_CHUNK: Final = 1024
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
_CLOSER: Final = {"(": ")", "[": "]", "{": "}", "${": "}"}
_QUOTES: Final = {'"': "string", "'": "string", "`": "template"}
_WHERE = re.compile(r"row:(\d+), col:(\d+)")
_SIZE = re.compile(r"size:(\d+)$")
_PYTHON = re.compile(rb"\s*(def |elif |except\b|from \w+ import|#|(if|for|while|class|with)\b[^{;/]*:\s*$)")

Span: TypeAlias = tuple[int, int, int, int]
Shifts: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a cell cannot run; `code` is "SYNTAX_ERROR" or "UNSUPPORTED_FEATURE"."""

    code: str
    message: str
    hint: str | None
    line: int
    column: int
    end_line: int
    end_column: int


class Positions:
    """Turns tree-sitter's byte positions of one source into lines and code-point columns."""

    __slots__ = ("_counts", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._counts: list[int] | None = None
        if not data.isascii():
            # Code points before each chunk: without it, many positions on one long line would be quadratic.
            counts = [0]
            for start in range(0, len(data), _CHUNK):
                counts.append(counts[-1] + len(data[start : start + _CHUNK].translate(None, _CONTINUATION)))
            self._counts = counts

    def at(self, byte: int, point: tuple[int, int]) -> tuple[int, int]:
        row, column = point
        if self._counts is None:
            return row + 1, column + 1
        return row + 1, self._code_points(byte) - self._code_points(byte - column) + 1

    def span(self, node: Node) -> Span:
        return self.at(node.start_byte, node.start_point) + self.at(node.end_byte, node.end_point)

    def span_of_bytes(self, start: int, end: int) -> Span:
        return self.at(start, self._point(start)) + self.at(end, self._point(end))

    def _point(self, byte: int) -> tuple[int, int]:
        # A plain tuple: tree-sitter 0.26 frees its Point type too often when Python code makes one, and then crashes.
        return self._data.count(b"\n", 0, byte), byte - (self._data.rfind(b"\n", 0, byte) + 1)

    def _code_points(self, byte: int) -> int:
        assert self._counts is not None
        chunk = byte // _CHUNK
        return self._counts[chunk] + len(self._data[chunk * _CHUNK : byte].translate(None, _CONTINUATION))


class Edits:
    """Changes to one source that keep every line, and every column except behind an insertion."""

    def __init__(self, source: str, data: bytes) -> None:
        self.source = source
        self.data = data
        self.positions = Positions(data)
        # (start byte, end byte, new text, source position if the text is inserted)
        self.edits: list[tuple[int, int, str, tuple[int, int] | None]] = []

    def text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode()

    def has_line_break(self, start: int, end: int) -> bool:
        return self.data.find(b"\n", start, end) >= 0

    def blank(self, start: int, end: int, head: str = "", tail: str = "") -> None:
        """Spaces for everything but line feeds; `head` and `tail` take the place of the outermost characters."""
        text = self.data[start:end].decode()
        text = "\n".join([" " * len(line) for line in text.split("\n")])
        self.edits.append((start, end, head + text[len(head) : len(text) - len(tail)] + tail, None))

    def blank_node(self, node: Node) -> None:
        self.blank(node.start_byte, node.end_byte)

    def blank_statement(self, node: Node) -> None:
        # The `;` keeps the statements around it apart: `a` and `(b)()` would become a call.
        self.blank(node.start_byte, node.end_byte, head=";")

    def overwrite(self, node: Node, text: str) -> None:
        self.edits.append((node.start_byte, node.end_byte, text, None))

    def insert_before(self, node: Node, text: str) -> None:
        place = self.positions.at(node.start_byte, node.start_point)
        self.edits.append((node.start_byte, node.start_byte, text, place))

    def insert_after(self, node: Node, text: str) -> None:
        place = self.positions.at(node.end_byte, node.end_point)
        self.edits.append((node.end_byte, node.end_byte, text, place))

    def assemble(self) -> tuple[str, Shifts]:
        """The changed source, and what was inserted where."""
        if not self.edits:
            return self.source, ()
        pieces: list[str] = []
        shifts: list[tuple[int, int, int]] = []
        data, done, last_line, offset = self.data, 0, 0, 0
        # Stable: insertions at one place keep the order in which the walk made them.
        for start, end, text, place in sorted(self.edits, key=lambda edit: edit[:2]):
            pieces.append(data[done:start].decode())
            pieces.append(text)
            done = end
            if place is not None:
                line, column = place
                offset = offset if line == last_line else 0
                shifts.append((line, column + offset, len(text)))
                last_line, offset = line, offset + len(text)
        pieces.append(data[done:].decode())
        return "".join(pieces), tuple(shifts)


def original_position(shifts: Shifts, line: int, column: int) -> tuple[int, int]:
    """Source position of a position in the generated code; inserted text maps to the place it was inserted at."""
    removed = 0
    for at_line, at_column, width in shifts:
        if at_line != line or column <= at_column:
            continue
        if column < at_column + width:
            return line, at_column - removed
        removed += width
    return line, column - removed


def guest_position(code: str, line: int, column: int) -> tuple[int, int]:
    """Code-point position in `code` of a position that QuickJS reported for it.

    QuickJS counts UTF-8 bytes, and on the first line one too few (but never less than 1).
    """
    lines = code.split("\n", line)
    if not 1 <= line <= len(lines):
        return line, column
    text = lines[line - 1]
    if line == 1 and (column > 1 or text[:1].isspace()):
        column += 1
    return line, len(text.encode("utf-8", "surrogatepass")[: max(column - 1, 0)].decode("utf-8", "ignore")) + 1


def token(node: Node, *kinds: str) -> Node | None:
    """The first direct child of one of these kinds."""
    for child in node.children:
        if child.type in kinds:
            return child
    return None


def operand(node: Node) -> Node | None:
    for child in node.named_children:
        if child.type != "comment":
            return child
    return None


def lone_surrogate(source: str, at: int) -> Problem:
    """The problem of a source that no UTF-8 reader can be given."""
    line, column = source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)
    message = f"half of a surrogate pair (U+{ord(source[at]):04X}) is not a character"
    hint = "inside a string, write it as an escape such as \\ud800"
    return Problem("SYNTAX_ERROR", message, hint, line, column, line, column + 1)


def diagnose(data: bytes, root: Node, positions: Positions) -> tuple[Problem, ...]:
    """The problems of a tree with errors in it: the first one exactly, later ones as the recovered tree shows them."""
    found = list(_broken_nodes(root))
    first_start, first_end, missing = _first_offence(data) if len(data) <= _LOGGED_BYTES else (-1, -1, "")
    if first_start < 0:
        first_start, first_end = _token_at(data, found[0].start_byte) if found else (len(data), len(data))
    problems = [_explain(data, root, positions, first_start, first_end, missing)]
    lines = {problems[0].line, problems[0].end_line}
    for node in found:
        start, end = _token_at(data, node.start_byte)
        # One per line, and only past the first offence: everything before it was accepted, the rest is echo.
        if start <= first_end or start == end or positions.span(node)[0] in lines:
            continue
        wanted = node.type if node.is_missing else ""
        problem = _problem(_unexpected(data[start:end], wanted), None, positions.span_of_bytes(start, end))
        lines.add(problem.line)
        problems.append(problem)
        if len(problems) == PROBLEM_LIMIT:
            break
    return tuple(problems)


def _broken_nodes(root: Node) -> Iterator[Node]:
    """Outermost ERROR and MISSING nodes, in source order."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            yield node
        elif node.has_error:
            stack.extend(reversed(node.children))


def _first_offence(data: bytes) -> tuple[int, int, str]:
    """Byte range of the token at which the last live reading failed, and the token that would have mended it."""
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    here, size, failed, missing, state = (0, 0), 0, (-1, -1), "", "reading"

    def note(_kind: object, message: str) -> None:
        nonlocal here, size, failed, missing, state
        if state == "done" or message[:4] in ("cons", "skip", "lex_", "shif", "redu"):
            return
        if message.startswith("process ") and (where := _WHERE.search(message)):
            here = int(where[1]), int(where[2])
            state = "done" if state == "recovering" else state
        elif message.startswith("lexed_lookahead") and (length := _SIZE.search(message)):
            size = int(length[1])
        elif message.startswith("detect_error") and state == "reading":
            start = starts[here[0]] + here[1]
            failed = max(failed, (start, start + size))
        elif message.startswith("resume"):
            state = "recovering"
        elif message.startswith("recover_with_missing symbol:"):
            missing = message.removeprefix("recover_with_missing symbol:").rpartition(", state")[0]

    parser = tree_sitter.Parser(LANGUAGE)
    parser.logger = note
    # Reading stops soon after the first offence: recovery with the log on is what takes seconds on hostile text.
    # (A progress_callback that cancels would be cleaner; in tree-sitter 0.26 it crashes the process.)
    parser.parse(lambda offset, _point: b"" if state == "done" else data[offset : offset + 1024])
    start, end = failed
    if start < 0:
        return -1, -1, ""
    # The reported size includes the white space in front of the token.
    text = data[start:end]
    start += len(text) - len(text.lstrip())
    return start, max(start, end), missing


def _token_at(data: bytes, start: int) -> tuple[int, int]:
    """The word or single character at `start`, white space skipped; empty at the end of the source."""
    while start < len(data) and data[start : start + 1].isspace():
        start += 1
    end = start
    while end < len(data) and (data[end : end + 1].isalnum() or data[end] in b"_$" or data[end] >= 0x80):
        end += 1
    return start, max(end, min(start + 1, len(data)))


def _explain(data: bytes, root: Node, positions: Positions, start: int, end: int, missing: str) -> Problem:
    span = positions.span_of_bytes(start, end)
    opener = _open_bracket(root, start)
    if opener is not None and (kind := _QUOTES.get(opener.type)):
        line_end = data.find(b"\n", opener.start_byte)
        till = len(data) if line_end < 0 or kind == "template" else line_end
        hint = None if kind == "template" else "a string ends on its own line; use a `template` for several lines"
        return _problem(f"unterminated {kind}", hint, positions.span_of_bytes(opener.start_byte, till))
    comment = data.rfind(b"/*", 0, max(start, 0) + 2)
    if comment >= 0 and data.find(b"*/", comment + 2) < 0:
        return _problem("unterminated comment", "end it with */", positions.span_of_bytes(comment, comment + 2))
    line_start, line_end = data.rfind(b"\n", 0, start) + 1, data.find(b"\n", start)
    line = data[line_start : line_end if line_end >= 0 else len(data)]
    if (b"</" in line or b"/>" in line) and b"<" in line:
        hint = "JSX is not supported: build strings or plain objects"
        return Problem("UNSUPPORTED_FEATURE", "JSX is not supported", hint, *span)
    hint = "cells are TypeScript, not Python" if _PYTHON.match(line) else None
    if opener is not None and start >= len(data.rstrip()):
        closer = _CLOSER[opener.type]
        at_line, at_column = positions.at(opener.start_byte, opener.start_point)
        message = (
            f"expected `{closer}` to close the `{opener.type}` at {at_line}:{at_column}, found the end of the cell"
        )
        return _problem(message, hint, span)
    return _problem(_unexpected(data[start:end], missing), hint, span)


def _unexpected(token: bytes, missing: str) -> str:
    text = token.decode("utf-8", "replace")
    shown = f"`{text[:40]}`" if text else "end of the cell"
    if missing in (")", "]", "}", "(", "{", "=>", ":", "from", "of"):
        return f"expected `{missing}` before {shown}"
    if missing == "identifier":
        return f"unexpected {shown}: a name or an expression is missing before it"
    return f"unexpected {shown}"


def _open_bracket(root: Node, before: int) -> Node | None:
    """The innermost bracket or quote that is still open at byte `before`."""
    still_open: list[Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.start_byte >= before or node.is_missing:
            continue
        if node.child_count:
            stack.extend(reversed(node.children))
            continue
        kind = node.type
        top = still_open[-1].type if still_open else ""
        if kind in _QUOTES and kind == top:
            still_open.pop()
        elif kind in _QUOTES or kind in _CLOSER:
            still_open.append(node)
        elif top and _CLOSER.get(top) == kind:
            still_open.pop()
    return still_open[-1] if still_open else None


def _problem(message: str, hint: str | None, span: Span) -> Problem:
    return Problem("SYNTAX_ERROR", message, hint, *span)
