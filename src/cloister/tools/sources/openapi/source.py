"""An API that is described by an OpenAPI document, as a tool source."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from cloister.core.capability import Capability
from cloister.core.value import Json
from cloister.ports.source import Manifest, SourceCall, SourceFailed
from cloister.tools.sources.listeners import Listeners
from cloister.tools.sources.openapi.api import OpenApi

if TYPE_CHECKING:
    from cloister.tools.outbound import Resolver
    from cloister.tools.sources.openapi.client import Client
    from cloister.tools.sources.openapi.operations import Operations


class OpenApiSource:
    """`async with OpenApiSource(OpenApi(name="shop", document="shop.yaml")) as source:`"""

    def __init__(self, api: OpenApi, *, resolve: "Resolver | None" = None) -> None:
        self.api = api
        # In the place of the system's way to find the addresses of a host.
        self._resolve = resolve
        self._client: Client | None = None
        self._is_open = False
        self._listeners = Listeners(api.what)

    @property
    def name(self) -> str:
        return self.api.name

    @property
    def revision(self) -> str:
        return self._known().revision

    @property
    def refused(self) -> Mapping[str, str]:
        """The operations that cannot be called, by the document's name for them, and why."""
        return dict(self._operations().refused)

    async def __aenter__(self) -> "OpenApiSource":
        if self._is_open:
            raise RuntimeError(f"{self.api.what} is open already")
        self._client = await self._read()
        self._is_open = True
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._is_open = False
        if self._client is not None:
            self._client.close()

    async def refresh(self) -> None:
        """A document that cannot be read leaves what was known as it is. Raises `SourceFailed` and `InvalidInput`."""
        before, made = self._known(), await self._read()
        if made.revision == before.revision:
            made.close()
            return
        self._client = made
        before.close()
        self._listeners.tell()

    async def _read(self) -> "Client":
        """Raises `SourceFailed` if the document cannot be had, `InvalidInput` if it is none that can be used."""
        # In a thread, as is the reading: it may take seconds, and others go on meanwhile.
        await asyncio.to_thread(import_module, "cloister.tools.sources.openapi.client")
        from cloister.tools.sources.openapi.client import Client, document_of_file, fetch_document

        api, given = self.api, self.api.document
        if isinstance(given, Mapping):
            document: bytes | Mapping[str, object] = given
        elif api.address is not None:
            document = await fetch_document(api, api.address, self._resolve)
        else:
            document = await asyncio.to_thread(document_of_file, api, given)
        return await asyncio.to_thread(Client.read, api, document, self._resolve)

    # -- the port --------------------------------------------------------------------------------------------------

    async def manifests(self) -> Sequence[Manifest]:
        return self._operations().manifests

    async def contract(self, full_name: str) -> Capability:
        # In a thread: a schema that is as large as it may be takes a second to compile.
        found = await asyncio.to_thread(self._operations().contract, full_name)
        if found is None:
            raise self._no_tool(full_name)
        return found

    async def call(self, full_name: str, arguments: Json, about: SourceCall) -> Json:
        client = self._known()
        operation = client.operations.by_name.get(full_name)
        if operation is None:
            raise self._no_tool(full_name)
        if not isinstance(arguments, dict):
            raise SourceFailed(f"{full_name} takes its arguments by name")
        if not self._is_open:
            raise SourceFailed(f"{self.api.what} is closed", gone=True)
        return await client.call(operation, full_name, arguments, about.remaining_ms)

    def original(self, full_name: str) -> str | None:
        """What the document calls a tool."""
        operation = self._operations().by_name.get(full_name)
        return operation.original if operation else None

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._listeners.add(changed)

    def _known(self) -> "Client":
        if self._client is None:
            raise SourceFailed(f"{self.api.what} was not opened", gone=True)
        return self._client

    def _operations(self) -> "Operations":
        return self._known().operations

    def _no_tool(self, full_name: str) -> SourceFailed:
        return SourceFailed(f"{self.api.what} has no tool {full_name!r}")
