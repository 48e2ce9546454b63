"""Asking the approver: the host's own function that answers questions inside its process.

It may be async or plain, quick or waiting for a person. Whatever it does wrong is logged, and leaves the question
open for somebody else: nothing is allowed by a failure.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable

from cloister.core.approval import Answer, Approval, Approver, parse_decision
from cloister.core.errors import ApprovalClosed, InvalidInput
from cloister.gate.threads import THREADS

log = logging.getLogger("cloister.gate")
# How long an approver may take to notice that nobody waits for it any more.
_PATIENCE_S = 5.0


class Inquiries:
    """One task for each question that the approver is at work on."""

    def __init__(self, approver: Approver, *, patience_s: float = _PATIENCE_S) -> None:
        if not callable(approver):
            raise InvalidInput(
                f"an approver is a function that takes an approval, not {type(approver).__name__}",
                hint="it returns 'allow', 'allow_always', 'deny', an Answer, or None if it cannot say",
            )
        self._approver = approver
        self._patience_s = patience_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, approval: Approval, decide: Callable[[Answer], object]) -> "asyncio.Task[None] | None":
        """Ask about one approval; `decide` is called with the answer, if there is one. None once this is closed."""
        if self._closed:
            return None
        task = asyncio.create_task(self._inquire(approval, decide), name=f"approver of {approval.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        self._closed = True
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=self._patience_s)
            for task in stuck:
                log.error("the %s ignores its cancellation and is left behind", task.get_name())

    async def _inquire(self, approval: Approval, decide: Callable[[Answer], object]) -> None:
        try:
            answer = await consult(self._approver, approval)
            if answer is not None:
                decide(answer)
        except ApprovalClosed:
            log.debug("the approver's answer on %s came too late", approval.id)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled this question: something inside the approver was cancelled, and that is its failure.
            _failed(approval, error)
        # Containment: an approver is the host's code. A task that ends with SystemExit ends its whole loop.
        except BaseException as error:  # noqa: BLE001
            _failed(approval, error)


def _failed(approval: Approval, error: BaseException) -> None:
    log.error("the approver failed on %s, which stays as it is", approval.id, exc_info=error)


async def consult(approver: Approver, approval: Approval) -> Answer | None:
    """What the approver says; None if it cannot say. An answer that is none raises `InvalidInput`."""
    reply: object
    if inspect.iscoroutinefunction(approver) or inspect.iscoroutinefunction(getattr(approver, "__call__", None)):  # noqa: B004
        reply = approver(approval)
    else:
        ended = await THREADS.run(lambda: approver(approval))
        if ended.error is not None:
            # SystemExit and its like would end the loop instead of the question.
            raise RuntimeError(f"the approver raised {type(ended.error).__name__}") from ended.error
        reply = ended.value
    # A plain function may also be one around an async one.
    if inspect.isawaitable(reply):
        reply = await reply
    return reply if reply is None or isinstance(reply, Answer) else Answer(parse_decision(reply))
