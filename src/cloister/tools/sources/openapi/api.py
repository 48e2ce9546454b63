"""What a host says of an API: where its document is, where it is itself, and on which terms it may be called."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloister.core.capability import check_namespace
from cloister.core.errors import InvalidInput, InvalidToolName
from cloister.core.limits import CapabilityLimits
from cloister.tools.sources.names import identifier
from cloister.tools.sources.terms import Terms

if TYPE_CHECKING:
    from cloister.tools.sources.openapi.security import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApi:
    """`document` is a path, an http or https URL, or the document itself."""

    name: str
    document: str | os.PathLike[str] | Mapping[str, Any] = field(repr=False)
    # The name made an identifier, if it is not said.
    namespace: str | None = None
    # In the place of the servers that the document names.
    base_url: str | None = None
    # Which hosts may be reached: as a default, the one of `base_url` or of the document's first server.
    hosts: Sequence[str] | None = None
    # Those that may be at private addresses, such as "localhost:8080".
    private: Sequence[str] = ()
    # By the name of the security scheme.
    credentials: "Credentials" = field(default_factory=dict[str, Any], repr=False)
    tools: Sequence[str] | None = None
    # In the place of the default: manual for DELETE, none for the others.
    approval: Any = None
    approvals: Mapping[str, Any] = field(default_factory=dict[str, Any])
    defer_loading: bool = False
    # Whether answers are held against what the document says of them.
    typed_responses: bool = True
    timeout_ms: int = 30_000
    max_response_bytes: int = 1 << 20
    concurrency: int = 16

    def __post_init__(self) -> None:
        # Not before somebody has an API: HTTP takes its time to import.
        from cloister.tools.fetch import split_url
        from cloister.tools.outbound import Reach, Refused

        if not isinstance(self.name, str) or not self.name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{self.name!r} cannot be the name of an API", hint='name="shop"')
        if not isinstance(self.document, (str, os.PathLike, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{self.what}: `document` is a path, a URL or the document itself")
        if self.namespace is not None:
            try:
                check_namespace(self.namespace)
            except InvalidToolName as error:
                raise InvalidInput(f"{self.what}: namespace {error.message}", hint=error.hint) from None
        if self.base_url is not None:
            try:
                split_url(self.base_url)
            except Refused as refused:
                raise InvalidInput(f"{self.what}: `base_url`: {refused.message}") from None
        _ = self.terms, Reach(tuple(self.hosts or ()), tuple(self.private))
        # Refuses what is no limit.
        CapabilityLimits(
            timeout_ms=self.timeout_ms, max_response_bytes=self.max_response_bytes, concurrency=self.concurrency
        )

    @property
    def what(self) -> str:
        return f"API {self.name!r}"

    @property
    def space(self) -> str:
        return self.namespace or identifier(self.name, "api", global_name=True)

    @property
    def terms(self) -> Terms:
        return Terms.parse(self.tools, self.approval, self.approvals, what=self.what)

    @property
    def address(self) -> str | None:
        """Where the document is fetched, if it is."""
        given = self.document
        return given if isinstance(given, str) and given.lower().startswith(("http://", "https://")) else None
