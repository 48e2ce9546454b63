"""OpenAI's client, for OpenAI and whoever speaks like it, without any will of its own: no retries, no timeouts, no key,
no place but the one given."""

import httpx2
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from cloister.threads.models.provided.custom import CustomToolClient
from cloister.threads.models.provided.wire import NO_KEY
from cloister.threads.models.settings import HOMES, ModelSettings


def make_model(settings: ModelSettings, http: httpx2.AsyncClient) -> Model:
    kind = CustomToolClient if settings.freeform_tools else AsyncOpenAI
    client = kind(
        api_key=NO_KEY,
        base_url=settings.base_url or HOMES["openai"],
        http_client=http,
        max_retries=0,
        timeout=http.timeout,
    )
    if settings.identity == settings.provider:
        provider = OpenAIProvider(openai_client=client)
    else:
        # It is not taken for OpenAI: what only that can do is not asked for, and nothing sealed by it is sent there.
        provider = OpenAICompatibleProvider(settings.identity, openai_client=client)
    if settings.wire == "chat":
        return OpenAIChatModel(settings.model, provider=provider)
    return OpenAIResponsesModel(settings.model, provider=provider)
