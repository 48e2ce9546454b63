"""Secrets: put in, used by programs through handles, and never told again."""

from collections.abc import Sequence

from cloister.client.ask import Ask, asked, at
from cloister.client.reading import many, nothing
from cloister.core.held import SecretInfo


def list_(session_id: str) -> Ask[tuple[SecretInfo, ...]]:
    """Names, times, and what each is allowed for."""
    return Ask("GET", at("sessions", session_id, "secrets"), many(SecretInfo, "secrets"))


def set_(session_id: str, name: str, value: str, *, allow: Sequence[str] | None = None) -> Ask[None]:
    """Add a secret, or replace it. `allow` names the tools that may have it."""
    body = asked(value=value, allow=list(allow) if allow is not None else None)
    return Ask("PUT", at("sessions", session_id, "secrets", name), nothing, body)


def delete(session_id: str, name: str) -> Ask[None]:
    """Programs cannot use it any more."""
    return Ask("DELETE", at("sessions", session_id, "secrets", name), nothing)
