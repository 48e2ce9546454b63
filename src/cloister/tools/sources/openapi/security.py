"""How requests say who they are: the security schemes of a document, filled with what the host has.

Credentials are given by the name of their scheme: a text, a function that gives one, or a provider of secrets, which
may allow a secret for some tools only. They are put into requests here and are no input of any tool.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from cloister.core.errors import InvalidInput
from cloister.ports.secrets import SecretProvider
from cloister.ports.source import SourceFailed
from cloister.tools.sources.held import Value, given
from cloister.tools.sources.openapi.document import Document, Unusable, members

Credentials: TypeAlias = Mapping[str, Value] | SecretProvider


@dataclass(frozen=True, slots=True)
class Scheme:
    name: str
    kind: Literal["header", "query", "cookie", "basic", "bearer"]
    # Of the header, the query parameter or the cookie.
    parameter: str = "Authorization"


@dataclass(slots=True)
class Signed:
    """What is added to a request, and the texts that must not be seen."""

    headers: dict[str, str] = field(default_factory=dict[str, str])
    query: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cookies: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    secrets: list[str] = field(default_factory=list[str])


def has(credentials: Credentials, name: str) -> bool:
    if isinstance(credentials, Mapping):
        return name in credentials
    return credentials.get(name) is not None


def check_credentials(document: Document, credentials: Credentials, what: str) -> None:
    """Raises `InvalidInput` for a credential that no scheme asks for; those of a provider may be for others."""
    if not isinstance(credentials, Mapping):
        return
    schemes = [name for name, _ in members(_components(document).get("securitySchemes"))]
    for name, value in credentials.items():
        if name not in schemes:
            raise InvalidInput(
                f"{what} has no security scheme {name!r}", hint=f"it has {', '.join(schemes[:20]) or 'none'}"
            )
        if not isinstance(value, str) and not callable(value):
            raise InvalidInput(f"{what}: the credential {name!r} is neither text nor a function that gives it")


def choose(document: Document, operation: Mapping[str, Any], credentials: Credentials) -> tuple[Scheme, ...]:
    """The schemes that a request of this operation is signed with: the first way that there are credentials for.
    Raises `Unusable` if there are none."""
    listed: Any = operation.get("security", document.root.get("security"))
    if not isinstance(listed, list) or not listed:
        return ()
    missing: list[str] = []
    for way in cast("list[Any]", listed):
        names = [name for name, _ in members(way)]
        lacking = [name for name in names if not has(credentials, name)]
        if not lacking:
            return tuple(_scheme(document, name) for name in names)
        missing.append(" and ".join(repr(name) for name in lacking))
    raise Unusable(f"it needs credentials for {' or '.join(missing)}, and there are none")


def _components(document: Document) -> dict[str, Any]:
    return dict(members(document.root.get("components")))


def _scheme(document: Document, name: str) -> Scheme:
    schemes = dict(members(_components(document).get("securitySchemes")))
    if name not in schemes:
        raise Unusable(f"it needs the security scheme {name!r}, which the document does not describe")
    scheme = document.part(schemes[name], f"the security scheme {name!r}")
    match scheme:
        case {"type": "apiKey", "in": "header" | "query" | "cookie" as place, "name": str(parameter)} if parameter:
            return Scheme(name, place, parameter)
        case {"type": "http", "scheme": str(kind)} if kind.lower() in ("basic", "bearer"):
            return Scheme(name, "basic" if kind.lower() == "basic" else "bearer")
        # The host has its token from wherever; how it got there is not the business of a request.
        case {"type": "oauth2" | "openIdConnect"}:
            return Scheme(name, "bearer")
        case _:
            kind = scheme.get("type")
            raise Unusable(f"it needs the security scheme {name!r} of the type {kind!r}, which is not supported")


def sign(schemes: Sequence[Scheme], credentials: Credentials, full_name: str) -> Signed:
    """Raises `SourceFailed` for a secret that cannot be had, or not for this tool."""
    made = Signed()
    for scheme in schemes:
        text = _text(scheme, credentials, full_name)
        made.secrets.append(text)
        match scheme.kind:
            case "header":
                made.headers[scheme.parameter] = text
            case "query":
                made.query.append((scheme.parameter, text))
            case "cookie":
                made.cookies.append((scheme.parameter, text))
            case "basic":
                packed = base64.b64encode(text.encode()).decode()
                made.secrets.append(packed)
                # The password is as secret alone.
                made.secrets.append(text.partition(":")[2])
                made.headers["Authorization"] = f"Basic {packed}"
            case "bearer":
                made.headers["Authorization"] = f"Bearer {text.removeprefix('Bearer ')}"
    for name, value in made.headers.items():
        if not value.isascii() or not value.isprintable():
            raise SourceFailed(f"the credential for the header {name!r} is not one line of ASCII")
    return made


def _text(scheme: Scheme, credentials: Credentials, full_name: str) -> str:
    if isinstance(credentials, Mapping):
        return given(credentials[scheme.name], f"the credential {scheme.name!r}")
    secret = credentials.get(scheme.name)
    if secret is None:
        raise SourceFailed(f"there is no secret {scheme.name!r} any more")
    if not secret.allows(full_name):
        raise SourceFailed(
            f"the secret {scheme.name!r} is not allowed for `{full_name}`", hint="the host says what it is allowed for"
        )
    return secret.value
