"""A rule: a CEL expression over the facts of one call, compiled once and judged for every call.

Whatever goes wrong at run time is a fault and never a yes: the rule has no opinion, and whoever asked it must take the
safe side. A rule is shown only the facts that it mentions, and no more of them than it can look at quickly.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.tools.expression import Expression, read
from cloister.tools.facts import Facts, brief, unfit, written
from cloister.tools.vocabulary import Unreadable

if TYPE_CHECKING:
    from cel import Program

_LONGEST = 4096
_MOST_VALUES = 8
_LONGEST_SHOWN = 160

# The matcher's time grows with both: 300 and the 64 KiB that such a rule is shown take some 200 ms at the worst.
_LONGEST_PATTERN = 300
_PATTERN_CLASSES = re.compile(r"\\[pP]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]])*\]", re.DOTALL)
_PATTERN_PARTS = re.compile(r"\((?:\?[^):]*:?)?|\{\s*(?P<least>\d{1,9})\s*(?:,\s*(?P<most>\d{0,9})\s*)?\}|.", re.DOTALL)

_SYNTAX = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?(.*?)(?: expecting .*)?$", re.MULTILINE)
_OPERATORS = "CEL writes && for and, || for or, ! for not, == for equal, and text in quotes"


@dataclass(frozen=True, slots=True)
class Judgement:
    # None: the rule failed, and `fault` says why.
    holds: bool | None
    # The facts that the rule mentions, as the rule writes them, cut to a size that fits into a message.
    values: Mapping[str, Json] = field(default_factory=dict[str, Json])
    # Those of them that are not there.
    missing: tuple[str, ...] = ()
    fault: str | None = None

    @property
    def facts(self) -> str:
        """`args.amount = 250, args.note is missing`"""
        there = [f"{path} = {written(value)}" for path, value in self.values.items()]
        return ", ".join([*there, *(f"{path} is missing" for path in self.missing)])


@dataclass(frozen=True, slots=True)
class Rule:
    """Equal when the source is. Get one from `compile`."""

    source: str
    # The tools whose calls it counts, by the names it spells out.
    counts: tuple[str, ...] = field(compare=False)
    _program: "Program" = field(compare=False, repr=False)
    _most_parts: int = field(compare=False, repr=False)
    _paths: tuple[tuple[str, str, tuple[object, ...]], ...] = field(compare=False, repr=False)
    # For each fact that is mentioned, the fields that are; none if the whole of it is.
    _fields: Mapping[str, tuple[str, ...]] = field(compare=False, repr=False)
    # Texts that may be names of tools, if `calls.by_name` is looked into with more than those of `counts`.
    _perhaps: tuple[str, ...] | None = field(compare=False, repr=False)

    @classmethod
    def compile(cls, source: object, *, what: str = "the rule") -> "Rule":
        """Raises `InvalidInput` with the reason and the fix; `what` begins the message."""
        if not isinstance(source, str):
            raise InvalidInput(
                f"{what} must be text, not {type(source).__name__}", hint='write CEL: "args.amount < 100"'
            )
        if not source.strip():
            raise InvalidInput(f"{what} is empty", hint='write CEL: "args.amount < 100"')
        try:
            return _compile(source)
        except Unreadable as refused:
            shown = source if len(source) <= _LONGEST_SHOWN else source[:_LONGEST_SHOWN] + "…"
            raise InvalidInput(f"{what} {shown!r} cannot be used: {refused.reason}", hint=refused.hint) from None

    def judge(self, facts: Facts) -> Judgement:
        shown = self._shown(facts)
        holds, fault = None, unfit(shown, self._most_parts)
        if fault is None:
            holds, fault = self._ask(shown)
        values: dict[str, Json] = {}
        missing: list[str] = []
        for path, root, keys in self._paths:
            value: Any = shown[root]
            try:
                for key in keys:
                    value = value[key]
            except (LookupError, TypeError):
                missing.append(path)
            else:
                values[path] = brief(value)
        return Judgement(holds, values, tuple(missing), fault)

    def _ask(self, shown: dict[str, Json]) -> tuple[bool | None, str | None]:
        try:
            answer = self._program.execute(shown)
        except Exception as error:  # noqa: BLE001 - the evaluator's: whatever it is, it becomes a fault
            return None, _fault(error)
        except BaseException as error:
            # A panic in the evaluator is no `Exception`, and must not end the host.
            if type(error).__module__ != "pyo3_runtime":
                raise
            return None, f"the evaluator failed: {error}"
        if answer is True or answer is False:
            return answer, None
        return None, f"it gives {written(brief(answer))}, and not true or false"

    def _shown(self, facts: Facts) -> dict[str, Json]:
        shown: dict[str, Json] = {}
        for root, fields in self._fields.items():
            match root:
                case "args":
                    shown[root] = _only(facts.args, fields)
                case "name":
                    shown[root] = facts.name
                case "side_effect":
                    shown[root] = str(facts.side_effect)
                case "idempotent":
                    shown[root] = facts.idempotent
                case "calls" if fields == ("count",):
                    shown[root] = {"count": facts.calls_count}
                case "calls":
                    shown[root] = {"count": facts.calls_count, "by_name": self._by_name(facts)}
                case "session":
                    labels = cast("dict[str, Json]", dict(facts.labels))
                    whole: Json = {"id": facts.session_id, "labels": labels, "language": facts.language}
                    shown[root] = _only(whole, fields)
                case _:
                    names = {"name": facts.name, "namespace": facts.namespace or "", "full_name": facts.full_name}
                    shown[root] = cast("Json", names)
        return shown

    def _by_name(self, facts: Facts) -> Json:
        """A tool that the rule names and that was not called yet has 0 calls, and is no fault."""
        called = facts.calls_by_name
        if self._perhaps is None:
            return {name: called.get(name, 0) for name in self.counts}
        return {**{name: 0 for name in self._perhaps}, facts.full_name: 0, **called}


@lru_cache(maxsize=1024)
def _compile(source: str) -> Rule:
    import cel  # It takes a quarter of a second, and many a host has no rule.

    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        raise Unreadable("it is not valid text: it has half of a surrogate pair") from None
    if size > _LONGEST:
        raise Unreadable(f"it takes {size} bytes, and a rule may take {_LONGEST}", hint="make several rules of it")
    try:
        program = cel.compile(source)
    except ValueError as error:
        raise _syntax(str(error)) from None
    said = read(source)
    # Ours and CEL's reading must agree on the names, or ours cannot be relied upon.
    theirs = frozenset(name for name in program.functions() if name.isidentifier())
    if frozenset(program.variables()) - said.bound != said.names or theirs != said.functions:
        raise Unreadable("it is written in a way that cannot be checked", hint="write it in a simpler way")
    _try(program, said)
    paths = tuple((p.root + "".join(p.keys), p.root, tuple(_key(key) for key in p.keys)) for p in said.paths)
    counted = [keys for _, root, keys in paths if root == "calls" and keys[:1] != ("count",)]
    exact = all(len(keys) > 1 for keys in counted)
    return Rule(
        source,
        tuple({str(keys[1]): None for keys in counted if len(keys) > 1}),
        program,
        said.most_parts,
        paths[:_MOST_VALUES],
        {path.root: _fields([keys for _, root, keys in paths if root == path.root]) for path in said.paths},
        None if exact else tuple(text for text in map(_literal, said.texts) if isinstance(text, str)),
    )


def _fields(paths: list[tuple[object, ...]]) -> tuple[str, ...]:
    first = {keys[0] if keys else None: None for keys in paths}
    names = [key for key in first if isinstance(key, str)]
    return tuple(names) if len(names) == len(first) else ()


def _only(whole: Json, fields: tuple[str, ...]) -> Json:
    if not fields or not isinstance(whole, dict):
        return whole
    return {name: whole[name] for name in fields if name in whole}


def _literal(written: str) -> object:
    """CEL's own reading of a literal, escapes and all."""
    import cel

    return cel.compile(written).execute({})


def _key(written: str) -> object:
    return written[1:] if written.startswith(".") else _literal(written[1:-1])


def _try(program: "Program", said: Expression) -> None:
    """What can be known to fail before there are any facts."""
    import cel

    for pattern in said.patterns:
        if _spelled_out(str(_literal(pattern))) > _LONGEST_PATTERN:
            reason = f"the pattern {pattern} is longer than {_LONGEST_PATTERN} with its repetitions spelled out"
            raise Unreadable(reason, hint="use + or *, and size() for the length")
        try:
            cel.compile(f"''.matches({pattern})").execute({})
        except RuntimeError as error:
            raise Unreadable(f"the pattern {pattern} is not valid: {_last_line(error)}") from None
    if said.paths:
        return
    try:
        answer = program.execute({})
    except Exception as error:  # noqa: BLE001 - the evaluator's: whatever it is, the rule is refused
        raise Unreadable(f"it always fails: {_fault(error)}") from None
    if not isinstance(answer, bool):
        raise Unreadable(f"it gives {written(brief(answer))}, and not true or false", hint=_OPERATORS)


def _spelled_out(pattern: str) -> int:
    """About how many characters it has with every `{n}` spelled out: so much work it may make of every character."""
    sizes, last = [0], 0
    for part in _PATTERN_PARTS.finditer(_PATTERN_CLASSES.sub("c", pattern)):
        match part[0][0]:
            case "(":
                sizes.append(0)
            case ")" if len(sizes) > 1:
                last = sizes.pop()
                sizes[-1] += last
            case "{" if part["least"]:
                times = max(int(part["most"] or part["least"]), 1)
                sizes[-1] += last * (times - 1)
                last *= times
            case _:
                last = 1
                sizes[-1] += 1
    return sum(sizes)


def _syntax(message: str) -> Unreadable:
    found = _SYNTAX.search(message)
    if found is None:
        return Unreadable("it is not CEL", hint=_OPERATORS)
    line, column, reason = found.groups()
    where = f"at column {column}" if line == "1" else f"at line {line}, column {column}"
    if reason == "reserved identifier: namespace":
        return Unreadable("'namespace' is a reserved word of CEL", hint="write tool.namespace")
    return Unreadable(f"{reason} {where}", hint=_OPERATORS)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].removesuffix(" Check function arguments and their types.").removeprefix("error: ").rstrip(".")


def _fault(error: Exception) -> str:
    text = str(error)
    match error:
        case KeyError():
            return f"there is no {text}"
        case TypeError():
            return "the values are of types that do not go together"
        case RuntimeError() if undefined := re.match(r"Undefined variable or function: '(\w+)'", text):
            return f"{undefined[1]}() does not take a value of this type"
        case ValueError() if text.startswith("Conversion Error"):
            return "the arguments have text that is not valid"
        case _:
            return _last_line(error)[:_LONGEST_SHOWN]
