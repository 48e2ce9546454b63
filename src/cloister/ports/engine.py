"""The engine port: what executes a cell, whatever interpreter does it.

An `Engine` belongs to one language and owns its workers. `open` takes a worker and puts a session's namespace
on it, fresh or from bytes; the `Interpreter` that comes back is that namespace, alive. It runs one program at a
time: `start`, then `resume` until the step is `Finished` or `Failed`. Between steps nothing runs, so it can be
dumped there, at rest or with calls pending, and opened again in another process.

What a caller may rely on:
- The host never evaluates guest code; a worker that misbehaves is killed and the step is `Failed(fatal=True)`.
  After a fatal step the interpreter is gone: close it and open another from the last bytes.
- Nothing the guest sees depends on anything but its bytes, its code and the arguments of these methods. Time
  stands still within a step (`now_ms`) and chance comes from the seed, so the same steps give the same state.
- Limits hold for every step and cannot be caught by the program.
- `dump` bytes are opaque, tied to `name` and `version`, not authenticated and not compressed further.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.language import Language
from cloister.core.light import light
from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.ports.helping import Helper, no_helper


class TypeCheck(StrEnum):
    """What a type error does: stops the run, becomes a warning, or is not looked for."""

    STRICT = "strict"
    WARN = "warn"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a program may call, as an engine needs to know it.

    `names` are written as programs write them (`get_order`, `shop.get_order`); `stubs` is the same in the
    engine's language for a type checker, `modules` the stubs of each namespace; `revision` changes when any does.
    """

    names: frozenset[str] = frozenset()
    stubs: str = ""
    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    signatures: Mapping[str, str] = field(default_factory=dict[str, str])
    revision: str = ""
    # Those of `names` that are Cloister's own: called like tools, and not counted toward `Turn.max_calls`.
    own: frozenset[str] = frozenset()
    # The session's, in every handle that `secret("NAME")` gives; without one a program has no `secret`.
    mark: str = ""
    # Those of `HELPERS`, and `files` in TypeScript, that a program has: all that no tool and no namespace stands in
    # front of.
    helpers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Call:
    """The program asks for something. `number` counts from 1 within the cell and is the call's identity there.

    `timer` is the engine's own: `args[0]` seconds must pass before it is settled with None. It is no tool call.
    """

    number: int
    name: str
    args: tuple[Json, ...] = ()
    kwargs: Mapping[str, Json] = field(default_factory=dict[str, Any])
    kind: Literal["tool", "timer"] = "tool"
    # A value that may not cross: the call must be refused with this, never dispatched.
    refused: ErrorObject | None = None
    # About how many bytes the arguments take: known before anything is made of them.
    size: int = 0


@dataclass(frozen=True, slots=True)
class Returned:
    number: int
    value: Json


@dataclass(frozen=True, slots=True)
class Raised:
    """The call failed. The program sees code, message and hint, and may catch them."""

    number: int
    error: ErrorObject


Settlement: TypeAlias = Returned | Raised


@light
@dataclass(frozen=True, slots=True)
class Usage:
    """What a step used: processor time of the worker and the most memory it has held."""

    cpu_ms: float = 0.0
    memory_peak_bytes: int = 0
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class Suspended:
    """The program cannot go on until one of `awaiting` is settled. `calls` are those that are new."""

    calls: tuple[Call, ...]
    awaiting: frozenset[int]
    usage: Usage = Usage()
    # What `dump` would say, if the turn asked for it and the engine saves something by that; and what it took to make
    # them, which is no time of the program's.
    image: bytes | None = None
    image_ms: float = 0.0


@light
@dataclass(frozen=True, slots=True)
class Finished:
    """The program ended. `calls` were made and never awaited: they must not be dispatched."""

    value: Json
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Failed:
    """The program ended badly. Unless `fatal`, the namespace keeps what was assigned before."""

    error: ErrorObject
    fatal: bool = False
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    # All that a check found, when it was the check that refused the program.
    diagnostics: tuple[Diagnostic, ...] = ()


Step: TypeAlias = Suspended | Finished | Failed
Sink: TypeAlias = Callable[[Literal["stdout", "stderr"], str], None]


@light
@dataclass(frozen=True, slots=True)
class Program:
    """One cell's code and what it starts with."""

    code: str
    inputs: Mapping[str, Json] = field(default_factory=dict[str, Any])
    # Where its relative paths begin: a directory among the session's files. None: where the namespace was left.
    cwd: str | None = None


@light
@dataclass(frozen=True, slots=True)
class Turn:
    """The conditions of one step: the time that the guest sees, and what it may still use."""

    now_ms: int
    wall_ms: float
    cpu_ms: float
    # Receives output as it is printed, on any thread; must be quick and must not raise.
    sink: Sink
    catalog: Catalog = Catalog()
    # How many tool calls the whole cell may make; one more ends it, and the program cannot catch that.
    max_calls: int = 1 << 30
    # Answers the helpers of the catalog, within the step.
    helper: Helper = no_helper
    # Whoever drives it will ask for the program's bytes if it waits: an engine may give them with the step.
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """What `check` found. Errors among `diagnostics` mean that the program must not start."""

    diagnostics: tuple[Diagnostic, ...] = ()
    # What looking at this program took, to be charged to it; not what starting a checker took.
    wall_ms: float = 0.0


class Interpreter(Protocol):
    """A session's namespace, alive on one worker."""

    @property
    def pid(self) -> int | None:
        """The worker's process id while it lives."""
        ...

    async def check(self, program: Program, types: TypeCheck, turn: Turn, *, starting: bool) -> Checked:
        """Look at a program without running any of it.

        With `starting` the caller is about to `start` the program, so what `start` itself refuses before any
        effect need not be looked for twice.
        """
        ...

    async def start(self, program: Program, turn: Turn) -> Step: ...

    async def resume(self, settlements: Sequence[Settlement], turn: Turn) -> Step:
        """Settle pending calls, in any number and order, and go on."""
        ...

    async def dump(self) -> bytes:
        """The namespace and, mid-call, the suspended program. The interpreter stays usable. Raises
        `EngineUnavailable` when its worker is gone."""
        ...

    def interrupt(self) -> None:
        """Stop what runs, for sure: the step under way ends `Failed(INTERRUPTED, fatal=True)`. Any thread."""
        ...

    async def close(self) -> None:
        """Give the worker back, or bury it. Never raises for a worker that is already gone."""
        ...


class Engine(Protocol):
    """Owns the workers of one language. An async context manager; nothing starts before it is entered."""

    @property
    def language(self) -> Language: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str:
        """Two engines with equal name and version read each other's bytes."""
        ...

    @property
    def capacity(self) -> int:
        """How many interpreters can be open at once; the caller keeps to it."""
        ...

    def check_limits(self, limits: SessionLimits) -> None:
        """Raise `InvalidLimits` for what no worker of this engine can give; `open` does so too."""
        ...

    async def __aenter__(self) -> "Engine": ...
    async def __aexit__(self, *exc: object) -> None: ...

    async def open(self, limits: SessionLimits, state: bytes | None = None, *, seed: int = 0) -> Interpreter:
        """A fresh namespace, or the one in `state` (then `seed` is in there already). Raises
        `SnapshotCorrupt` for bytes that this engine cannot read and `EngineUnavailable` when no worker starts."""
        ...

    def confinement(self) -> Mapping[str, str]:
        """The operating system's layers around a worker: name -> "active" or why not."""
        ...

    def unsupported(self) -> Sequence[str]:
        """What programs in this language cannot use, for documentation and doctor."""
        ...
