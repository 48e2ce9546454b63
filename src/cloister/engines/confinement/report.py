"""What the layers came to in one process, in the words that go over the wire."""

from __future__ import annotations

from dataclasses import dataclass

from cloister.engines.confinement.layers import missing


@dataclass(frozen=True, slots=True)
class Report:
    """Each layer's name with `"active"` or `"unavailable: <why>"`. An outcome is observed, never assumed."""

    layers: dict[str, str]

    @property
    def complete(self) -> bool:
        return not missing(self.layers)

    @property
    def missing(self) -> list[str]:
        return missing(self.layers)
