"""`cloister mcp`: this runtime as an MCP server on standard input and output.

What is said to the client is the server's business (`cloister.mcp`, which needs the extra of that name); here are the
options, and what they are made into. Nothing but the protocol may reach the standard output.
"""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from cloister.cli.exits import OK
from cloister.cli.failures import UsageError
from cloister.cli.imports import import_tools
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.options import DEFAULT_KEEP, GrantOptions, KeepOptions
from cloister.cli.secrets import check_tools, parse_secrets
from cloister.core.cell import CellLimits
from cloister.core.errors import InvalidConfig
from cloister.core.language import Language
from cloister.ports.secrets import Secret
from cloister.tools import ToolRegistry
from cloister.tools.rule import Rule

if TYPE_CHECKING:
    from cloister.app import Cloister
    from cloister.mcp import McpOptions, Wires

SESSION_VARIABLE = "CLOISTER_SESSION"
_CLIENTS = Group("What clients get", sort_key=1)
_CALLS = Group("Calls", sort_key=2)
_DEFAULT_PREAMBLE = 2000


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class McpServeOptions(GrantOptions):
    """What clients and their programs are given."""

    language: Annotated[
        Literal["python", "typescript"],
        Parameter(name=["--language", "-l"], group=_CLIENTS, help="Of programs that name none."),
    ] = "python"
    mcp_config: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            group=_CLIENTS,
            metavar="FILE",
            help="MCP servers whose tools programs may call: the JSON with `mcpServers` that other clients read. "
            "Repeatable.",
        ),
    ] = None
    allow_approve: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            group=_CLIENTS,
            help="Offer the tool `approve`. The model could then decide questions meant for a person.",
        ),
    ] = False
    show_cells: Annotated[
        bool,
        Parameter(name="--cells", negative="", show_default=False, group=_CLIENTS, help="Offer the tool `cells`."),
    ] = False
    preamble_tokens: Annotated[
        int,
        Parameter(
            group=_CLIENTS, help="How much of what can be called is told in the description of `exec`; 0 for nothing."
        ),
    ] = _DEFAULT_PREAMBLE
    timeout_ms: Annotated[
        int,
        Parameter(
            name=["--timeout-ms", "--wall-ms"],
            group=Group("Limits", sort_key=3),
            help="Time on the clock for one program, without the time it waits for answers.",
        ),
    ] = CellLimits().cell_wall_ms
    deny: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            group=_CALLS,
            metavar="RULE",
            allow_leading_hyphen=True,
            help="A CEL expression; a call for which it is true is never made: --deny 'side_effect == \"write\"'. "
            "Repeatable.",
        ),
    ] = None
    secret: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            group=_CALLS,
            metavar="NAME=TOOL[,TOOL]",
            help='What secret("NAME") stands for in a program: the value of the environment variable NAME, which only '
            "these tools get. Repeatable.",
        ),
    ] = None


DEFAULT_SERVE = McpServeOptions()


def mcp(*, options: McpServeOptions = DEFAULT_SERVE, keep: KeepOptions = DEFAULT_KEEP) -> int:
    """Serve MCP on standard input and output."""
    try:
        from cloister.mcp import Wires
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError("cloister mcp needs the MCP SDK", "pip install 'cloister[mcp]'") from None
    keep = KeepOptions(keep.session or os.environ.get(SESSION_VARIABLE) or None, keep.store)
    offered, granted = _offered(options, keep), _granted(options)
    # Before the tools are imported: they may print.
    wires = Wires()
    _quiet_sdk()
    run_interruptibly(_serve(_cloister(options, keep, granted), offered, wires, is_kept=keep.is_kept))
    return OK


@dataclass(frozen=True, slots=True)
class _Granted:
    secrets: Mapping[str, Secret]
    sources: Sequence[object]


def _granted(options: McpServeOptions) -> _Granted:
    """Everything that can be wrong about the command, but for tools, is found here."""
    options.limits()
    for rule in options.deny or ():
        Rule.compile(rule, what="--deny")
    return _Granted(parse_secrets(options.secret or ()), _sources(options.mcp_config or ()))


def _offered(options: McpServeOptions, keep: KeepOptions) -> "McpOptions":
    from cloister.mcp import McpOptions

    return McpOptions(
        session=keep.session,
        language=Language(options.language),
        allow_approve=options.allow_approve,
        show_cells=options.show_cells,
        preamble_tokens=options.preamble_tokens,
        can_be_decided=keep.is_kept,
    )


async def _serve(cloister: "Cloister", offered: "McpOptions", wires: "Wires", *, is_kept: bool) -> None:
    from cloister.mcp import CodeServer, serve_stdio

    async with cloister, CodeServer(cloister, offered, is_kept=is_kept) as server:
        await serve_stdio(server, wires)


def _cloister(options: McpServeOptions, keep: KeepOptions, granted: _Granted) -> "Cloister":
    from cloister.app import Cloister

    # Last, because it runs the user's code.
    tools = ToolRegistry(import_tools(options.tools or ()))
    if not granted.sources:
        # What sources offer is not known yet.
        check_tools(granted.secrets, tools.names())
    return Cloister(
        tools=tools,
        sources=granted.sources,
        limits=options.limits(),
        type_check=options.type_check,
        require_confinement=options.require_confinement,
        deny=options.deny or (),
        secrets=granted.secrets,
        cells=CellLimits(cell_wall_ms=options.timeout_ms),
        store=keep.place(),
    )


def _sources(files: Sequence[str]) -> list[object]:
    """One that cannot be reached is missing and named; the others, and the server, go on."""
    from cloister.sessions.overlay import Overlay
    from cloister.tools.sources import McpSource, read_mcp_servers

    found: list[object] = []
    for file in files:
        try:
            servers = read_mcp_servers(_read(file))
        except InvalidConfig as error:
            raise UsageError(f"--mcp-config {file}: {error.message}", error.hint) from None
        found.extend(Overlay(McpSource(server), optional=True) for server in servers)
    return found


def _read(file: str) -> Any:
    try:
        return json.loads(Path(file).read_bytes())
    except OSError as error:
        raise UsageError(f"--mcp-config {file}: {error.strerror or error}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"--mcp-config {file}, line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError):
        raise UsageError(f"--mcp-config {file} is not JSON", 'it looks like {"mcpServers": {...}}') from None


def _quiet_sdk() -> None:
    """The SDK's own warnings go where ours go."""
    for name in ("mcp", "server", "client"):
        logging.getLogger(name).setLevel(logging.ERROR)
