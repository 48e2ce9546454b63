"""What the commands work with: a runtime under the terms that were given, and the program that runs in it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloister.cli.failures import UsageError
from cloister.cli.imports import import_tools
from cloister.cli.options import (
    DEFAULT_CALLS,
    DEFAULT_KEEP,
    CallOptions,
    GrantOptions,
    KeepOptions,
    ProgramOptions,
)
from cloister.cli.secrets import check_tools, parse_secrets
from cloister.cli.source import Source, read_source
from cloister.core.approval import Approver
from cloister.core.cell import CellLimits
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.ports.secrets import Secret
from cloister.sessions import Session
from cloister.sessions.events import EventListener
from cloister.tools import ToolRegistry
from cloister.tools.rule import Rule

if TYPE_CHECKING:
    from cloister.app import Cloister


@dataclass(frozen=True, slots=True)
class Terms:
    tools: ToolRegistry
    limits: SessionLimits
    type_check: str
    require_confinement: bool
    deny: list[str]
    secrets: Mapping[str, Secret]

    def cloister(
        self,
        approver: Approver | None = None,
        on_event: EventListener | None = None,
        cells: CellLimits | None = None,
        keep: KeepOptions = DEFAULT_KEEP,
    ) -> "Cloister":
        """A runtime of its own, to be entered."""
        from cloister.app import Cloister

        return Cloister(
            tools=self.tools,
            limits=self.limits,
            type_check=self.type_check,
            workers=1,
            require_confinement=self.require_confinement,
            approver=approver,
            deny=self.deny,
            secrets=self.secrets,
            on_event=on_event,
            cells=cells,
            store=keep.place(),
        )


@dataclass(frozen=True, slots=True)
class Job:
    source: Source
    inputs: Mapping[str, Any]
    terms: Terms

    @asynccontextmanager
    async def session(
        self,
        approver: Approver | None = None,
        on_event: EventListener | None = None,
        keep: KeepOptions = DEFAULT_KEEP,
    ) -> AsyncGenerator[Session, None]:
        """A session in a runtime of its own."""
        async with self.terms.cloister(approver, on_event, keep=keep) as cloister:
            yield await open_session(cloister, keep.session or "default", self.source.language)


async def open_session(cloister: "Cloister", session_id: str, language: Language) -> Session:
    """One that is written down has its language already."""
    session = await cloister.open_session(session_id, language=language)
    if session.language is not language:
        raise UsageError(
            f"session {session_id!r} speaks {session.language}, not {language}",
            f"give --language {session.language}, or name another session",
        )
    return session


def read_job(
    file: str | None,
    code: str | None,
    options: ProgramOptions,
    calls: CallOptions = DEFAULT_CALLS,
) -> Job:
    """Everything that can be wrong about the command is found here, before a worker starts."""
    source = read_source(file, code, options.language)
    inputs = options.inputs()
    return Job(source, inputs, read_terms(options, calls))


def read_terms(options: GrantOptions, calls: CallOptions) -> Terms:
    limits = options.limits()
    deny = calls.deny or []
    for rule in deny:
        Rule.compile(rule, what="--deny")
    secrets = parse_secrets(calls.secret or ())
    # Last, because it runs the user's code.
    tools = ToolRegistry(import_tools(options.tools or ()))
    check_tools(secrets, tools.names())
    return Terms(
        tools=tools,
        limits=limits,
        type_check=options.type_check,
        require_confinement=options.require_confinement,
        deny=deny,
        secrets=secrets,
    )
