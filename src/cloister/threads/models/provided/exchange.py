"""One request to a provider and what comes of it. Loading this loads the library that speaks to providers."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from httpx2 import AsyncClient
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings as RequestSettings

from cloister.core.answer import Answer, Delta
from cloister.core.errors import InvalidInput
from cloister.core.offer import FreeformTool
from cloister.ports.model import Asked
from cloister.threads.models.provided.failures import failure_of
from cloister.threads.models.provided.incoming import Gathering
from cloister.threads.models.provided.outgoing import (
    messages_of,
    parameters_of,
    settings_of,
    wire_name,
    wire_names,
)
from cloister.threads.models.provided.patience import Failure
from cloister.threads.models.provided.wire import CURRENT, Sending, open_client
from cloister.threads.models.settings import ModelSettings
from cloister.tools.sources.held import Veil


class Exchange:
    """The connections to one model. Close it when nobody asks any more."""

    def __init__(self, settings: ModelSettings, make_model: Callable[[ModelSettings, AsyncClient], Model]) -> None:
        self._settings = settings
        self._http = open_client(settings)
        self._model = make_model(settings, self._http)

    async def close(self) -> None:
        await self._http.aclose()

    async def carry_out(
        self, asked: Asked, key: str | None, headers: Mapping[str, str], attempt: int, heard: Callable[[], None]
    ) -> AsyncGenerator[Delta | Answer | Failure]:
        """Deltas and an answer, or a failure at any moment; nothing after either."""
        try:
            asking = self._asking(asked)
        except (InvalidInput, UserError, ValueError) as error:
            said = error.message if isinstance(error, InvalidInput) else f"{self._settings.name}: {error}"[:500]
            yield Failure(InvalidInput(said, hint=getattr(error, "hint", None)), False)
            return
        sent = {**_authorized(self._settings, key), **headers}
        sending = Sending(sent, self._settings.limits.max_wire_bytes, heard, asking.freeform)
        veil = Veil([*([key] if key else []), *headers.values()])
        token = CURRENT.set(sending)
        try:
            pieces = self._stream(asking, attempt) if self._settings.stream else self._whole(asking, attempt)
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except UserError as error:
            yield Failure(InvalidInput(f"{self._settings.name}: {veil.text(str(error))[:500]}"), False)
        # Containment: an SDK that reads what a provider sends may stumble in any way.
        except Exception as error:  # noqa: BLE001
            yield failure_of(error, self._settings, sending, veil)
        finally:
            CURRENT.reset(token)

    def _asking(self, asked: Asked) -> "_Asking":
        """Raises `InvalidInput`, or what the library says of what it cannot put into words."""
        return _Asking(
            messages_of(asked, self._settings, self._model),
            settings_of(asked, self._settings),
            parameters_of(asked),
            wire_names(asked, self._settings),
            {wire_name(tool.name): tool for tool in asked.tools if isinstance(tool, FreeformTool)},
        )

    async def _stream(self, asking: "_Asking", attempt: int) -> AsyncGenerator[Delta | Answer]:
        gathering = Gathering(self._settings, asking.names, asking.freeform)
        async with model_request_stream(
            self._model,
            asking.messages,
            model_settings=asking.settings,
            model_request_parameters=asking.parameters,
            instrument=False,
        ) as stream:
            async for event in stream:
                delta = gathering.take(event)
                if delta is not None:
                    yield delta
            yield gathering.finish(stream.get(), attempt)

    async def _whole(self, asking: "_Asking", attempt: int) -> AsyncGenerator[Delta | Answer]:
        response = await model_request(
            self._model,
            asking.messages,
            model_settings=asking.settings,
            model_request_parameters=asking.parameters,
            instrument=False,
        )
        yield Gathering(self._settings, asking.names, asking.freeform).finish(response, attempt)


@dataclass(frozen=True, slots=True)
class _Asking:
    """A question in the library's terms."""

    messages: list[ModelMessage]
    settings: RequestSettings
    parameters: ModelRequestParameters
    names: Mapping[str, str]
    freeform: Mapping[str, FreeformTool]


def _authorized(settings: ModelSettings, key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    return {"x-api-key": key} if settings.provider == "anthropic" else {"authorization": f"Bearer {key}"}
