"""When a request that failed is sent again, and after how long."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from cloister.core.errors import CloisterError, ModelError, ModelFailed, ModelRateLimited, ModelTimeout

_FIRST_MS = 500
_MOST_MS = 8_000


@dataclass(frozen=True, slots=True)
class Failure:
    """What became of one request: the error, and whether sending it again may help."""

    error: CloisterError
    is_passing: bool

    @property
    def retry_after_ms(self) -> int | None:
        return self.error.retry_after_ms if isinstance(self.error, ModelError) else None


def wait_ms(failure: Failure, attempt: int, most_ms: int, chance: Callable[[], float]) -> int | None:
    """Before the request after number `attempt`, from 1. None if the provider wants more patience than there is.

    The waits double from half a second to eight, and each is between half of that and all of it, so that many who
    failed together do not come back together. What the provider asks for is the least.
    """
    backoff = min(_FIRST_MS * 2.0 ** (attempt - 1), _MOST_MS)
    jittered = math.ceil(backoff * (0.5 + chance() / 2))
    asked = failure.retry_after_ms
    if asked is not None and asked > most_ms:
        return None
    return max(min(jittered, most_ms), asked or 0)


def given_up(error: CloisterError, attempts: int) -> CloisterError:
    """The error, with how often it was tried."""
    if attempts > 1 and isinstance(error, (ModelFailed, ModelRateLimited, ModelTimeout)):
        return type(error)(
            f"{error.message} (tried {attempts} times)",
            provider=error.provider,
            model=error.model,
            status=error.status,
            retry_after_ms=error.retry_after_ms,
            hint=error.hint,
        )
    return error
