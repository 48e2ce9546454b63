"""Tokens: who may ask for what, and where that is written down.

A file of tokens is read only if nobody else can read it. Only digests are kept in memory, so that no dump, log or
message of this process can have a token in it, and a token is found in a time that says nothing about it.
"""

import hashlib
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from cloister.core.errors import InvalidConfig, InvalidInput
from cloister.server.tenants import DEFAULT_TENANT

VARIABLE = "CLOISTER_SERVER_TOKEN"
_LEAST = 16
_MOST_BYTES = 1 << 20
_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_KEYS = {"name", "token", "sha256", "tenant", "scopes"}


class Scope(StrEnum):
    """`run`: sessions and all that is in them. `approve`: to answer questions. `admin`: both, and to read metrics."""

    RUN = "run"
    APPROVE = "approve"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token that was shown: never the token."""

    name: str
    tenant: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


class TokenBook:
    def __init__(self, tokens: Mapping[str, Token], *, configured: bool, origin: str) -> None:
        """`tokens` by the SHA-256 of what is shown. `configured`: somebody has chosen them; not made by ourselves."""
        self._tokens = dict(tokens)
        self.configured = configured
        # Where they come from, in words that may be shown.
        self.origin = origin

    def find(self, shown: str) -> Token | None:
        return self._tokens.get(digest_of(shown))

    @property
    def tenants(self) -> list[str]:
        return sorted({token.tenant for token in self._tokens.values()})


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def load_tokens(tokens_file: Path | None, own_file: Path, environment: Mapping[str, str]) -> TokenBook:
    """Those of the file; or the one of the environment; or our own, which is made if it is not there."""
    if tokens_file is not None:
        return TokenBook(_read_file(tokens_file), configured=True, origin=str(tokens_file))
    if shown := environment.get(VARIABLE):
        _check_strength(shown, VARIABLE)
        return TokenBook({digest_of(shown): _everything(VARIABLE)}, configured=True, origin=VARIABLE)
    shown = own_token(own_file)
    return TokenBook({digest_of(shown): _everything("own")}, configured=False, origin=str(own_file))


def own_token(path: Path) -> str:
    """The token of this installation; made, in a file that only its user can read, if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        shown = _read_private(path).strip()
        _check_strength(shown, str(path))
        return shown
    made = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w") as file:
        file.write(made + "\n")
        file.flush()
        os.fsync(file.fileno())
    return made


def _everything(name: str) -> Token:
    return Token(name, DEFAULT_TENANT, frozenset({Scope.ADMIN}))


def _check_strength(shown: str, where: str) -> None:
    if len(shown) < _LEAST or not shown.isascii() or not shown.isprintable() or " " in shown:
        raise InvalidInput(
            f"{where} has no usable token: it needs at least {_LEAST} printable characters without spaces",
            hint="make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )


def _read_private(path: Path) -> str:
    """Raises `InvalidInput` unless the file is ours, and nobody else's to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise InvalidInput(f"the tokens in {str(path)!r} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise InvalidInput(f"{str(path)!r} is no plain file, and so no file of tokens")
        if found.st_uid not in (os.getuid(), 0):
            raise InvalidInput(f"{str(path)!r} belongs to another user, who could put tokens into it")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InvalidInput(
                f"{str(path)!r} can be read by others than its user, and so the tokens in it are no secret",
                hint=f"chmod 600 {path}; and make new tokens",
            )
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise InvalidInput(f"{str(path)!r} is larger than {_MOST_BYTES} bytes, and so no file of tokens")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{str(path)!r} is not UTF-8 text") from None


def _read_file(path: Path) -> dict[str, Token]:
    try:
        said = tomllib.loads(_read_private(path))
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(str(path), f"is not TOML: {error}") from None
    listed: object = said.pop("tokens", None)
    if said or not isinstance(listed, list) or not listed:
        raise InvalidConfig(str(path), "has [[tokens]] tables and nothing else", hint="docs/server.md shows one")
    found: dict[str, Token] = {}
    names: set[str] = set()
    for number, table in enumerate(cast("list[object]", listed), start=1):
        where = f"{path}: tokens[{number}]"
        digest, token = _read_table(where, table)
        if digest in found or token.name in names:
            raise InvalidConfig(where, "is there already, by its name or its token")
        found[digest] = token
        names.add(token.name)
    return found


def _read_table(where: str, table: object) -> tuple[str, Token]:
    if not isinstance(table, dict):
        raise InvalidConfig(where, "is a table")
    said = cast("dict[str, Any]", table)
    if unknown := sorted(said.keys() - _KEYS):
        raise InvalidConfig(f"{where}.{unknown[0]}", "is not known", hint=f"there are {', '.join(sorted(_KEYS))}")
    name, tenant, scopes = said.get("name"), said.get("tenant", DEFAULT_TENANT), said.get("scopes")
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 64:
        raise InvalidConfig(f"{where}.name", "is a text of 1 to 64 characters: what logs call it")
    if not isinstance(tenant, str) or not _TENANT.match(tenant):
        raise InvalidConfig(f"{where}.tenant", "has 1 to 32 small letters, digits, '-' and '_'")
    known = [str(scope) for scope in Scope]
    if not isinstance(scopes, list) or not scopes or any(one not in known for one in cast("list[object]", scopes)):
        raise InvalidConfig(f"{where}.scopes", f"is a list of some of {', '.join(known)}")
    shown, digest = said.get("token"), said.get("sha256")
    if (shown is None) == (digest is None):
        raise InvalidConfig(where, "has either `token`, or its `sha256` in hex")
    if digest is None:
        if not isinstance(shown, str):
            raise InvalidConfig(f"{where}.token", "is text")
        _check_strength(shown, f"{where}.token")
        digest = digest_of(shown)
    elif not isinstance(digest, str) or not _DIGEST.match(digest):
        raise InvalidConfig(f"{where}.sha256", "is 64 small hexadecimal digits")
    return digest, Token(name, tenant, frozenset(Scope(one) for one in cast("list[str]", scopes)))
