"""`cloister validate`: what a check finds in a program, without running any of it."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from cloister.cli.diagnostics import count, findings, render
from cloister.cli.exits import EXIT_OF
from cloister.cli.imports import import_tools
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.options import DEFAULTS, AsJson, Code, File, ProgramOptions
from cloister.cli.source import Source, read_source
from cloister.cli.terminal import console
from cloister.core.run import RunResult
from cloister.core.wire import to_json


def validate(
    file: File = None, /, *, execute: Code = None, options: ProgramOptions = DEFAULTS, as_json: AsJson = False
) -> int:
    """Check a program without running it."""
    source = read_source(file, execute, options.language)
    tools = import_tools(options.tools or ())
    result = run_interruptibly(_validate(source, tools, options.inputs(), options))
    if as_json:
        sys.stdout.write(json.dumps(to_json(result)) + "\n")
    else:
        found = findings(result)
        screen = console()
        for finding in found:
            screen.print(render(finding, source))
        screen.print(count(found))
    return EXIT_OF[result.status]


async def _validate(
    source: Source, tools: list[object], inputs: Mapping[str, Any], options: ProgramOptions
) -> RunResult:
    from cloister.app import Cloister

    async with Cloister(tools=tools, limits=options.limits(), type_check=options.type_check, workers=1) as cloister:
        session = await cloister.open_session(language=source.language)
        return await session.validate(source.code, inputs=inputs)
