"""The SDKs' clients, without any will of their own: no retries, no timeouts, no key, no place but the one given."""

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from cloister.threads.models.provided.wire import Wire
from cloister.threads.models.settings import HOMES, ModelSettings

# The SDKs insist on a key; the wire replaces it.
_NO_KEY = "not-held-here"


def open_client(settings: ModelSettings) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=Wire(), trust_env=False, follow_redirects=False, timeout=_timeout(settings))


def make_model(settings: ModelSettings, http: httpx2.AsyncClient) -> Model:
    base_url = settings.base_url or HOMES[settings.provider]
    if settings.provider == "anthropic":
        client = AsyncAnthropic(
            api_key=_NO_KEY,
            base_url=base_url,
            http_client=http,
            max_retries=0,
            timeout=_timeout(settings),
            open_telemetry=False,
        )
        return AnthropicModel(settings.model, provider=AnthropicProvider(anthropic_client=client))
    openai = AsyncOpenAI(
        api_key=_NO_KEY, base_url=base_url, http_client=http, max_retries=0, timeout=_timeout(settings)
    )
    if settings.identity == settings.provider:
        provider = OpenAIProvider(openai_client=openai)
    else:
        provider = OpenAICompatibleProvider(settings.identity, openai_client=openai)
    if settings.wire == "chat":
        return OpenAIChatModel(settings.model, provider=provider)
    return OpenAIResponsesModel(settings.model, provider=provider)


def _timeout(settings: ModelSettings) -> httpx2.Timeout:
    # Connecting only: how long an answer may take is watched elsewhere.
    return httpx2.Timeout(None, connect=settings.connect_timeout_ms / 1000)
