"""What the core says of a value, said by a request's body: with the place there, and the code that it is known by.

The core's types check themselves and know nothing of bodies; bodies are checked field by field, so a refusal has the
path of its field.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic_core import PydanticCustomError

from cloister.core.errors import InvalidInput

T = TypeVar("T")
# Of errors that have a code of ours in their context.
KIND = "cloister"


def fits(check: Callable[[Any], object]) -> Callable[[T], T]:
    """A validator that has a value looked at, and hands it on as it was."""

    def looked_at(value: T) -> T:
        try:
            check(value)
        except InvalidInput as error:
            raise refusal(error) from None
        return value

    return looked_at


def refusal(error: InvalidInput) -> PydanticCustomError:
    said = {"message": error.message, "code": error.code, "hint": error.hint or ""}
    return PydanticCustomError(KIND, "{message}", said)
