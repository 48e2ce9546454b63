"""The options of `run`, `validate` and `repl`: what programs are given, what they may use, and under which terms."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from cloister.cli.approve import Mode
from cloister.cli.failures import UsageError
from cloister.core.cell import CellLimits
from cloister.core.limits import SessionLimits

if TYPE_CHECKING:
    from cloister.app.config import Config

_CALLS = Group("Calls", sort_key=2)
_LIMITS = Group("Limits", sort_key=3)
_DEFAULT = SessionLimits()
_AS_IT_WAS = "as it was"
_LIMIT_HELP = {
    "wall_ms": "Time on the clock, calls included.",
    "cpu_ms": "Processor time.",
    "memory_mb": "Memory.",
    "max_stdout_bytes": "Output that is kept; the rest is cut.",
    "max_external_calls": "Calls of tools.",
    "max_stack_depth": "Nested function calls.",
}


def _otherwise(value: int | str) -> Callable[[object], object]:
    """What help shows as the default of an option that the configuration has a say in."""

    def shown(_none: object) -> object:
        return value

    return shown


ConfigFile = Annotated[
    str | None,
    Parameter(
        name="--config",
        metavar="FILE",
        show_default=False,
        help="What holds where no option says otherwise.  [default: CLOISTER_CONFIG, or ./cloister.toml]",
    ),
]
Code = Annotated[
    str | None,
    Parameter(name=["-e", "--execute"], help="The program itself, instead of FILE.", allow_leading_hyphen=True),
]
File = Annotated[str | None, Parameter(help="A .py or .ts file; - reads standard input.")]
AsJson = Annotated[
    bool,
    Parameter(name="--json", negative="", show_default=False, help="Write one JSON object to stdout, nothing else."),
]


Tools = Annotated[
    list[str] | None,
    Parameter(
        name=["--tools", "-t"],
        negative="",
        metavar="MODULE[:ATTR]",
        help="What the program may call: a tool, a function, a list of them, or a module with @tool functions. "
        "The current directory is importable. Repeatable.",
    ),
]


def _limit(name: str, otherwise: int | str | None = None) -> Parameter:
    """The option for one limit of sessions; `otherwise` is what holds without it, if not the default."""
    return Parameter(
        name=["--timeout-ms", "--wall-ms"] if name == "wall_ms" else None,
        group=_LIMITS,
        help=_LIMIT_HELP[name],
        show_default=_otherwise(getattr(_DEFAULT, name) if otherwise is None else otherwise),
    )


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LimitOptions:
    """What each cell of a session may use."""

    timeout_ms: Annotated[int | None, _limit("wall_ms")] = None
    cpu_ms: Annotated[int | None, _limit("cpu_ms")] = None
    memory_mb: Annotated[int | None, _limit("memory_mb")] = None
    max_stdout_bytes: Annotated[int | None, _limit("max_stdout_bytes")] = None
    max_external_calls: Annotated[int | None, _limit("max_external_calls")] = None
    max_stack_depth: Annotated[int | None, _limit("max_stack_depth")] = None

    def given(self) -> dict[str, int | None]:
        """By the names that limits have; None for what nothing is said of."""
        return {
            "wall_ms": self.timeout_ms,
            "cpu_ms": self.cpu_ms,
            "memory_mb": self.memory_mb,
            "max_stdout_bytes": self.max_stdout_bytes,
            "max_external_calls": self.max_external_calls,
            "max_stack_depth": self.max_stack_depth,
        }


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class NarrowOptions(LimitOptions):
    """The limits of a session that is made of another: narrower than those, or the same."""

    timeout_ms: Annotated[int | None, _limit("wall_ms", _AS_IT_WAS)] = None
    cpu_ms: Annotated[int | None, _limit("cpu_ms", _AS_IT_WAS)] = None
    memory_mb: Annotated[int | None, _limit("memory_mb", _AS_IT_WAS)] = None
    max_stdout_bytes: Annotated[int | None, _limit("max_stdout_bytes", _AS_IT_WAS)] = None
    max_external_calls: Annotated[int | None, _limit("max_external_calls", _AS_IT_WAS)] = None
    max_stack_depth: Annotated[int | None, _limit("max_stack_depth", _AS_IT_WAS)] = None

    def asked(self) -> dict[str, int]:
        return {name: value for name, value in self.given().items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class GrantOptions(LimitOptions):
    """What the programs of a session may use."""

    tools: Tools = None
    type_check: Annotated[
        Literal["strict", "warn", "off"] | None,
        Parameter(help="What a type error does: stop the run, warn, or nothing.", show_default=_otherwise("warn")),
    ] = None
    require_confinement: Annotated[
        bool | None,
        Parameter(
            negative="", show_default=False, help="Refuse to run unless every layer around the worker is active."
        ),
    ] = None
    config: ConfigFile = None

    def limits(self, config: "Config") -> SessionLimits:
        """Raises `InvalidLimits` naming the one that does not fit."""
        return config.limits(self.given())


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ProgramOptions(GrantOptions):
    """What one program is given."""

    language: Annotated[
        Literal["python", "typescript"] | None,
        Parameter(name=["--language", "-l"], help="Guessed from FILE's name; python with -e and standard input."),
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

    def inputs(self) -> dict[str, Any]:
        return parse_inputs(self.input or ())


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ReplOptions(GrantOptions):
    """What an interactive session is given."""

    language: Annotated[
        Literal["python", "typescript"], Parameter(name=["--language", "-l"], help="The language of the session.")
    ] = "python"
    timeout_ms: Annotated[
        int | None,
        Parameter(
            name=["--timeout-ms", "--wall-ms"],
            group=_LIMITS,
            help="Time on the clock for one cell, without the time it waits for answers.",
            show_default=_otherwise(CellLimits().cell_wall_ms),
        ),
    ] = None

    def limits(self, config: "Config") -> SessionLimits:
        return config.limits({**self.given(), "wall_ms": None})


@Parameter(name="*", group=_CALLS)
@dataclass(frozen=True, slots=True)
class GuardOptions:
    """What calls are held against, and what they may take along."""

    deny: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            metavar="RULE",
            allow_leading_hyphen=True,
            help="A CEL expression; a call for which it is true is never made: --deny 'side_effect == \"write\"', "
            "--deny 'name == \"refund\" && args.amount > 100'. Repeatable.",
        ),
    ] = None
    secret: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            metavar="NAME=TOOL[,TOOL]",
            help='What secret("NAME") stands for in the program: the value of the environment variable NAME, which '
            "only these tools get. Repeatable.",
        ),
    ] = None


@Parameter(name="*", group=_CALLS)
@dataclass(frozen=True, slots=True)
class CallOptions(GuardOptions):
    """The calls of somebody's own programs: who answers their questions, and who sees them."""

    approve: Annotated[
        Mode,
        Parameter(
            help="What becomes of a call that needs approval: you are asked at the terminal, or all get the same "
            "answer. Where there is no terminal to ask at, it is denied. `later` leaves the question open in a "
            "session: the program sleeps, and goes on once somebody has answered with `cloister approvals`. `repl` "
            "asks nobody: it waits for :approve."
        ),
    ] = "ask"
    show: Annotated[
        bool | None,
        Parameter(
            name="--calls",
            negative="--no-calls",
            show_default=False,
            help="Show calls and notes on stderr as they happen. Without it they are shown on a terminal only.",
        ),
    ] = None


@Parameter(name="*", group=Group("Where it is kept", sort_key=4))
@dataclass(frozen=True, slots=True)
class KeepOptions:
    """Which session it is, and where that is written down."""

    session: Annotated[
        str | None,
        Parameter(
            metavar="ID",
            help="Go on with this session, or begin it: it is written down, with its variables. Without it nothing is, "
            "unless --store is given.",
        ),
    ] = None
    store: Annotated[
        str | None,
        Parameter(
            name=["--store", "-s"],
            metavar="URL",
            help="Where sessions are written down: sqlite:///path/to/file.db, postgresql://user@host/database, or "
            "memory: for nowhere.  [default with --session: that of the configuration, or cloister.db in the data "
            "directory]",
        ),
    ] = None

    @property
    def is_kept(self) -> bool:
        return (self.session is not None or self.store is not None) and self.store != "memory:"

    def place(self, config: "Config") -> object:
        """What a `Cloister` is given as its store."""
        from cloister.cli.store import made

        if not self.is_kept:
            return "memory:"
        return self.store if self.store is not None else made(None, config)[1]


DEFAULT_KEEP = KeepOptions()
DEFAULTS = ProgramOptions()
SAME_LIMITS = NarrowOptions()
DEFAULT_GUARD = GuardOptions()
DEFAULT_CALLS = CallOptions()
DEFAULT_REPL = ReplOptions()


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
            values[name] = json.loads(text, parse_constant=no_constant)
        except ValueError:
            as_text = json.dumps(text, ensure_ascii=False)
            raise UsageError(
                f"--input {name}: {text!r} is not JSON", f"for text add quotes: --input '{name}={as_text}'"
            ) from None
        except RecursionError:
            raise UsageError(f"--input {name}: the value is nested too deeply") from None
    return values


def no_constant(name: str) -> Any:
    # NaN and Infinity: Python's parser would let them in, JSON has no such thing.
    raise ValueError(name)
