"""An API as it was read from its document: its operations, and the way to call them."""

import os
from collections.abc import Mapping
from pathlib import Path

from cloister.core.digest import digest_json
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.ports.source import SourceFailed
from cloister.tools.fetch import Fetcher, Request, split_url
from cloister.tools.outbound import Reach, Refused, Resolver, system_resolver
from cloister.tools.sources.held import Veil
from cloister.tools.sources.openapi.api import OpenApi
from cloister.tools.sources.openapi.document import MAX_BYTES, Document, Unusable, read_document
from cloister.tools.sources.openapi.exchange import request_of, value_of
from cloister.tools.sources.openapi.operations import Operation, Operations, server_of
from cloister.tools.sources.openapi.security import check_credentials, sign


class Client:
    """Made by `read`. Close it when nobody will call any more."""

    def __init__(self, api: OpenApi, operations: Operations, revision: str, fetcher: Fetcher) -> None:
        self._api = api
        self._fetcher = fetcher
        self.operations = operations
        self.revision = revision

    @classmethod
    def read(cls, api: OpenApi, given: bytes | Mapping[str, object], resolve: Resolver | None) -> "Client":
        """Raises `InvalidInput`. For a document of ten megabytes this takes seconds."""
        document = read_document(given, f"the document of {api.what}")
        check_credentials(document, api.credentials, api.what)
        reach = _reach(api, document)
        operations = Operations(document, api, reach, api.base_url, api.address)
        if not operations.by_name:
            reasons = [f"{name}: {reason}" for name, reason in list(operations.refused.items())[:3]]
            raise InvalidInput(
                f"{api.what} has no operation that can be called", hint="; ".join(reasons) or "its `paths` are empty"
            )
        fetcher = Fetcher(reach, resolve=resolve or system_resolver, threads=api.concurrency)
        return cls(api, operations, digest_json([api.space, document.root]), fetcher)

    def close(self) -> None:
        self._fetcher.close()

    async def call(self, operation: Operation, full_name: str, arguments: dict[str, Json], remaining_ms: float) -> Json:
        """Raises `SourceFailed`."""
        api = self._api
        signed = sign(operation.schemes, api.credentials, full_name)
        veil = Veil(signed.secrets)
        request = request_of(operation, arguments, signed)
        # Read a little further than what may be handed on: the JSON of it may be shorter.
        most = 2 * api.max_response_bytes + 1024
        try:
            answer = await self._fetcher.fetch(
                request, timeout_ms=min(float(api.timeout_ms), remaining_ms), max_bytes=most
            )
        except Refused as refused:
            unknown = None if operation.is_repeatable else "whether it was carried out is not known"
            raise SourceFailed(veil.text(refused.message), hint=refused.hint or unknown) from None
        return value_of(operation, answer, veil, api.max_response_bytes)


async def fetch_document(api: OpenApi, address: str, resolve: Resolver | None) -> bytes:
    """Raises `SourceFailed`."""
    _, host, port, _ = split_url(address)
    reach = Reach((_with_port(host, port),), tuple(api.private))
    fetcher = Fetcher(reach, resolve=resolve or system_resolver, threads=1)
    try:
        answer = await fetcher.fetch(Request("GET", address), timeout_ms=api.timeout_ms, max_bytes=MAX_BYTES)
    except Refused as refused:
        raise SourceFailed(f"{api.what}: its document: {refused.message}", hint=refused.hint, gone=True) from None
    finally:
        fetcher.close()
    if answer.status != 200:
        raise SourceFailed(f"{api.what}: its document was answered with {answer.status}", gone=True)
    return answer.body


def document_of_file(api: OpenApi, path: str | os.PathLike[str]) -> bytes:
    """Raises `SourceFailed`."""
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SourceFailed(f"{api.what}: its document {os.fspath(path)!r}: {error.strerror}", gone=True) from None


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
