"""A server from its first moment to its last: a socket, uvicorn on it, and an end in order.

Told to stop, it takes nothing new, ends its streams, waits a moment for requests under way, then leaves the runtime:
programs that wait are put to sleep, and requests for them are answered. The next server goes on with them.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Generator
from dataclasses import dataclass

import uvicorn

from cloister.core.errors import InvalidInput
from cloister.server.application import make_application
from cloister.server.door import MAX_HEADS_BYTES
from cloister.server.exposure import Exposure
from cloister.server.mounting import Mounts, mcp_mounts
from cloister.server.service import Service
from cloister.server.wire import wire_for

log = logging.getLogger("cloister.server")
_BACKLOG = 2048
# For what is still to be written to clients once the runtime has been left.
_LAST_WORDS_SECONDS = 2
_KEEP_ALIVE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Ready:
    url: str
    host: str
    port: int


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # Signals are their host's, who stops more than this.
        yield


async def serve(service: Service, on_ready: Callable[[Ready], object], stop: asyncio.Event) -> None:
    """Until `stop` is set. The service's runtime is entered here, and left when this returns."""
    service.exposure.check(configured=service.tokens.configured)
    listener = bind(service.exposure)
    mounts = Mounts()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(listener.close)
        runtime = contextlib.AsyncExitStack()
        await stack.enter_async_context(runtime)
        await runtime.enter_async_context(service.cloister)
        await runtime.enter_async_context(mcp_mounts(service, mounts))
        service.port = listener.getsockname()[1]
        server = _Uvicorn(
            uvicorn.Config(
                make_application(service, mounts),
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_LAST_WORDS_SECONDS,
                http=wire_for(service.limits),
                ws="none",
                h11_max_incomplete_event_size=MAX_HEADS_BYTES,
            )
        )
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            listener.listen(_BACKLOG)
            on_ready(Ready(service.exposure.url(service.port), service.exposure.host, service.port))
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            service.closing.set()
            log.info("stopping")
            if not serving.done() and not await service.idle(service.limits.shutdown_ms):
                log.warning("%d requests are still under way", service.under_way)
            try:
                await runtime.aclose()
            finally:
                server.should_exit = True
                await asyncio.wait([serving])
        # What has ended it, if nobody asked for that.
        await serving


def bind(exposure: Exposure) -> socket.socket:
    """Raises `InvalidInput` for an address that cannot be had."""
    family = socket.AF_INET6 if ":" in exposure.host else socket.AF_INET
    # With its protocol said: otherwise asyncio does not see that it is TCP, and answers wait 40 ms for the last one.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((exposure.host or "0.0.0.0", exposure.port))  # noqa: S104 - `check` has refused it without tokens
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"{exposure.host}:{exposure.port} cannot be bound: {error.strerror or error}",
            hint="choose another with --host and --port; --port 0 takes any that is free",
        ) from None
    return listener
