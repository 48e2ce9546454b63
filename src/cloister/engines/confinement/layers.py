"""The names of the layers, and the one way in which a layer is put on and its outcome is written down.

This file and every file that `launch.py` reaches import nothing heavier than `ctypes`: they run in front of each
foreign worker, and `typing` or `dataclasses` would cost more there than all layers together.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LAYERS = ("rlimits", "no_new_privs", "landlock", "seccomp", "namespaces")
ACTIVE = "active"


class Unavailable(Exception):
    """This machine cannot give the layer; the message says why, in words for an operator."""


def unavailable(why: object) -> str:
    return f"unavailable: {why}"


def attempt(put_on: Callable[[], None]) -> str:
    """Put one layer on and say what became of it. A layer that fails never keeps the next one from being tried."""
    try:
        put_on()
    except (Unavailable, OSError) as error:
        return unavailable(error)
    return ACTIVE


def missing(outcome: Mapping[str, str]) -> list[str]:
    """The layers that are not active, in the order of `LAYERS`; one that nobody reported counts as missing."""
    return [name for name in LAYERS if outcome.get(name) != ACTIVE]
