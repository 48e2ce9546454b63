"""`cloister validate`: what a check finds in a program, without running any of it."""

from cloister.cli.diagnostics import count, findings, render
from cloister.cli.exits import EXIT_OF
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.job import Job, read_job
from cloister.cli.options import DEFAULTS, AsJson, Code, File, ProgramOptions
from cloister.cli.terminal import console, one_json_object
from cloister.core.run import RunResult
from cloister.core.wire import to_json


def validate(
    file: File = None,
    /,
    *,
    execute: Code = None,
    options: ProgramOptions = DEFAULTS,
    as_json: AsJson = False,
) -> int:
    """Check a program without running it."""
    if as_json:
        with one_json_object() as write:
            result = run_interruptibly(_validate(read_job(file, execute, options)))
            write(to_json(result))
        return EXIT_OF[result.status]
    job = read_job(file, execute, options)
    result = run_interruptibly(_validate(job))
    found = findings(result)
    screen = console()
    for finding in found:
        screen.print(render(finding, job.source))
    screen.print(count(found))
    return EXIT_OF[result.status]


async def _validate(job: Job) -> RunResult:
    async with job.session() as session:
        return await session.validate(job.source.code, inputs=job.inputs)
