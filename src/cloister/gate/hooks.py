"""Stages 5 and 12: the host's own say about each call, before it is judged and after it was made.

Hooks run one after the other in the order in which they were given, before a call and after it. A hook that fails,
takes too long or answers with what it may not answer denies: whoever put it there counts on it.

An `async def` hook runs in a task of its own, so contextvars that it sets stay there; a plain one is called on the
event loop and must be quick. Each gets its own copy of the arguments: the way to change them is `Replace`.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import cast

from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import SideEffect
from cloister.core.codes import Code
from cloister.core.errors import InvalidInput
from cloister.core.value import Bounds, Json, ValueRefused, plain
from cloister.gate.errand import Errand
from cloister.gate.guard import SMALL
from cloister.gate.refusal import refuse
from cloister.gate.threads import Ended, discard

log = logging.getLogger("cloister.gate")

_ABSENT = object()
MAX_NOTES = 16
MAX_NOTE_CHARS = 500
# They were let in by the guard already; this is only about copying them.
_ANY_SIZE = Bounds(nodes=1 << 40, size=1 << 40)


@dataclass(frozen=True, slots=True)
class HookedCall:
    """A call as hooks see it. `arguments` are bound to names or positions, with handles in the place of secrets."""

    id: str
    session_id: str
    cell_id: str
    name: str
    arguments: Json
    side_effect: SideEffect
    idempotent: bool
    # What hooks before this one noted.
    notes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Deny:
    """The call is not made; after it was made, its result is withheld. The program sees both texts."""

    message: str
    hint: str | None = None

    def __post_init__(self) -> None:
        _check_text(self.message, "the message of a Deny")
        if self.hint is not None:
            _check_text(self.hint, "the hint of a Deny")


@dataclass(frozen=True, slots=True)
class Replace:
    """The call goes on with other arguments, which are validated like a program's own."""

    arguments: Json


@dataclass(frozen=True, slots=True)
class Note:
    """Notes for later hooks and for the tool (`ctx.notes`): at most 16 in all, of at most 500 characters each."""

    notes: Mapping[str, str]

    def __post_init__(self) -> None:
        if not isinstance(self.notes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"notes are a mapping of texts, not {type(self.notes).__name__}")
        for key, text in self.notes.items():
            _check_text(key, "the key of a note", MAX_NOTE_CHARS)
            _check_text(text, f"note {key!r}", MAX_NOTE_CHARS)


class Hook:
    """A hook that does nothing. Override one method or both; `async` or plain."""

    async def before_call(self, call: HookedCall) -> Deny | Replace | Note | None:
        return None

    async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> Deny | Note | None:
        return None


class Hooks:
    """The hooks of one session, in order."""

    def __init__(self, hooks: Iterable[object] = ()) -> None:
        """Raises `InvalidInput` for what is no hook."""
        given = [_check_hook(hook) for hook in hooks]
        self._before = _methods(given, "before_call")
        self._after = _methods(given, "after_call")

    @classmethod
    def parse(cls, value: object) -> "Hooks":
        if value is None:
            return cls()
        if isinstance(value, Hooks):
            return value
        if not isinstance(value, (list, tuple)):
            raise InvalidInput(f"hooks are a list of them, not {type(value).__name__}", hint="write hooks=[...]")
        return cls(cast("list[object]", value))

    def then(self, others: "Hooks") -> "Hooks":
        """These, and after them the others."""
        both = Hooks()
        both._before, both._after = self._before + others._before, self._after + others._after
        return both

    def __bool__(self) -> bool:
        return bool(self._before or self._after)

    async def before(
        self, call: HookedCall, *, timeout_ms: int, revalidate: Callable[[Json], Awaitable[Json]]
    ) -> HookedCall:
        """The call as it goes on. Raises `Refusal`: a hook's, or that of `revalidate` for arguments it replaced."""
        for method in self._before:
            try:
                answer = await method.ask(call, (), timeout_ms)
                if isinstance(answer, Replace):
                    call = replace(call, arguments=await revalidate(answer.arguments))
                else:
                    call = method.heed(call, answer)
            except _Denial as denial:
                message = f"`{call.name}` is denied: {denial.message}"
                raise refuse(Code.PERMISSION_DENIED, message, denial.hint, CallStatus.DENIED) from None
        return call

    async def after(self, call: HookedCall, record: ExternalCallRecord, *, timeout_ms: int) -> HookedCall:
        """Every hook hears of the call, whatever those before it said. Raises `Refusal` for the first that denies."""
        first: _Denial | None = None
        for method in self._after:
            try:
                call = method.heed(call, await method.ask(call, (record,), timeout_ms))
            except _Denial as denial:
                first = first or denial
        if first is None:
            return call
        happened = "has happened" if record.status == CallStatus.OK else "was called and may have happened"
        message = f"`{call.name}` {happened}, but its result is withheld: {first.message}"
        raise refuse(Code.PERMISSION_DENIED, message, first.hint, CallStatus.DENIED)


class _Denial(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Method:
    # The class of the hook: all that a program learns of one that failed.
    owner: str
    call: Callable[..., object]

    async def ask(self, call: HookedCall, rest: tuple[object, ...], timeout_ms: int) -> object:
        """What the hook answered. Raises `_Denial` if it did not, or not in time."""
        loop = asyncio.get_running_loop()
        given = replace(call, arguments=await _copy(call.arguments), notes=MappingProxyType(dict(call.notes)))
        deadline = loop.time() + timeout_ms / 1000
        try:
            answer = self.call(given, *rest)
        # Containment: whatever a hook raises denies. Nothing is awaited here, so no cancellation of ours is caught.
        except BaseException as error:  # noqa: BLE001
            raise self._failed(error) from None
        if inspect.isawaitable(answer):
            answer = await self._wait(answer, timeout_ms)
        elif loop.time() > deadline:
            raise self._late(timeout_ms)
        return answer

    def heed(self, call: HookedCall, answer: object) -> HookedCall:
        match answer:
            case None:
                return call
            case Note():
                notes = {**call.notes, **answer.notes}
                if len(notes) <= MAX_NOTES:
                    return replace(call, notes=notes)
                log.error("hook %s: a call has at most %d notes", self.owner, MAX_NOTES)
                raise _Denial(f"the hook {self.owner} noted too much")
            case Deny():
                raise _Denial(answer.message, answer.hint)
            case _:
                discard(answer)
                log.error("hook %s answered with %s, which it may not", self.owner, type(answer).__name__)
                raise _Denial(f"the hook {self.owner} failed")

    async def _wait(self, answer: Awaitable[object], timeout_ms: int) -> object:
        try:
            ended = await Errand(f"hook {self.owner}", _awaited(answer)).outcome(timeout_ms / 1000)
        finally:
            # Cancelled before its first step, it would be warned about.
            discard(answer)
        if ended is None:
            raise self._late(timeout_ms)
        if ended.error is not None:
            raise self._failed(ended.error)
        return ended.value

    def _failed(self, error: BaseException) -> _Denial:
        log.error("hook %s failed", self.owner, exc_info=error)
        return _Denial(f"the hook {self.owner} failed")

    def _late(self, timeout_ms: int) -> _Denial:
        log.error("hook %s took longer than %d ms", self.owner, timeout_ms)
        return _Denial(f"the hook {self.owner} took longer than {timeout_ms} ms")


async def _awaited(answer: Awaitable[object]) -> Ended:
    try:
        return Ended(await answer)
    # Containment: see `ask`. A task that ends with SystemExit would end its whole loop.
    except BaseException as error:  # noqa: BLE001
        return Ended(error=error)


async def _copy(arguments: Json) -> Json:
    try:
        return plain(arguments, SMALL)
    except ValueRefused:
        # Much of it: not on the loop.
        return await asyncio.to_thread(plain, arguments, _ANY_SIZE)


_TAKES = {"before_call": ("call",), "after_call": ("call", "record")}


def _check_hook(hook: object) -> object:
    """`hook` itself; raises `InvalidInput` if it could only fail later."""
    if isinstance(hook, type):
        raise InvalidInput(f"{hook.__name__} is a class, not a hook", hint=f"give an instance: {hook.__name__}()")
    name = getattr(hook, "__name__", type(hook).__name__)
    if not any(hasattr(hook, method) for method in _TAKES):
        raise InvalidInput(
            f"{name!r} is not a hook: it has neither before_call nor after_call",
            hint="derive from cloister.Hook and override one of them",
        )
    for method, takes in _TAKES.items():
        function = getattr(hook, method, _ABSENT)
        if function is not _ABSENT and not _can_take(function, len(takes)):
            raise InvalidInput(
                f"{name}.{method} cannot be called with ({', '.join(takes)})",
                hint=f"write `async def {method}(self, {', '.join(takes)})`",
            )
    return hook


def _can_take(function: object, count: int) -> bool:
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # written in C: it does not say
        pass
    return True


def _methods(hooks: Iterable[object], name: str) -> tuple[_Method, ...]:
    found: list[_Method] = []
    for hook in hooks:
        function = getattr(hook, name, None)
        # One that is inherited from Hook does nothing, so it need not be asked.
        if function is not None and getattr(function, "__func__", None) is not getattr(Hook, name):
            found.append(_Method(type(hook).__name__, function))
    return tuple(found)


def _check_text(value: object, what: str, most: int | None = None) -> None:
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is text, not {type(value).__name__}")
    if most is not None and len(value) > most:
        raise InvalidInput(f"{what} has {len(value)} characters; {most} are allowed")
