"""`cloister serve`: sessions and threads for others, over HTTP.

What is said to clients is the server's business (`cloister.server`, which needs the extra of that name); here are the
options, the place of the store and of the token, and the signals.
"""

import asyncio
import json
import logging
import os
import signal
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from cloister.app.config import Config
from cloister.app.keys.directory import data_directory
from cloister.cli.exits import OK
from cloister.cli.failures import UsageError, debugging
from cloister.cli.interrupt import leave
from cloister.cli.job import Terms, read_terms
from cloister.cli.options import AsJson, CallOptions, GrantOptions, KeepOptions
from cloister.cli.registry import registry_of
from cloister.cli.telemetry import telemetry_of
from cloister.cli.terminal import safe
from cloister.core.errors import InvalidInput

if TYPE_CHECKING:
    from cloister.ports.telemetry import Telemetry
    from cloister.server import Ready, Service
    from cloister.threads.models import ModelRegistry

_SERVER = Group("Server", sort_key=1)
_CALLS = Group("Calls", sort_key=2)
TOKEN_NAME = "server.token"  # noqa: S105 - the name of a file


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ServeOptions(GrantOptions):
    """Where it listens, and what its sessions are given."""

    host: Annotated[
        str | None, Parameter(group=_SERVER, help="The address to listen on.  [default: 127.0.0.1]", show_default=False)
    ] = None
    port: Annotated[
        int | None,
        Parameter(group=_SERVER, help="0 takes one that is free, and says which.  [default: 8787]", show_default=False),
    ] = None
    store: Annotated[
        str | None,
        Parameter(
            name=["--store", "-s"],
            group=_SERVER,
            metavar="URL",
            show_default=False,
            help="Where sessions are written down; memory: for nowhere.  [default: that of the configuration, or "
            "cloister.db in the data directory]",
        ),
    ] = None
    tokens: Annotated[
        str | None,
        Parameter(
            group=_SERVER,
            metavar="FILE",
            show_default=False,
            help="Who may use it. Without it and without CLOISTER_SERVER_TOKEN a token is made, in the data directory.",
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None,
        Parameter(group=_SERVER, negative="", metavar="NAME", help="A name it is asked for by. Repeatable."),
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        Parameter(group=_SERVER, negative="", metavar="ORIGIN", help="A site whose pages may use it. Repeatable."),
    ] = None
    workers: Annotated[
        int | None,
        Parameter(
            group=_SERVER,
            show_default=False,
            help="How many programs of one language run at once.  [default: one for each processor, at least two]",
        ),
    ] = None
    model: Annotated[
        str | None,
        Parameter(
            group=_SERVER,
            metavar="NAME",
            show_default=False,
            help="The model of threads that name none, such as anthropic:NAME or scripted:FILE.  [default: that of "
            "the configuration]",
        ),
    ] = None
    ready_file: Annotated[
        str | None,
        Parameter(
            group=_SERVER,
            metavar="FILE",
            show_default=False,
            help="Written when it can be used: a JSON object with `url`, `port`, `pid` and `token_file`.",
        ),
    ] = None
    telemetry: Annotated[
        bool | None,
        Parameter(
            group=_SERVER,
            show_default=False,
            help="Send traces and metrics, by OTLP over HTTP.  [default: if the configuration or OTEL_* name an "
            "endpoint]",
        ),
    ] = None
    deny: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            group=_CALLS,
            metavar="RULE",
            allow_leading_hyphen=True,
            help="A CEL expression; a call for which it is true is never made. Repeatable.",
        ),
    ] = None
    secret: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            group=_CALLS,
            metavar="NAME=TOOL[,TOOL]",
            help='What secret("NAME") stands for: the environment variable NAME, for these tools. Repeatable.',
        ),
    ] = None


DEFAULT_SERVE = ServeOptions()


def serve(*, options: ServeOptions = DEFAULT_SERVE, as_json: AsJson = False) -> int:
    """Serve sessions and threads over HTTP."""
    try:
        from cloister.server.logs import set_up_json_logs
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise UsageError("cloister serve needs FastAPI and uvicorn", "pip install 'cloister[server]'") from None
    terms = read_terms(options, CallOptions(deny=options.deny, secret=options.secret))
    with telemetry_of(options.telemetry, terms.config, os.environ) as telemetry:
        models, model = registry_of(terms.config, options.model)
        service, token_file = _service(options, terms, telemetry, models, model)
        ids = telemetry.ids if telemetry is not None else None
        set_up_json_logs(logging.DEBUG if debugging() else logging.INFO, ids)
        asyncio.run(_serve(service, models, _Announcement(options.ready_file, token_file, as_json=as_json)))
    return OK


def _service(
    options: ServeOptions,
    terms: Terms,
    telemetry: "Telemetry | None",
    models: "ModelRegistry | None",
    model: str | None,
) -> "tuple[Service, str | None]":
    from cloister.server import Exposure, Service, load_tokens

    config = terms.config
    exposure = Exposure(
        options.host if options.host is not None else config.get("server.host"),
        options.port if options.port is not None else config.get("server.port"),
        (*config.get("server.hosts"), *(options.allow_host or ())),
        (*config.get("server.origins"), *(options.allow_origin or ())),
    )
    own_file = data_directory() / TOKEN_NAME
    tokens_file = _tokens_file(options, config)
    if not exposure.is_loopback and tokens_file is None:
        # Before one is made that would not do.
        exposure.check(configured=bool(os.environ.get("CLOISTER_SERVER_TOKEN")))
    tokens = load_tokens(tokens_file, own_file, os.environ)
    exposure.check(configured=tokens.configured)
    if options.workers is not None and options.workers < 1:
        raise InvalidInput(f"--workers must be at least 1, not {options.workers}")
    keep = KeepOptions(session="default", store=options.store)
    cloister = terms.cloister(
        keep=keep,
        workers=options.workers or config.get("workers") or _workers(),
        environments=config.environments(),
        telemetry=telemetry,
        models=models,
        model=model,
        complete=config.complete(),
        spawn=config.spawn(),
    )
    if options.model is not None and not cloister.is_kept:
        raise InvalidInput("threads are written down, and memory: keeps nothing", hint="leave --store or --model out")
    service = Service(cloister, tokens, exposure, config.server_limits(), terms.limits)
    return service, None if tokens.configured else str(own_file)


def _workers() -> int:
    return max(os.cpu_count() or 1, 2)


def _tokens_file(options: ServeOptions, config: Config) -> Path | None:
    if options.tokens is not None:
        return Path(options.tokens)
    item = config.items["server.tokens"]
    if item.value is None:
        return None
    base = item.origin.source.path.parent if item.origin.source is not None else Path()
    return base / Path(item.value).expanduser()


@dataclass(frozen=True, slots=True)
class _Announcement:
    ready_file: str | None
    token_file: str | None
    as_json: bool

    def __call__(self, ready: "Ready") -> None:
        said = {
            "url": ready.url,
            "host": ready.host,
            "port": ready.port,
            "pid": os.getpid(),
            "token_file": self.token_file,
        }
        if self.ready_file is not None:
            # Whole or not at all: whoever waits for it reads it at once.
            target = Path(self.ready_file)
            beside = target.with_name(f".{target.name}.{os.getpid()}")
            beside.write_text(json.dumps(said) + "\n")
            beside.replace(target)
        if self.as_json:
            print(json.dumps(said), flush=True)
        else:
            where = f"; the token is in {safe(self.token_file)}" if self.token_file is not None else ""
            print(f"cloister: listening on {ready.url}{where}", flush=True)

    def gone(self) -> None:
        if self.ready_file is not None:
            Path(self.ready_file).unlink(missing_ok=True)


async def _serve(service: "Service", models: "ModelRegistry | None", announce: _Announcement) -> None:
    from cloister.server import serve as serve_until

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    caught: list[int] = []

    def stop_by(signum: int) -> None:
        if caught:
            # Whoever asks twice does not want to wait.
            leave(signum)
        caught.append(signum)
        stop.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(signum) is not signal.SIG_IGN:
            loop.add_signal_handler(signum, stop_by, signum)
    async with models or nullcontext():
        try:
            await serve_until(service, announce, stop)
        finally:
            announce.gone()
