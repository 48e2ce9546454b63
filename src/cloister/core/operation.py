"""What a client asked for, by its own name for it: asked for again under that name, it is not done again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """`digest` is of what was asked for: another one under the same key is a mistake."""

    key: str
    digest: str
