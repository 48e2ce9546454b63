"""What goes wrong with a request, in our errors: which one, whether it passes, and a text without secrets."""

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)

from cloister.core.errors import (
    AnswerInvalid,
    AnswerTooLarge,
    CloisterError,
    ContextExceeded,
    ModelFailed,
    ModelRateLimited,
    ModelRefused,
    ProviderUnavailable,
)
from cloister.threads.models.provided.incoming import unbroken
from cloister.threads.models.provided.patience import Failure
from cloister.threads.models.provided.wire import Sending
from cloister.threads.models.settings import ModelSettings
from cloister.tools.sources.held import Veil

_MOST_SAID = 500
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
# Too early, busy with the same, too many; and whatever a server says of itself.
_PASSING = (408, 409, 425, 429)


def failure_of(error: Exception, settings: ModelSettings, sending: Sending, veil: Veil) -> Failure:
    about: dict[str, Any] = {"provider": settings.identity, "model": settings.name}
    name = settings.name
    if sending.exceeded:
        most = settings.limits.max_wire_bytes
        return Failure(AnswerTooLarge(f"{name}: the answer has more than {most} bytes on the wire", **about), False)
    if sending.encoding is not None:
        said = f"{name}: the answer is in {sending.encoding!r}, which was not asked for"
        return Failure(AnswerInvalid(said, **about), False)
    if isinstance(error, CloisterError):
        # Of the answer, by whoever gathers it. One that was cut off may come whole the next time.
        return Failure(error, isinstance(error, ModelFailed))
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    about["status"] = status
    said = veil.text(_said(error))
    where = f"{name}: HTTP {status}" if status is not None else name
    text = f"{where}: {said}" if said else where
    if isinstance(error, ModelAPIError) and error.retry_after is not None and 0 <= error.retry_after < 1e9:
        about["retry_after_ms"] = int(error.retry_after * 1000)
    match error:
        case ModelQuotaExceededError():
            return Failure(ModelRefused(text, **about, hint="the account has no more to spend"), False)
        case ModelRateLimitError():
            return Failure(ModelRateLimited(text, **about), True)
        case ModelTimeoutError() | ModelConnectionError() if error.phase in ("pool", "connect"):
            hint = None if settings.base_url is None else "is base_url right, and is it running?"
            return Failure(ProviderUnavailable(f"{name} cannot be reached: {said}", hint=hint), True)
        case ModelConnectionError():
            return Failure(ModelFailed(f"{name}: the connection broke: {said}", **about), True)
        case ModelUnavailableError() | ModelServerError():
            return Failure(ModelFailed(text, **about), True)
        case ModelHTTPError(status_code=code) if code in _PASSING or code >= 500:
            kind = ModelRateLimited if code == 429 else ModelFailed
            return Failure(kind(text, **about), True)
        case ModelContextWindowExceededError():
            return Failure(ContextExceeded(text, **about, hint="compact the conversation"), False)
        case ModelRequestRejectedError() | ModelHTTPError():
            return Failure(ModelRefused(text, **about, hint=_hint(error, settings)), False)
        case UnexpectedModelBehavior() if "ended without" in str(error):
            return Failure(ModelFailed(f"{name}: the answer was cut off before it began", **about), True)
        case _:
            return Failure(AnswerInvalid(f"{name}: the answer cannot be read: {said}", **about), False)


def _hint(error: ModelAPIError, settings: ModelSettings) -> str | None:
    match error:
        case ModelAuthenticationError():
            variable = settings.key_variable
            return f"is the key in {variable} right?" if variable is not None else "is the key right?"
        case ModelNotFoundError():
            return f"is {settings.model!r} the provider's name of the model?"
        case _:
            return None


def _said(error: Exception) -> str:
    """What the provider says, and only that: one line, cut."""
    body = error.body if isinstance(error, ModelAPIError) else None
    text = _message(body)
    if text is None:
        if isinstance(error, ModelHTTPError):
            text = body if isinstance(body, str) else ""
        elif isinstance(error, ModelAPIError):
            text = error.message
        else:
            # An SDK that stumbled over what it read: its words may have all of it in them.
            text = type(error).__name__
    text = _SPACES.sub(" ", unbroken(text)).strip()
    return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}…"


def _message(body: object) -> str | None:
    """Providers say `{"error": {"message"}}` or `{"message"}`."""
    for _ in range(2):
        if not isinstance(body, Mapping):
            return None
        parts = cast("Mapping[str, object]", body)
        message = parts.get("message")
        if isinstance(message, str):
            return message
        body = parts.get("error")
        if isinstance(body, str):
            return body
    return None
