"""`cloister run`: one program, from its source to an exit code."""

import json
import sys

from cloister.cells.output import Kind, Output
from cloister.cli.approve import approver
from cloister.cli.calls import are_shown, listener
from cloister.cli.diagnostics import findings, render
from cloister.cli.exits import EXIT_OF
from cloister.cli.failures import UsageError, complain, log_to
from cloister.cli.images import image_lines
from cloister.cli.interrupt import Interrupted, run_interruptibly
from cloister.cli.job import Job, read_job
from cloister.cli.options import (
    DEFAULT_CALLS,
    DEFAULT_KEEP,
    DEFAULTS,
    AsJson,
    CallOptions,
    Code,
    File,
    KeepOptions,
    ProgramOptions,
)
from cloister.cli.terminal import ProgramOutput, one_json_object, styled
from cloister.core.approval import Approval, Approver
from cloister.core.codes import Code as ErrorCode
from cloister.core.codes import RunStatus
from cloister.core.diagnostic import ErrorObject
from cloister.core.run import RunResult
from cloister.core.wire import to_json
from cloister.sessions.events import EventListener
from cloister.sessions.session import Listener


def run(
    file: File = None,
    /,
    *,
    execute: Code = None,
    options: ProgramOptions = DEFAULTS,
    calls: CallOptions = DEFAULT_CALLS,
    keep: KeepOptions = DEFAULT_KEEP,
    as_json: AsJson = False,
) -> int:
    """Run a program and print its value."""
    if not as_json:
        _check_kept(calls, keep)
        return _for_people(read_job(file, execute, options, calls), calls, keep)
    with one_json_object() as write:
        _check_kept(calls, keep)
        result, code = _for_machines(read_job(file, execute, options, calls), calls, keep)
        write(to_json(result))
    return code


def _for_people(job: Job, calls: CallOptions, keep: KeepOptions) -> int:
    output = ProgramOutput()
    log_to(output.log)
    beside = listener(output.aside) if are_shown(calls.show) else None
    try:
        result = run_interruptibly(_run(job, output, approver(calls.approve, output.held), beside, keep))
    finally:
        output.finish()
    if sys.stdout.isatty():
        for line in image_lines(result.content):
            output.value(line)
    if result.ok and result.result is not None:
        output.value(json.dumps(result.result, indent=2, ensure_ascii=False))
    for finding in findings(result):
        output.report(styled(render(finding, job.source)))
    for question in result.approvals:
        complain(*_unanswered(question, keep))
    return EXIT_OF[result.status]


def _for_machines(job: Job, calls: CallOptions, keep: KeepOptions) -> tuple[RunResult, int]:
    said = Output(sys.maxsize)
    screen = ProgramOutput()
    log_to(screen.log)
    answers = approver(calls.approve, screen.held)
    beside = listener(screen.aside) if are_shown(calls.show, as_json=True) else None

    def hear(kind: Kind, text: str) -> None:
        if kind == "text":
            said.say(text)
        else:
            said.write(kind, text)

    try:
        result = run_interruptibly(_run(job, hear, answers, beside, keep))
        return result, EXIT_OF[result.status]
    except Interrupted as stopped:
        # The run was cancelled and returned nothing; what it had said by then is still true.
        result = RunResult(
            RunStatus.INTERRUPTED,
            cell_id="",
            stdout=said.text("stdout"),
            stderr=said.text("stderr"),
            content=said.content(),
            error=ErrorObject(ErrorCode.INTERRUPTED, f"the program was {stopped}"),
        )
        return result, stopped.exit_code


def _unanswered(question: Approval, keep: KeepOptions) -> tuple[str, str | None]:
    """What is said of a question that nobody has answered, and what can be done about it."""
    if not keep.is_kept:
        return f"`{question.capability}` needs approval and nobody answered, so the program did not go on", None
    return (
        f"`{question.capability}` needs approval, and the program sleeps until somebody has answered",
        f"cloister approvals allow {question.id}; it goes on with the next run --session {question.session_id}",
    )


def _check_kept(calls: CallOptions, keep: KeepOptions) -> None:
    if calls.approve == "later" and not keep.is_kept:
        raise UsageError("--approve later leaves questions in a session, and none is named", "name one: --session NAME")


async def _run(
    job: Job, listener: Listener, answers: Approver, beside: EventListener | None, keep: KeepOptions
) -> RunResult:
    async with job.session(answers, beside, keep) as session:
        return await session.run(job.source.code, inputs=job.inputs, on_output=listener)
