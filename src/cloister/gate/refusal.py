"""A refusal: ends the way of one call. What it says is what the program gets and what is recorded."""

from cloister.core.call import CallStatus
from cloister.core.diagnostic import ErrorObject


class Refusal(Exception):
    def __init__(self, status: CallStatus, error: ErrorObject) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


def refuse(code: str, message: str, hint: str | None = None, status: CallStatus = CallStatus.ERROR) -> Refusal:
    return Refusal(status, ErrorObject(code, message, hint))
