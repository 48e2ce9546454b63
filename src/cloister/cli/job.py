"""What `run` and `validate` work on: a program, what it is given, and the session it gets."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from cloister.cli.imports import import_tools
from cloister.cli.options import ProgramOptions
from cloister.cli.source import Source, read_source
from cloister.core.limits import SessionLimits
from cloister.sessions import Session


@dataclass(frozen=True, slots=True)
class Job:
    source: Source
    tools: list[object]
    inputs: Mapping[str, Any]
    limits: SessionLimits
    type_check: str
    require_confinement: bool

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Session, None]:
        """A session of its own in a runtime of its own."""
        from cloister.app import Cloister

        async with Cloister(
            tools=self.tools,
            limits=self.limits,
            type_check=self.type_check,
            workers=1,
            require_confinement=self.require_confinement,
        ) as cloister:
            yield await cloister.open_session(language=self.source.language)


def read_job(file: str | None, code: str | None, options: ProgramOptions) -> Job:
    """Everything that can be wrong about the command is found here, before a worker starts."""
    return Job(
        source=read_source(file, code, options.language),
        inputs=options.inputs(),
        limits=options.limits(),
        type_check=options.type_check,
        require_confinement=options.require_confinement,
        # Last, because it runs the user's code.
        tools=import_tools(options.tools or ()),
    )
