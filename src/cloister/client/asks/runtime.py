"""What there is."""

from cloister.client.answers import RuntimeInfo
from cloister.client.ask import Ask, at
from cloister.client.reading import one


def info() -> Ask[RuntimeInfo]:
    """What serves, in which version, and what of the API works there. Takes no token."""
    return Ask("GET", at("runtime", "info"), one(RuntimeInfo))
