"""An API that is described by an OpenAPI document, as a tool source."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cloister.core.capability import Capability
from cloister.core.digest import digest_json
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.ports.source import Manifest, SourceCall, SourceFailed
from cloister.tools.fetch import Fetcher, Request, split_url
from cloister.tools.outbound import Reach, Refused, Resolver, system_resolver
from cloister.tools.sources.held import Veil
from cloister.tools.sources.openapi.api import OpenApi
from cloister.tools.sources.openapi.document import MAX_BYTES, Document, Unusable, read_document
from cloister.tools.sources.openapi.exchange import request_of, value_of
from cloister.tools.sources.openapi.operations import Operations, server_of
from cloister.tools.sources.openapi.security import check_credentials, sign


class OpenApiSource:
    """`async with OpenApiSource(OpenApi(name="shop", document="shop.yaml")) as source:`"""

    def __init__(self, api: OpenApi, *, resolve: Resolver = system_resolver) -> None:
        self.api = api
        self._resolve = resolve
        self._fetcher: Fetcher | None = None
        self._operations: Operations | None = None
        self._revision = ""
        self._subscribers: dict[object, Callable[[], None]] = {}

    @property
    def name(self) -> str:
        return self.api.name

    @property
    def revision(self) -> str:
        return self._revision

    @property
    def refused(self) -> Mapping[str, str]:
        """The operations that cannot be called, by the document's name for them, and why."""
        return dict(self._known().refused)

    async def __aenter__(self) -> "OpenApiSource":
        if self._fetcher is not None:
            raise RuntimeError(f"{self.api.what} is open already")
        await self._load()
        return self

    async def __aexit__(self, *exc: object) -> None:
        fetcher, self._fetcher = self._fetcher, None
        if fetcher is not None:
            fetcher.close()

    async def refresh(self) -> None:
        before = self._revision
        await self._load()
        if self._revision != before:
            for changed in tuple(self._subscribers.values()):
                changed()

    async def _load(self) -> None:
        """Raises `SourceFailed` if the document cannot be had, `InvalidInput` if it is none that can be used."""
        api = self.api
        given = await self._document()
        # Reading one of ten megabytes takes seconds; others go on meanwhile.
        operations, reach, revision = await asyncio.to_thread(_read, api, given)
        if self._fetcher is not None:
            self._fetcher.close()
        self._fetcher = Fetcher(reach, resolve=self._resolve, threads=api.concurrency)
        self._operations, self._revision = operations, revision

    async def _document(self) -> bytes | Mapping[str, object]:
        api, address = self.api, self.api.address
        if isinstance(api.document, Mapping):
            return api.document
        if address is None:
            return await asyncio.to_thread(_from_file, api, Path(os.fspath(api.document)))
        _, host, port, _ = split_url(address)
        fetcher = Fetcher(Reach((_with_port(host, port),), tuple(api.private)), resolve=self._resolve, threads=1)
        try:
            answer = await fetcher.fetch(Request("GET", address), timeout_ms=api.timeout_ms, max_bytes=MAX_BYTES)
        except Refused as refused:
            raise SourceFailed(f"{api.what}: its document: {refused.message}", hint=refused.hint, gone=True) from None
        finally:
            fetcher.close()
        if answer.status != 200:
            raise SourceFailed(f"{api.what}: its document was answered with {answer.status}", gone=True)
        return answer.body

    # -- the port --------------------------------------------------------------------------------------------------

    async def manifests(self) -> Sequence[Manifest]:
        return self._known().manifests

    async def contract(self, full_name: str) -> Capability:
        found = self._known().contract(full_name)
        if found is None:
            raise self._no_tool(full_name)
        return found

    async def call(self, full_name: str, arguments: Json, about: SourceCall) -> Json:
        operation = self._known().by_name.get(full_name)
        if operation is None:
            raise self._no_tool(full_name)
        if not isinstance(arguments, dict):
            raise SourceFailed(f"{full_name} takes its arguments by name")
        if self._fetcher is None:
            raise SourceFailed(f"{self.api.what} is closed", gone=True)
        signed = sign(operation.schemes, self.api.credentials, full_name)
        veil = Veil(signed.secrets)
        request = request_of(operation, arguments, signed)
        timeout_ms = min(float(self.api.timeout_ms), about.remaining_ms)
        try:
            # Read a little further than what may be handed on: the JSON of it may be shorter.
            answer = await self._fetcher.fetch(
                request, timeout_ms=timeout_ms, max_bytes=2 * self.api.max_response_bytes + 1024
            )
        except Refused as refused:
            unknown = None if operation.is_repeatable else "whether it was carried out is not known"
            raise SourceFailed(veil.text(refused.message), hint=refused.hint or unknown) from None
        return value_of(operation, answer, veil, self.api.max_response_bytes)

    def original(self, full_name: str) -> str | None:
        """What the document calls a tool."""
        operation = self._known().by_name.get(full_name)
        return operation.original if operation else None

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._subscribers[key] = changed

        def end() -> None:
            self._subscribers.pop(key, None)

        return end

    def _known(self) -> Operations:
        if self._operations is None:
            raise SourceFailed(f"{self.api.what} was not opened", gone=True)
        return self._operations

    def _no_tool(self, full_name: str) -> SourceFailed:
        reason = self._known().refused.get(full_name.partition(".")[2])
        return SourceFailed(f"{self.api.what} has no tool {full_name!r}{f': {reason}' if reason else ''}")


def _read(api: OpenApi, given: bytes | Mapping[str, object]) -> tuple[Operations, Reach, str]:
    document = read_document(given, f"the document of {api.what}")
    check_credentials(document, api.credentials, api.what)
    reach = _reach(api, document)
    operations = Operations(document, api, reach, api.base_url, api.address)
    if not operations.by_name:
        reasons = [f"{name}: {reason}" for name, reason in list(operations.refused.items())[:3]]
        raise InvalidInput(
            f"{api.what} has no operation that can be called", hint="; ".join(reasons) or "its `paths` are empty"
        )
    return operations, reach, digest_json([api.space, document.root])


def _reach(api: OpenApi, document: Document) -> Reach:
    hosts = tuple(api.hosts) if api.hosts is not None else None
    if hosts is None:
        try:
            base = api.base_url or server_of(document, (), api.address)
            _, host, port, _ = split_url(base or "")
            hosts = (_with_port(host, port),)
        except (Unusable, Refused):
            # Operations may have servers of their own; which of them may be reached has to be said then.
            hosts = ()
    return Reach(hosts, tuple(api.private))


def _with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _from_file(api: OpenApi, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SourceFailed(f"{api.what}: its document {str(path)!r}: {error.strerror}", gone=True) from None
