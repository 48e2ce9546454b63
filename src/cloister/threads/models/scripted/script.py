"""What a script says: the answers in their order, each checked before the first is given.

    answers:
      - expect: refund                 # must be in what was said last; or {matches: REGEX}
        reasoning: They want their money back.
        text: I will look at the order.
        exec: |                        # a program, in whichever way programs are asked for
          o = await get_order(order_id="A7")
        calls: [{tool: NAME, arguments: {...}}]
        wait: {yield_ms: 1000}         # for the cell that was named last
      - - when: {matches: "(?i)no"}    # alternatives: the first that fits
          text: As you like.
        - text: Done.
      - error: {code: model_rate_limited, message: ..., retry_after_ms: 1000}

An answer also takes delay_ms, pieces (how many it comes in), piece_delay_ms, usage and finish.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, cast

from cloister.core.answer import FinishReason
from cloister.core.errors import InvalidInput
from cloister.core.usage import Usage
from cloister.core.value import Json
from cloister.ports.model import ModelCapabilities
from cloister.threads.models.scripted.reading import Node, parse_nodes, read_nodes

ERRORS = (
    "model_refused",
    "model_rate_limited",
    "model_failed",
    "model_timeout",
    "answer_too_large",
    "answer_invalid",
    "provider_unavailable",
)
_ANSWER: tuple[str, ...] = tuple(
    "when expect reasoning text exec language wait calls error delay_ms pieces piece_delay_ms usage finish".split()
)
_MOST_ANSWERS = 10_000
_MOST_CALLS = 128
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Fits:
    """A text that must be there, or a pattern that must be found."""

    contains: str | None = None
    matches: str | None = None

    def holds(self, text: str) -> bool:
        if self.contains is not None:
            return self.contains in text
        return self.matches is not None and _pattern(self.matches)(text)

    def __str__(self) -> str:
        return repr(self.contains) if self.contains is not None else f"/{self.matches}/"


@dataclass(frozen=True, slots=True)
class Program:
    code: str
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """For the cell whose id was said last; `arguments` go along."""

    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class Called:
    tool: str
    # A text is the input of a freeform tool, or the arguments as they are written, well or not.
    arguments: Mapping[str, Json] | str


Doing: TypeAlias = Program | Wait | Called


@dataclass(frozen=True, slots=True)
class Broken:
    """The provider fails instead of answering, after `after_pieces` pieces of the answer were given."""

    code: str
    message: str
    status: int | None = None
    retry_after_ms: int | None = None
    after_pieces: int = 0


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer."""

    line: int
    when: Fits | None = None
    expect: Fits | None = None
    reasoning: str | None = None
    text: str | None = None
    doing: tuple[Doing, ...] = ()
    error: Broken | None = None
    delay_ms: int = 0
    pieces: int = 1
    piece_delay_ms: int = 0
    usage: Usage = field(default_factory=Usage)
    finish: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class Script:
    # As it is called in errors: the file.
    name: str
    # Each is its alternatives, most often one.
    answers: tuple[tuple[Scripted, ...], ...]
    capabilities: ModelCapabilities = field(default_factory=lambda: ModelCapabilities(freeform_tools=True))


def read_script(path: Path) -> Script:
    """Raises `InvalidConfig` that names the file, the line and the key."""
    return _script(read_nodes(path))


def parse_script(text: str, name: str = "script") -> Script:
    return _script(parse_nodes(text, name))


def _script(root: Node) -> Script:
    said = _names(root, ("answers", "capabilities"))
    if "answers" not in said:
        raise root.wrong("says no `answers`", "answers:\n  - text: Hello.")
    listed = _list(said["answers"])
    if not listed or len(listed) > _MOST_ANSWERS:
        raise said["answers"].wrong(f"has {len(listed)} answers; there are at least 1, and at most {_MOST_ANSWERS}")
    return Script(root.file, tuple(map(_alternatives, listed)), _capabilities(said.get("capabilities")))


def _alternatives(node: Node) -> tuple[Scripted, ...]:
    if not isinstance(node.value, tuple):
        answer = _answer(node)
        if answer.when is not None:
            raise node.wrong("has a `when`, but nothing else to fall back on", "make it a list of alternatives")
        return (answer,)
    made = tuple(map(_answer, node.value))
    if not made:
        raise node.wrong("has no alternatives")
    for place, answer in enumerate(made[:-1]):
        if answer.when is None:
            raise node.value[place].wrong("always fits, so that those after it are never given", "give it a `when`")
    return made


def _answer(node: Node) -> Scripted:
    said = _names(node, _ANSWER)
    doing: list[Doing] = []
    if "exec" in said:
        language = _text(said["language"]) if "language" in said else None
        if language not in (None, "python", "typescript"):
            raise said["language"].wrong(f"is python or typescript, not {language[:40]!r}")
        doing.append(Program(_text(said["exec"]), language))
    elif "language" in said:
        raise said["language"].wrong("goes with `exec`")
    if "wait" in said:
        doing.append(Wait(_object(said["wait"])))
    if "calls" in said:
        doing += map(_call, _list(said["calls"]))
    if len(doing) > _MOST_CALLS:
        raise node.wrong(f"makes {len(doing)} calls; there are at most {_MOST_CALLS}")
    error = _broken(said["error"]) if "error" in said else None
    parts = [name for name in ("reasoning", "text", "exec", "wait", "calls") if name in said]
    if not parts and error is None:
        raise node.wrong("says nothing", "give it a `text`, an `exec`, `calls` or an `error`")
    if error is not None and parts and not error.after_pieces:
        raise said["error"].wrong(
            f"comes before anything of `{parts[0]}` is said", "give it after_pieces, or leave that"
        )
    if error is not None and error.after_pieces and not parts:
        raise said["error"].wrong("has after_pieces, and there is nothing that could come before it")
    return Scripted(
        line=node.line,
        when=_fits(said["when"]) if "when" in said else None,
        expect=_fits(said["expect"]) if "expect" in said else None,
        reasoning=_text(said["reasoning"]) if "reasoning" in said else None,
        text=_text(said["text"]) if "text" in said else None,
        doing=tuple(doing),
        error=error,
        delay_ms=_number(said.get("delay_ms"), 0, 0, _DAY_MS),
        pieces=_number(said.get("pieces"), 1, 1, 10_000),
        piece_delay_ms=_number(said.get("piece_delay_ms"), 0, 0, _DAY_MS),
        usage=_usage(said.get("usage")),
        finish=_finish(said["finish"]) if "finish" in said else None,
    )


def _call(node: Node) -> Called:
    said = _names(node, ("tool", "arguments", "input"))
    if "tool" not in said:
        raise node.wrong("says no `tool`")
    if "arguments" in said and "input" in said:
        raise node.wrong("has arguments and an input", "a freeform tool takes an input, any other arguments")
    if "input" in said:
        return Called(_text(said["tool"]), _text(said["input"]))
    arguments = said.get("arguments")
    if arguments is not None and isinstance(arguments.value, str):
        return Called(_text(said["tool"]), arguments.value)
    return Called(_text(said["tool"]), _object(arguments) if arguments is not None else {})


def _broken(node: Node) -> Broken:
    said = _names(node, ("code", "message", "status", "retry_after_ms", "after_pieces"))
    code = _text(said["code"]) if "code" in said else ""
    if code not in ERRORS:
        raise said.get("code", node).wrong(f"has a code, one of {', '.join(ERRORS)}")
    status = _number(said["status"], 0, 100, 599) if "status" in said else None
    wait = _number(said["retry_after_ms"], 0, 0, _DAY_MS) if "retry_after_ms" in said else None
    message = _text(said["message"]) if "message" in said else "the script says so"
    return Broken(code, message, status, wait, _number(said.get("after_pieces"), 0, 0, 10_000))


def _fits(node: Node) -> Fits:
    if isinstance(node.value, dict):
        said = _names(node, ("matches",))
        if "matches" not in said:
            raise node.wrong("is a text, or {matches: REGEX}")
        pattern = _text(said["matches"])
        try:
            _pattern(pattern)
        except InvalidInput as error:
            raise said["matches"].wrong(error.message) from None
        return Fits(matches=pattern)
    return Fits(contains=_text(node))


@lru_cache(256)
def _pattern(pattern: str) -> Callable[[str], bool]:
    """An engine that cannot hang: what it is held against comes from anybody."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        made = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except (SchemaError, UnicodeEncodeError) as error:
        raise InvalidInput(f"is no pattern: {' '.join(str(error).split())[-200:]}") from None
    return made.isinstance_python


def _usage(node: Node | None) -> Usage:
    if node is None:
        return Usage()
    counts = [one.name for one in fields(Usage) if one.name not in ("extra", "requests")]
    said: dict[str, Any] = {name: _number(part, 0, 0, 1 << 40) for name, part in _names(node, counts).items()}
    return Usage(**said)


def _finish(node: Node) -> FinishReason:
    said = _text(node)
    if said not in list(FinishReason):
        raise node.wrong(f"is one of {', '.join(FinishReason)}")
    return FinishReason(said)


def _capabilities(node: Node | None) -> ModelCapabilities:
    flags = {one.name: True for one in fields(ModelCapabilities)}
    if node is not None:
        for name, part in _names(node, list(flags)).items():
            if not isinstance(part.value, bool):
                raise part.wrong(f"is true or false, not {part.kind()}")
            flags[name] = part.value
    return ModelCapabilities(**flags)


def _names(node: Node, known: Sequence[str]) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise node.wrong(f"has names with values, and is not {node.kind()}", f"there are {', '.join(known)}")
    for name, part in node.value.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise part.wrong("is not known", f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}")
    return node.value


def _list(node: Node) -> tuple[Node, ...]:
    if not isinstance(node.value, tuple):
        raise node.wrong(f"is a list, not {node.kind()}")
    return node.value


def _text(node: Node) -> str:
    if not isinstance(node.value, str):
        raise node.wrong(f"is a text, not {node.kind()}", "put it in quotes")
    return node.value


def _object(node: Node) -> Mapping[str, Json]:
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise node.wrong(f"has names with values, and is not {node.kind()}")
    return cast("dict[str, Any]", node.plain())


def _number(node: Node | None, otherwise: int, least: int, most: int) -> int:
    if node is None:
        return otherwise
    if type(node.value) is not int or not least <= node.value <= most:
        raise node.wrong(f"is a whole number between {least} and {most}")
    return node.value
