"""`cloister run`: one program, from its source to an exit code."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from cloister.cli.diagnostics import findings, render
from cloister.cli.exits import EXIT_OF
from cloister.cli.imports import import_tools
from cloister.cli.interrupt import Interrupted, run_interruptibly
from cloister.cli.options import DEFAULTS, AsJson, Code, File, ProgramOptions
from cloister.cli.source import Source, read_source
from cloister.cli.terminal import ProgramOutput, console
from cloister.core.codes import Code as ErrorCode
from cloister.core.codes import RunStatus
from cloister.core.diagnostic import ErrorObject
from cloister.core.run import RunResult
from cloister.core.wire import to_json
from cloister.sessions.session import Listener


def run(
    file: File = None, /, *, execute: Code = None, options: ProgramOptions = DEFAULTS, as_json: AsJson = False
) -> int:
    """Run a program and print its value."""
    source = read_source(file, execute, options.language)
    tools = import_tools(options.tools or ())
    inputs = options.inputs()
    return _as_json(source, tools, inputs, options) if as_json else _for_people(source, tools, inputs, options)


def _for_people(source: Source, tools: list[object], inputs: Mapping[str, Any], options: ProgramOptions) -> int:
    output = ProgramOutput()
    result = run_interruptibly(_run(source, tools, inputs, options, output))
    if result.ok and result.result is not None:
        output.value(json.dumps(result.result, indent=2, ensure_ascii=False))
    found = findings(result)
    if found:
        screen = console(stderr=True)
        for finding in found:
            screen.print(render(finding, source))
    return EXIT_OF[result.status]


def _as_json(source: Source, tools: list[object], inputs: Mapping[str, Any], options: ProgramOptions) -> int:
    printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
    try:
        result = run_interruptibly(
            _run(source, tools, inputs, options, lambda stream, text: printed[stream].append(text))
        )
        code = EXIT_OF[result.status]
    except Interrupted as stopped:
        # The run was cancelled and returned nothing; what it had printed by then is still true.
        result = RunResult(
            RunStatus.INTERRUPTED,
            cell_id="",
            stdout="".join(printed["stdout"]),
            stderr="".join(printed["stderr"]),
            error=ErrorObject(ErrorCode.INTERRUPTED, f"the program was {stopped}"),
        )
        code = stopped.exit_code
    sys.stdout.write(json.dumps(to_json(result)) + "\n")
    return code


async def _run(
    source: Source, tools: list[object], inputs: Mapping[str, Any], options: ProgramOptions, listener: Listener
) -> RunResult:
    from cloister.app import Cloister

    async with Cloister(tools=tools, limits=options.limits(), type_check=options.type_check, workers=1) as cloister:
        session = await cloister.open_session(language=source.language)
        return await session.run(source.code, inputs=inputs, on_output=listener)
