"""What the source of a rule says before it runs: which facts it looks at, and how much work it can make.

CEL's own compiler accepts names and functions that do not exist, and its evaluator copies a list for every use and
every step of `map`. So the source is read here a second time, as operands between operators: precedence does not
matter for what is asked. Only source that CEL accepted comes here; what cannot be read is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from cloister.tools.vocabulary import FUNCTIONS, MACROS, METHODS, TYPES, VARIABLES, Unreadable, uncounted, unknown

# These grow with the arguments of a call, which are not the rule's to choose.
_LARGE = ("args", "calls")
_LITERALS = {"true", "false", "null"}
_MOST_NESTED = 2
# How many parts of its arguments a rule may be shown: by how often it goes over all of them for each of them.
# Measured on the slowest shapes, either takes some 50 ms.
_PARTS = {1: 10_000, 2: 400}
_FEWEST_PARTS = 100
# A pattern may take time with its own size for every character, so that a rule with one sees 64 KiB of text.
_PATTERN_COST = 40

_QUOTED = r'"""(?:[^\\]|\\.)*?"""' + r"|'''(?:[^\\]|\\.)*?'''" + r'|"(?:[^"\\\r\n]|\\.)*"' + r"|'(?:[^'\\\r\n]|\\.)*'"
_RAW = r'"""[\s\S]*?"""' + r"|'''[\s\S]*?'''" + r'|"[^"\r\n]*"' + r"|'[^'\r\n]*'"
_TOKENS = re.compile(
    rf"""
    (?P<space>[\ \t\r\n\f]+|//[^\r\n]*)
  | (?P<text>(?:[rR][bB]?|[bB][rR])(?:{_RAW})|[bB]?(?:{_QUOTED}))
  | (?P<number>0[xX][0-9a-fA-F]+[uU]?|[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+[uU]?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:,.()\[\]{{}}])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Path:
    """A fact as the source writes it: `args.items[0]` is `("args", (".items", "[0]"))`, each key as source."""

    root: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    # Every fact and type that is named, and what macros like `all(x, ...)` bind.
    names: frozenset[str]
    bound: frozenset[str]
    functions: frozenset[str]
    paths: tuple[Path, ...]
    # As the source writes them, quotes and all.
    texts: tuple[str, ...]
    patterns: tuple[str, ...]
    # How many parts the arguments may have that it is shown.
    most_parts: int


def read(source: str) -> Expression:
    reader = _Reader(_split(source))
    reader.sequence("")
    return reader.done()


_Token = tuple[str, str]
_END: _Token = ("mark", "")


def _split(source: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(source):
        found = _TOKENS.match(source, at)
        if found is None:
            raise Unreadable(f"it cannot be read from {source[at : at + 20]!r} on")
        if found.lastgroup and found.lastgroup != "space":
            tokens.append((found.lastgroup, found.group()))
        at = found.end()
    return tokens


@dataclass(frozen=True, slots=True)
class _Loop:
    """A macro that is being read: what it binds, and by how much it multiplies the work inside."""

    variable: str
    # Goes over data of a call, and not just over a part of what the loop around it is at.
    spreads: bool
    # Copies what it has so far at every step.
    copies: bool
    # Of a list that the source spells out.
    length: int | None


@dataclass(slots=True)
class _Operand:
    root: str | None = None
    keys: list[str] = field(default_factory=list[str])
    # Whether `keys` says all of it so far: `args[name]` ends a path.
    exact: bool = True
    length: int | None = None


class _Reader:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._loops: list[_Loop] = []
        self._names: set[str] = set()
        self._bound: set[str] = set()
        self._functions: set[str] = set()
        self._paths: dict[Path, None] = {}
        self._texts: dict[str, None] = {}
        self._patterns: list[str] = []
        self._most_parts = _PARTS[1]

    def done(self) -> Expression:
        return Expression(
            frozenset(self._names - self._bound),
            frozenset(self._bound),
            frozenset(self._functions),
            tuple(self._paths),
            tuple(self._texts),
            tuple(self._patterns),
            self._most_parts,
        )

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _next(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token

    def sequence(self, closer: str) -> int:
        """Operands and operators up to `closer`, which is taken; how many commas part them, and one."""
        parts = 0
        while (token := self._peek()) != ("mark", closer):
            if token[1] in ("", ")", "]", "}"):
                raise Unreadable(f"it cannot be read: {token[1]!r} stands where {closer!r} was expected")
            parts = parts or 1
            if token == ("name", "in") or (token[0] == "mark" and token[1] not in "([{."):
                parts += self._next()[1] == ","
            else:
                self._operand()
        self._at += 1
        return parts

    def _operand(self) -> None:
        kind, text = self._next()
        operand = _Operand()
        match text:
            case "(":
                self.sequence(")")
            case "[":
                operand.length = self.sequence("]")
            case "{":
                self.sequence("}")
            case _ if kind == "mark":
                raise Unreadable(f"it cannot be read: {text!r} stands where a value was expected")
            case _ if kind == "text":
                self._texts[text] = None
            case _ if kind == "name" and text not in _LITERALS:
                self._named(text, operand)
            case _:
                pass
        while self._peek()[1] in (".", "["):
            operand = self._postfix(operand)
        self._mention(operand)

    def _named(self, text: str, operand: _Operand) -> None:
        match self._peek()[1]:
            case "(":
                self._at += 1
                if text == "has" and self._peek() == ("name", "calls"):
                    raise uncounted()
                self._call(text, FUNCTIONS if text != "has" else {"has": 1}, self.sequence(")"))
            case "{":
                raise Unreadable(f"messages like {text}{{...}} do not exist here", hint="compare the fields one by one")
            case _:
                self._names.add(text)
                if not self._is_bound(text) and text not in VARIABLES and text not in TYPES:
                    near = {"True": "true", "False": "false", "None": "null"}.get(text, f"args.{text}")
                    raise unknown("variable", text, VARIABLES, f"did you mean {near}? ")
                operand.root = text

    def _call(self, name: str, known: Mapping[str, int], count: int) -> None:
        if name != "has":
            self._functions.add(name)
        if name not in known:
            other = METHODS if known is FUNCTIONS else FUNCTIONS
            if name in MACROS:
                raise Unreadable(f"{name} is written list.{name}(x, ...), with one name for the element")
            if name in other:
                raise Unreadable(f"{name} is written {'value.' + name if other is METHODS else name}(...)")
            raise unknown("function", name, {*FUNCTIONS, *METHODS, *MACROS, "has"})
        if count != known[name]:
            raise Unreadable(
                f"{name} takes {known[name] or 'no'} argument{'s' * (known[name] != 1)} there, not {count}"
            )

    def _postfix(self, operand: _Operand) -> _Operand:
        length, operand.length = operand.length, None
        if self._next()[1] == "[":
            kind, text = self._peek()
            if kind in ("text", "number") and self._tokens[self._at + 1 : self._at + 2] == [("mark", "]")]:
                operand.keys += [f"[{text}]"] * operand.exact
            else:
                operand.exact = False
            self.sequence("]")
            return operand
        name = self._next()[1]
        if self._peek()[1] != "(":
            operand.keys += [f".{name}"] * operand.exact
            return operand
        self._at += 1
        if name in MACROS:
            self._macro(name, operand, length)
        else:
            self._mention(operand)
            start = self._at
            self._call(name, METHODS, self.sequence(")"))
            if name == "matches":
                self._pattern(self._tokens[start : self._at - 1])
        return _Operand()

    def _is_bound(self, name: str | None) -> bool:
        return any(loop.variable == name for loop in self._loops)

    def _pattern(self, tokens: list[_Token]) -> None:
        if self._loops:
            raise Unreadable(
                "a pattern would be compiled anew for every element",
                hint="use startsWith, endsWith or contains inside of all and exists",
            )
        if [kind for kind, _ in tokens] != ["text"]:
            raise Unreadable("the pattern of matches must be spelled out", hint='write value.matches("^[a-z]+$")')
        self._patterns.append(tokens[0][1])
        self._most_parts = min(self._most_parts, _PARTS[1] // _PATTERN_COST)

    def _macro(self, name: str, over: _Operand, length: int | None) -> None:
        wrong = Unreadable(f"{name} is written list.{name}(x, ...), with one name for the element")
        variable = self._next()[1]
        if self._next()[1] != ",":
            raise wrong
        if variable in VARIABLES or variable in TYPES or self._is_bound(variable):
            raise Unreadable(f"{variable!r} means something already: choose another name for the element")
        if len(self._loops) == _MOST_NESTED:
            raise Unreadable(
                f"{name} stands inside of {_MOST_NESTED} others already", hint="move it out, or do without"
            )
        self._bound.add(variable)
        within = bool(self._loops) and over.root == self._loops[-1].variable and any(p.spreads for p in self._loops)
        self._keep(over)
        spreads = length is None and not within
        self._loops.append(_Loop(variable, spreads, name in ("map", "filter"), length))
        self._weigh()
        count = 1 + self.sequence(")")
        self._loops.pop()
        if count not in MACROS[name]:
            raise wrong

    def _mention(self, operand: _Operand) -> None:
        self._keep(operand)
        # A value is copied at every use. What a loop over data is at is a part of that data, and so counted already,
        # unless the loops inside of it go over the same part.
        at = next((at for at, loop in enumerate(self._loops) if loop.variable == operand.root), -1)
        if at < 0 and operand.root not in _LARGE:
            return
        counted = at >= 0 and self._loops[at].length is None
        if any(loop.length is None and not (counted and loop.spreads) for loop in self._loops[at + 1 :]):
            self._weigh(1)

    def _keep(self, operand: _Operand) -> None:
        root = operand.root
        if root is None or root not in VARIABLES:
            return
        fields, first = VARIABLES[root], operand.keys[0] if operand.keys else None
        if first is not None and root != "args" and re.sub(r"\W", "", first) not in fields:
            if not fields:
                raise Unreadable(f"{root} is one value and has no parts")
            raise unknown("fact", root + first, [f"{root}.{field}" for field in fields])
        if root == "calls" and (first is None or (len(operand.keys) == 1 and "by_name" in first and operand.exact)):
            raise uncounted()
        self._paths[Path(root, tuple(operand.keys))] = None

    def _weigh(self, extra: int = 0) -> None:
        power = sum(loop.spreads + loop.copies for loop in self._loops) + extra
        most = _PARTS.get(max(power, 1), 0) // prod(loop.length or 1 for loop in self._loops)
        if most < _FEWEST_PARTS:
            raise Unreadable(
                "it would make too much work of large arguments",
                hint="go over each list once, and use neither args nor an outer element inside of an inner one",
            )
        self._most_parts = min(self._most_parts, most)
