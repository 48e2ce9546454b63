"""A source as it is given to a host or a session: under which namespace, and whether it is needed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from cloister.core.capability import check_namespace
from cloister.core.errors import InvalidInput
from cloister.ports.source import ToolSource

_METHODS = ("__aenter__", "__aexit__", "manifests", "contract", "call", "refresh", "subscribe")


@dataclass(frozen=True, slots=True)
class Overlay:
    """`namespace` takes the place of the source's own for all its tools. With `optional` a session opens even if the
    source cannot be reached or read, without its tools; otherwise that is refused."""

    source: ToolSource
    namespace: str | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.source, type) or any(not hasattr(self.source, method) for method in _METHODS):
            raise InvalidInput(
                f"{self.source!r} is not a source of tools",
                hint="give an object with the methods of cloister.ToolSource; functions go in tools=",
            )
        if self.namespace is not None:
            check_namespace(self.namespace)

    @property
    def name(self) -> str:
        """What it is called here: no two of a session have the same."""
        return self.namespace or self.source.name

    @property
    def whose(self) -> str:
        return f"source {self.name!r}"


def as_overlay(candidate: object) -> Overlay:
    return candidate if isinstance(candidate, Overlay) else Overlay(cast("ToolSource", candidate))


def parse_overlays(value: object) -> tuple[Overlay, ...]:
    """Raises `InvalidInput` for what is no source, and for two of one name."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise InvalidInput(f"sources are a list of them, not {type(value).__name__}", hint="write sources=[...]")
    found = tuple(as_overlay(one) for one in cast("Iterable[Any]", value))
    check_names(found)
    return found


def check_names(overlays: Iterable[Overlay]) -> None:
    seen: set[str] = set()
    for overlay in overlays:
        if overlay.name in seen:
            raise InvalidInput(
                f"there are two sources called {overlay.name!r}",
                hint='tell them apart: Overlay(source, namespace="...")',
            )
        seen.add(overlay.name)
