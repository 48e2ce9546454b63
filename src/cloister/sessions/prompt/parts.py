"""A part of a preamble: a text, the slot that it stands in, and its place among others there."""

from dataclasses import dataclass

from cloister.core.errors import InvalidInput

# In the order in which they are told. Tools come last, so that one more tool adds to the end.
SLOTS = ("intro", "rules", "discovery", "notes", "tools")
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class PromptPart:
    """`order` is its place within the slot; what Cloister itself says there has 0. In "tools" a text stands between the
    heading and the first tool."""

    slot: str
    text: str
    order: int = 100

    def __post_init__(self) -> None:
        if self.slot not in SLOTS:
            raise InvalidInput(f"there is no slot {self.slot!r} in a preamble", hint=f"use {', '.join(SLOTS)}")
        if not isinstance(self.text, str) or len(self.text) > _LONGEST:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"a part of a preamble is a text of at most {_LONGEST} characters")
        if type(self.order) is not int:
            raise InvalidInput(f"the order of a part is a whole number, not {self.order!r}")
