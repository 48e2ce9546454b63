"""One program, blocking: for scripts and prompts that have no event loop."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from cloister.app.cloister import Cloister
from cloister.core.errors import CloisterError
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.run import RunResult
from cloister.ports.engine import TypeCheck


def run_sync(
    code: str,
    *,
    language: str | Language = Language.PYTHON,
    tools: Iterable[object] = (),
    inputs: Mapping[str, Any] | None = None,
    limits: SessionLimits | None = None,
    type_check: str | TypeCheck = TypeCheck.WARN,
    require_confinement: bool = False,
) -> RunResult:
    """`Cloister.run_once` for code without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise CloisterError("run_sync blocks: inside an event loop use `await Cloister.run_once(...)`")
    return asyncio.run(
        Cloister.run_once(
            code,
            language=language,
            tools=tools,
            inputs=inputs,
            limits=limits,
            type_check=type_check,
            require_confinement=require_confinement,
        )
    )
