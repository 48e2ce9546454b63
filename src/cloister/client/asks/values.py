"""Stored values: what programs `store` and `load`."""

from typing import Any

from cloister.client.ask import Ask, at, below
from cloister.client.reading import many, nothing, part
from cloister.core.held import ValueInfo


def list_(session_id: str) -> Ask[tuple[ValueInfo, ...]]:
    """What is stored, by key."""
    return Ask("GET", at("sessions", session_id, "values"), many(ValueInfo, "values"))


def get(session_id: str, key: str) -> Ask[Any]:
    """One of them. `RequestRefused` with the code `NOT_FOUND` where nothing is stored."""
    return Ask("GET", below(at("sessions", session_id, "values"), key), lambda reply: part(reply.data, "value"))


def set_(session_id: str, key: str, value: Any) -> Ask[None]:
    """Store one, over what is there."""
    return Ask("PUT", below(at("sessions", session_id, "values"), key), nothing, {"value": value})


def delete(session_id: str, key: str) -> Ask[None]:
    """Nothing is stored under the key any more."""
    return Ask("DELETE", below(at("sessions", session_id, "values"), key), nothing)
