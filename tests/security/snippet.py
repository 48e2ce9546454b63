"""What a hostile program is, as data: a name that is a sentence, its code, and what may come back.

The corpora (`corpus_python`, `corpus_typescript`) hold nothing but these; `test_corpus` runs them. A snippet that may
end well says with which value: an attack that "worked" and gave another one is a failure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cloister import SessionLimits

# Small, so that the corpus is quick: an attack that a small limit stops, a large one stops later.
BOUNDS = SessionLimits(wall_ms=1500, cpu_ms=400, memory_mb=32)

# What may come back: codes, or OK.
OK = "ok"
STOPPED = frozenset(("TIMEOUT_CPU", "TIMEOUT_WALL"))
FULL = frozenset(("MEMORY_EXCEEDED",))
DEEP = frozenset(("STACK_OVERFLOW",))
SPENT = STOPPED | FULL | DEEP
UNCAUGHT = frozenset(("RUNTIME_ERROR",))
REFUSED = frozenset(("SYNTAX_ERROR", "UNSUPPORTED_FEATURE"))
UNWRITABLE = frozenset(("RESULT_NOT_SERIALIZABLE",))
TOO_LARGE = frozenset(("RESULT_TOO_LARGE",))

ANYTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Snippet:
    """`before` are cells that run first and must go well. `keeps`: the session's earlier variable survives."""

    name: str
    code: str
    allowed: frozenset[str]
    value: Any = ANYTHING
    limits: SessionLimits = BOUNDS
    before: tuple[str, ...] = ()
    keeps: bool = True


def ends(name: str, code: str, *allowed: str | Iterable[str], **rest: Any) -> Snippet:
    """A program that ends in one of `allowed`: codes, or sets of them."""
    codes = [{each} if isinstance(each, str) else each for each in allowed]
    return Snippet(name, code, frozenset[str]().union(*codes), **rest)


def harmless(name: str, code: str, value: Any, *otherwise: str | Iterable[str], **rest: Any) -> Snippet:
    """A program that may end well, but only with `value`; or in one of `otherwise`."""
    return ends(name, code, OK, *otherwise, value=value, **rest)
