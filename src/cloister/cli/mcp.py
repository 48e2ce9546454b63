"""`cloister mcp`: this runtime as an MCP server on standard input and output.

What is said to the client is the server's business (`cloister.mcp`, which needs the extra of that name); here are the
options, and what they are made into. Nothing but the protocol may reach the standard output.
"""

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from cloister.app.config import Config, load_config
from cloister.cli.exits import OK
from cloister.cli.failures import UsageError
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.job import read_terms
from cloister.cli.options import DEFAULT_GUARD, DEFAULT_KEEP, GuardOptions, KeepOptions, ReplOptions
from cloister.cli.secrets import parse_secrets
from cloister.cli.store import made
from cloister.core.errors import InvalidConfig
from cloister.core.language import Language
from cloister.tools.rule import Rule

if TYPE_CHECKING:
    from cloister.app import Cloister
    from cloister.mcp import McpOptions, Wires

SESSION_VARIABLE = "CLOISTER_SESSION"
_CLIENTS = Group("What clients get", sort_key=1)
_DEFAULT_PREAMBLE = 2000


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class McpServeOptions(ReplOptions):
    """What clients and their programs are given."""

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


DEFAULT_SERVE = McpServeOptions()


def mcp(
    *, options: McpServeOptions = DEFAULT_SERVE, guard: GuardOptions = DEFAULT_GUARD, keep: KeepOptions = DEFAULT_KEEP
) -> int:
    """Serve MCP on standard input and output."""
    try:
        from cloister.mcp import Wires
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError("cloister mcp needs the MCP SDK", "pip install 'cloister[mcp]'") from None
    keep = KeepOptions(keep.session or os.environ.get(SESSION_VARIABLE) or None, keep.store)
    config = load_config(options.config)
    offered, sources = _offered(options, keep, config), _looked_over(options, guard, config)
    # Before the tools are imported: they may print.
    wires = Wires()
    _quiet_sdk()
    run_interruptibly(_serve(_cloister(options, guard, keep, sources), offered, wires, is_kept=keep.is_kept))
    return OK


def _looked_over(options: McpServeOptions, guard: GuardOptions, config: Config) -> list[object]:
    """Everything that can be wrong about the command, but for tools, is found here. The sources that it names."""
    options.limits(config)
    config.sources()
    for rule in guard.deny or ():
        Rule.compile(rule, what="--deny")
    parse_secrets(guard.secret or ())
    return _sources(options.mcp_config or ())


def _offered(options: McpServeOptions, keep: KeepOptions, config: Config) -> "McpOptions":
    from cloister.mcp import McpOptions

    return McpOptions(
        session=keep.session,
        language=Language(options.language),
        allow_approve=options.allow_approve,
        show_cells=options.show_cells,
        preamble_tokens=options.preamble_tokens,
        store_url=made(keep.store, config)[1].url if keep.is_kept else None,
    )


async def _serve(cloister: "Cloister", offered: "McpOptions", wires: "Wires", *, is_kept: bool) -> None:
    from cloister.mcp import CodeServer, serve_stdio

    async with cloister, CodeServer(cloister, offered, is_kept=is_kept) as server:
        await serve_stdio(server, wires)


def _cloister(
    options: McpServeOptions, guard: GuardOptions, keep: KeepOptions, sources: Sequence[object]
) -> "Cloister":
    # Here the user's code is run.
    terms = read_terms(options, guard, more_sources=bool(sources))
    cells = terms.config.cells({"cell_wall_ms": options.timeout_ms})
    return terms.cloister(cells=cells, keep=keep, sources=sources)


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
