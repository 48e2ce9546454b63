"""What `run` and `validate` work on: a program, what it is given, and the session it gets."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from cloister.cli.imports import import_tools
from cloister.cli.options import DEFAULT_CALLS, CallOptions, ProgramOptions
from cloister.cli.secrets import check_tools, parse_secrets
from cloister.cli.source import Source, read_source
from cloister.core.approval import Approver
from cloister.core.limits import SessionLimits
from cloister.ports.secrets import Secret
from cloister.sessions import Session
from cloister.tools import ToolRegistry
from cloister.tools.rule import Rule


@dataclass(frozen=True, slots=True)
class Job:
    source: Source
    tools: ToolRegistry
    inputs: Mapping[str, Any]
    limits: SessionLimits
    type_check: str
    require_confinement: bool
    deny: list[str]
    secrets: Mapping[str, Secret]

    @asynccontextmanager
    async def session(self, approver: Approver | None = None) -> AsyncGenerator[Session, None]:
        """A session of its own in a runtime of its own."""
        from cloister.app import Cloister

        async with Cloister(
            tools=self.tools,
            limits=self.limits,
            type_check=self.type_check,
            workers=1,
            require_confinement=self.require_confinement,
            approver=approver,
            deny=self.deny,
            secrets=self.secrets,
        ) as cloister:
            yield await cloister.open_session(language=self.source.language)


def read_job(file: str | None, code: str | None, options: ProgramOptions, calls: CallOptions = DEFAULT_CALLS) -> Job:
    """Everything that can be wrong about the command is found here, before a worker starts."""
    source = read_source(file, code, options.language)
    inputs = options.inputs()
    limits = options.limits()
    deny = calls.deny or []
    for rule in deny:
        Rule.compile(rule, what="--deny")
    secrets = parse_secrets(calls.secret or ())
    # Last, because it runs the user's code.
    tools = ToolRegistry(import_tools(options.tools or ()))
    check_tools(secrets, tools.names())
    return Job(
        source=source,
        tools=tools,
        inputs=inputs,
        limits=limits,
        type_check=options.type_check,
        require_confinement=options.require_confinement,
        deny=deny,
        secrets=secrets,
    )
