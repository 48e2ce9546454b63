"""The options that `run` and `validate` share: what the program is given and what it may use."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from cloister.cli.failures import UsageError
from cloister.core.limits import SessionLimits

_LIMITS = Group("Limits", sort_key=2)
_DEFAULT = SessionLimits()

Code = Annotated[
    str | None,
    Parameter(name=["-e", "--execute"], help="The program itself, instead of FILE.", allow_leading_hyphen=True),
]
File = Annotated[str | None, Parameter(help="A .py or .ts file; - reads standard input.")]
AsJson = Annotated[
    bool,
    Parameter(name="--json", negative="", show_default=False, help="Write one JSON object to stdout, nothing else."),
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ProgramOptions:
    language: Annotated[
        Literal["python", "typescript"] | None,
        Parameter(name=["--language", "-l"], help="Guessed from FILE's name; python with -e and standard input."),
    ] = None
    tools: Annotated[
        list[str] | None,
        Parameter(
            name=["--tools", "-t"],
            negative="",
            metavar="MODULE[:ATTR]",
            help="What the program may call: a tool, a function, a list of them, or a module with @tool functions. "
            "The current directory is importable. Repeatable.",
        ),
    ] = None
    input: Annotated[
        list[str] | None,
        Parameter(
            name=["--input", "-i"],
            negative="",
            metavar="NAME=JSON",
            allow_leading_hyphen=True,
            help="A variable the program starts with: --input n=3, --input 'name=\"Ada\"'. Repeatable.",
        ),
    ] = None
    type_check: Annotated[
        Literal["strict", "warn", "off"], Parameter(help="What a type error does: stop the run, warn, or nothing.")
    ] = "warn"
    require_confinement: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Refuse to run unless every layer around the worker is active."
        ),
    ] = False
    timeout_ms: Annotated[
        int, Parameter(name=["--timeout-ms", "--wall-ms"], group=_LIMITS, help="Time on the clock, calls included.")
    ] = _DEFAULT.wall_ms
    cpu_ms: Annotated[int, Parameter(group=_LIMITS, help="Processor time.")] = _DEFAULT.cpu_ms
    memory_mb: Annotated[int, Parameter(group=_LIMITS, help="Memory.")] = _DEFAULT.memory_mb
    max_stdout_bytes: Annotated[int, Parameter(group=_LIMITS, help="Output that is kept; the rest is cut.")] = (
        _DEFAULT.max_stdout_bytes
    )
    max_external_calls: Annotated[int, Parameter(group=_LIMITS, help="Calls of tools.")] = _DEFAULT.max_external_calls
    max_stack_depth: Annotated[int, Parameter(group=_LIMITS, help="Nested function calls.")] = _DEFAULT.max_stack_depth

    def limits(self) -> SessionLimits:
        """Raises `InvalidLimits` naming the one that does not fit."""
        return SessionLimits(
            memory_mb=self.memory_mb,
            cpu_ms=self.cpu_ms,
            wall_ms=self.timeout_ms,
            max_stdout_bytes=self.max_stdout_bytes,
            max_external_calls=self.max_external_calls,
            max_stack_depth=self.max_stack_depth,
        )

    def inputs(self) -> dict[str, Any]:
        return parse_inputs(self.input or ())


DEFAULTS = ProgramOptions()


def parse_inputs(given: Sequence[str]) -> dict[str, Any]:
    """Names and values from `name=json` pairs."""
    values: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"--input {pair!r} is not NAME=JSON", 'for example --input n=3 or --input \'items=["tea", "salt"]\''
            )
        if name in values:
            raise UsageError(f"--input {name!r} is given twice")
        try:
            values[name] = json.loads(text, parse_constant=_no_constant)
        except ValueError:
            as_text = json.dumps(text, ensure_ascii=False)
            raise UsageError(
                f"--input {name}: {text!r} is not JSON", f"for text add quotes: --input '{name}={as_text}'"
            ) from None
        except RecursionError:
            raise UsageError(f"--input {name}: the value is nested too deeply") from None
    return values


def _no_constant(name: str) -> Any:
    # NaN and Infinity: Python's parser would let them in, JSON has no such thing.
    raise ValueError(name)
