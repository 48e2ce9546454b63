"""What the commands work with: a runtime under the terms that were given, and the program that runs in it.

What no option says, the configuration does; see `app.config`.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloister.app.config import Config, load_config
from cloister.cli.failures import UsageError
from cloister.cli.imports import import_tools
from cloister.cli.options import (
    DEFAULT_CALLS,
    DEFAULT_GUARD,
    DEFAULT_KEEP,
    CallOptions,
    GrantOptions,
    GuardOptions,
    KeepOptions,
    ProgramOptions,
)
from cloister.cli.secrets import check_tools, parse_secrets
from cloister.cli.source import Source, read_source
from cloister.core.approval import Approver
from cloister.core.cell import CellLimits
from cloister.core.file import Mount
from cloister.core.inside import CompleteOptions, SpawnOptions
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.ports.secrets import Secret
from cloister.sessions import Session
from cloister.sessions.events import EventListener
from cloister.tools import ToolRegistry
from cloister.tools.rule import Rule

if TYPE_CHECKING:
    from cloister.app import Cloister
    from cloister.ports.model import Models
    from cloister.ports.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Terms:
    tools: ToolRegistry
    limits: SessionLimits
    type_check: str
    require_confinement: bool
    deny: list[str]
    secrets: Mapping[str, Secret]
    config: Config

    def cloister(
        self,
        approver: Approver | None = None,
        on_event: EventListener | None = None,
        cells: CellLimits | None = None,
        keep: KeepOptions = DEFAULT_KEEP,
        kind: "type[Cloister] | None" = None,
        sources: Sequence[object] = (),
        workers: int | None = None,
        environments: Mapping[str, Mount] | None = None,
        telemetry: "Telemetry | None" = None,
        models: "Models | None" = None,
        model: str | None = None,
        complete: CompleteOptions | None = None,
        spawn: SpawnOptions | None = None,
    ) -> "Cloister":
        """A runtime of its own, to be entered."""
        from cloister.app import Cloister

        config = self.config
        return (kind or Cloister)(
            tools=self.tools,
            sources=[*self.sources(), *sources],
            plugins=config.plugins(),
            limits=self.limits,
            type_check=self.type_check,
            workers=workers or config.get("workers") or 1,
            require_confinement=self.require_confinement,
            approver=approver,
            approvals=config.approvals(),
            approval_ttl_ms=config.get("approval_ttl_ms"),
            deny=self.deny,
            secrets=self.secrets,
            on_event=on_event,
            cells=cells if cells is not None else config.cells(),
            files=config.file_limits(),
            store=keep.place(config),
            durability=config.get("durability") if keep.is_kept else None,
            event_retention=config.retention() if keep.is_kept else None,
            environments=environments,
            telemetry=telemetry,
            models=models,
            model=model,
            complete=complete,
            spawn=spawn,
        )

    def sources(self) -> list[object]:
        """What the configuration names. One that cannot be reached is missed by who calls it, and by nobody else."""
        named = self.config.sources()
        if not named:
            return []
        from cloister.sessions.overlay import Overlay

        return [Overlay(source, optional=True) for source in named]


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


def read_terms(options: GrantOptions, calls: GuardOptions = DEFAULT_GUARD, *, more_sources: bool = False) -> Terms:
    """With `more_sources` there will be tools that the configuration does not name."""
    config = load_config(options.config)
    limits = options.limits(config)
    deny = [*config.deny(), *(calls.deny or ())]
    for rule in calls.deny or ():
        Rule.compile(rule, what="--deny")
    secrets = parse_secrets(calls.secret or ())
    # Last, because it runs the user's code.
    tools = ToolRegistry(_tools(options, config))
    # What sources offer is not known yet.
    if not config.servers_or_apis and not more_sources:
        check_tools(secrets, tools.names())
    confined = options.require_confinement
    return Terms(
        tools=tools,
        limits=limits,
        type_check=options.type_check or config.get("type_check"),
        require_confinement=confined if confined is not None else config.get("require_confinement"),
        deny=deny,
        secrets=secrets,
        config=config,
    )


def _tools(options: GrantOptions, config: Config) -> list[object]:
    if options.tools is not None:
        return import_tools(options.tools)
    origin = config.items["tools"].origin
    beside = origin.source.path.parent.resolve() if origin.source is not None else Path.cwd()
    try:
        return import_tools(config.get("tools"), beside)
    except UsageError as error:
        raise UsageError(error.message.replace("--tools", f"{origin.where}: tools", 1), error.hint) from None
