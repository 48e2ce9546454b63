"""How much of what happens is written down before it counts."""

from enum import StrEnum

from cloister.core.errors import InvalidInput


class Durability(StrEnum):
    """`none`: nothing; all is gone with the process. `cell`: what a cell left behind, when it ends. `call`: besides,
    every wait of a program, every call before it is made and every answer before the program sees it."""

    NONE = "none"
    CELL = "cell"
    CALL = "call"


def parse_durability(value: object) -> Durability:
    try:
        return Durability(value)
    except ValueError:
        raise InvalidInput(f"durability is 'none', 'cell' or 'call', not {value!r}") from None
