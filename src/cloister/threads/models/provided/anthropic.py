"""Anthropic's client, without any will of its own: no retries, no timeouts, no key, no place but the one given."""

import httpx2
from anthropic import AsyncAnthropic
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from cloister.threads.models.provided.wire import NO_KEY
from cloister.threads.models.settings import HOMES, ModelSettings


def make_model(settings: ModelSettings, http: httpx2.AsyncClient) -> Model:
    client = AsyncAnthropic(
        api_key=NO_KEY,
        base_url=settings.base_url or HOMES["anthropic"],
        http_client=http,
        max_retries=0,
        timeout=http.timeout,
        open_telemetry=False,
    )
    return AnthropicModel(settings.model, provider=AnthropicProvider(anthropic_client=client))
