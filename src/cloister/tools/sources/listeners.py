"""Who is told that the tools of a source have changed."""

import logging
from collections.abc import Callable

log = logging.getLogger("cloister.sources")


class Listeners:
    """`what` is the source, for the log."""

    def __init__(self, what: str) -> None:
        self._what = what
        # One may listen twice, and each time ends by itself.
        self._listening: dict[object, Callable[[], None]] = {}

    def add(self, changed: Callable[[], None]) -> Callable[[], None]:
        """What is returned ends it."""
        key = object()
        self._listening[key] = changed

        def end() -> None:
            self._listening.pop(key, None)

        return end

    def tell(self) -> None:
        for changed in tuple(self._listening.values()):
            try:
                changed()
            # Containment: a listener of the host, which must not cost the source or the other listeners.
            except Exception:
                log.exception("%s: somebody who was told of a change failed", self._what)
