"""A stretch of network between a store and its server that can be cut, on one side or on both."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


class Proxy:
    def __init__(self, port: int, to_port: int) -> None:
        self.port = port
        self._to_port = to_port
        self._near: list[asyncio.StreamWriter] = []
        self._far: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        # What the stores sent.
        self.sent_bytes = 0

    def cut(self, *, the_server_notices: bool = True) -> None:
        for writer in [*self._near, *(self._far if the_server_notices else [])]:
            writer.transport.abort()
        self._near.clear()
        if the_server_notices:
            self._far.clear()

    async def close(self) -> None:
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        self._near.append(writer)
        self._far.append(far_writer)
        self._tasks += [
            asyncio.ensure_future(self._copy(reader, far_writer, count=True)),
            asyncio.ensure_future(self._copy(far_reader, writer, count=False)),
        ]

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, count: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                self.sent_bytes += len(data) if count else 0
                writer.write(data)
                await writer.drain()
            if not count:
                # The server has hung up.
                writer.close()


@asynccontextmanager
async def proxy_to(port: int) -> AsyncGenerator[Proxy, None]:
    proxy = Proxy(0, port)
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
