"""Why something cannot be done to a file: one kind of refusal inside, told to programs and hosts in their own ways."""

from typing import Literal, NoReturn, TypeAlias

from cloister.core.errors import CloisterError, FileConflict, FileNotFound, InvalidInput, QuotaExceeded
from cloister.ports.helping import HelperRefused

Reason: TypeAlias = Literal[
    "not_found",
    "exists",
    "is_directory",
    "not_directory",
    "not_empty",
    "read_only",
    "invalid_path",
    "quota",
    "not_text",
    "conflict",
    "invalid",
]


class Refused(HelperRefused):
    """A program gets it as it is; a host as what `for_host` makes of it."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message, code=reason)
        self.reason: Reason = reason

    def for_host(self) -> CloisterError:
        match self.reason:
            case "not_found":
                return FileNotFound(self.message)
            case "quota":
                return QuotaExceeded(self.message, hint="delete files that are no longer needed")
            case "conflict" | "exists":
                return FileConflict(self.message)
            case _:
                return InvalidInput(self.message)


def refuse(reason: Reason, message: str) -> NoReturn:
    raise Refused(reason, message)
