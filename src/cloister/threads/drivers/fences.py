"""Programs in fenced blocks: found in what a model says, and taken off where they were not asked for.

A fence is three or more backticks or tildes at the beginning of a line, and as many at least end it. What is in another
language than those of programs is text, and left alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cloister.core.language import Language

_OPENING = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*$")
_TICKS = re.compile("`+")
_WORDS = {
    "python": Language.PYTHON,
    "py": Language.PYTHON,
    "python3": Language.PYTHON,
    "typescript": Language.TYPESCRIPT,
    "ts": Language.TYPESCRIPT,
    "javascript": Language.TYPESCRIPT,
    "js": Language.TYPESCRIPT,
    "type_script": Language.TYPESCRIPT,
}


@dataclass(frozen=True, slots=True)
class Block:
    # As it was written behind the fence, in small letters.
    word: str
    text: str
    # Whether its end was there.
    closed: bool = True

    @property
    def language(self) -> Language | None:
        return _WORDS.get(self.word)


def language_named(word: str) -> Language | None:
    return _WORDS.get(word.strip().lower())


def blocks_of(text: str) -> Iterator[Block]:
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        opening = _OPENING.match(lines[place].rstrip("\r"))
        place += 1
        if opening is None:
            continue
        fence, word = opening[1], opening[2].lower()
        inside: list[str] = []
        closed = False
        while place < len(lines) and not closed:
            if _closes(lines[place], fence):
                closed = True
            else:
                inside.append(lines[place])
            place += 1
        yield Block(word, "\n".join(inside), closed)


def fenced(text: str, word: str) -> str:
    """The text in a block of its own, whatever fences are in it."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    body = text if text.endswith("\n") else f"{text}\n"
    return f"\n{fence}{word}\n{body}{fence}\n"


def unfenced(code: str) -> str:
    """A program without the fences around all of it."""
    stripped = code.strip()
    if not stripped.startswith(("```", "~~~")):
        return code
    lines = stripped.split("\n")
    opening = _OPENING.match(lines[0].rstrip("\r"))
    if opening is None or (opening[2] and language_named(opening[2]) is None):
        return code
    ends = [place for place, text in enumerate(lines) if place and _closes(text, opening[1])]
    # One block, and nothing behind it; a model may have forgotten the end.
    if ends and ends[0] != len(lines) - 1:
        return code
    return "\n".join(lines[1 : ends[0] if ends else None])


def _closes(text: str, fence: str) -> bool:
    bare = text.strip()
    return len(bare) >= len(fence) and not bare.strip(fence[0])
