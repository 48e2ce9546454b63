"""Stage 9: run one tool, with a deadline, within its quota.

An async tool runs in a task of its own, a plain function in a thread; contextvars of the caller reach both. The
wait for its turn counts against the call's time. A tool that ignores being stopped holds up nobody: the call ends,
and only the tool's slot stays taken until it has really ended, because concurrency is a promise about what runs.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial

from cloister.core.call import CallStatus
from cloister.core.codes import Code
from cloister.gate.errand import Errand
from cloister.gate.quota import Quota
from cloister.gate.refusal import Refusal, refuse
from cloister.gate.threads import THREADS, Ended, discard
from cloister.tools.context import CallContext
from cloister.tools.tool import Bound, Tool, ToolError


class ToolBroke(Exception):
    """A tool failed in a way that it did not choose. What `error` says is the host's, and not the program's."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("a tool broke")
        self.error = error


async def dispatch(
    tool: Tool,
    bound: Bound,
    context: CallContext,
    quota: Quota,
    *,
    timeout_ms: int,
    started: Callable[[], Awaitable[None]] | None = None,
    on_abandoned: Callable[[], None] | None = None,
) -> object:
    """What the tool returned, as it is. Raises

    - `ToolError`, as the tool chose it, and `ToolBroke` for anything else that it raised, even to stop the process;
    - `Refusal` TIMEOUT_TOOL, when its time was over in line or at work;
    - `CancelledError`, when the caller was cancelled and only then.

    `started` is awaited when the call has its turn, before the tool is touched. Its time counts but it is not cut
    short, for it writes down what is about to happen; what it raises is raised. `on_abandoned` is told when the tool
    goes on alone.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    waited = not quota.try_enter()
    if waited:
        await _turn(tool, quota, deadline, timeout_ms)
    try:
        if started is not None:
            await started()
        left = deadline - loop.time()
        if left <= 0:
            raise _too_late(tool, timeout_ms, waited=waited)
        run = _Run(tool, bound, context)
    except BaseException:
        quota.leave()
        raise
    # However the call ends, the slot comes back when the tool has ended.
    what = f"tool {tool.full_name}"
    errand = Errand(what, run.go(), stop=run.stop, on_end=quota.leave, on_abandoned=on_abandoned)
    ended = await errand.outcome(left)
    if ended is None:
        raise _too_late(tool, timeout_ms, waited=waited)
    if ended.error is None:
        return ended.value
    if isinstance(ended.error, ToolError):
        raise ended.error
    raise ToolBroke(ended.error)


async def _turn(tool: Tool, quota: Quota, deadline: float, timeout_ms: int) -> None:
    try:
        async with asyncio.timeout_at(deadline):
            await quota.enter()
    except TimeoutError:
        limits = tool.limits
        rate = f", at most {limits.rate_per_min} a minute" if limits.rate_per_min is not None else ""
        raise refuse(
            Code.TIMEOUT_TOOL,
            f"`{tool.full_name}` waited longer than {timeout_ms} ms for its turn",
            f"make fewer calls at once: {limits.concurrency} run at a time{rate}",
            CallStatus.TIMEOUT,
        ) from None


def _too_late(tool: Tool, timeout_ms: int, *, waited: bool) -> Refusal:
    wait = ", the wait for its turn included" if waited else ""
    return refuse(
        Code.TIMEOUT_TOOL,
        f"`{tool.full_name}` took longer than {timeout_ms} ms{wait}",
        "try again, or do less in one call",
        CallStatus.TIMEOUT,
    )


class _Run:
    """The tool at work."""

    __slots__ = ("_bound", "_context", "_in_thread", "_tool")

    def __init__(self, tool: Tool, bound: Bound, context: CallContext) -> None:
        self._tool = tool
        self._bound = bound
        self._context = context
        self._in_thread = False

    async def go(self) -> Ended:
        tool, bound = self._tool, self._bound
        kwargs = bound.kwargs
        if tool.takes_context is not None:
            kwargs = {**kwargs, tool.takes_context: self._context}
        try:
            if tool.is_async:
                return Ended(await tool.handler(*bound.args, **kwargs))
            return await self._plain(partial(tool.handler, *bound.args, **kwargs))
        # Containment: KeyboardInterrupt and SystemExit too. A task that ends with one of them ends its whole loop.
        except BaseException as error:  # noqa: BLE001
            return Ended(error=error)

    async def _plain(self, work: Callable[[], object]) -> Ended:
        self._in_thread = True
        ended = await THREADS.run(work)
        self._in_thread = False
        if not inspect.isawaitable(ended.value):
            return ended
        if self._context.cancelled:
            discard(ended.value)
            return Ended(error=asyncio.CancelledError())
        # A plain function around an async one: what it made is awaited here, where the loop is.
        return Ended(await ended.value)

    def stop(self, task: "asyncio.Task[Ended]") -> None:
        self._context.cancel()
        # A thread cannot be stopped. Its task waits for it, because the slot is taken until the function returns.
        if not self._in_thread:
            task.cancel()
