"""What is to be said about a model of a provider: which one, where, with whose key, and how patient to be with it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from cloister.core.answer import AnswerLimits
from cloister.core.errors import InvalidInput
from cloister.core.usage import Prices
from cloister.tools.sources.held import Value

Provider: TypeAlias = Literal["anthropic", "openai"]
Wire: TypeAlias = Literal["responses", "chat"]
Summary: TypeAlias = Literal["auto", "concise", "detailed"]

# Where each is, and which variable has its key, unless something else is said.
HOMES: Mapping[str, str] = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
KEYS: Mapping[str, str] = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_DAY_MS = 86_400_000
# By us, or by the protocol.
_TAKEN = ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding")
_BOUNDS = {
    "timeout_ms": (1, _DAY_MS),
    "idle_timeout_ms": (1, _DAY_MS),
    "connect_timeout_ms": (1, _DAY_MS),
    "max_retries": (0, 20),
    "max_retry_wait_ms": (0, _DAY_MS),
    "max_output_tokens": (1, 1 << 31),
}


def _no_headers() -> dict[str, Value]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    # How it is asked for.
    name: str
    provider: Provider
    # As the provider calls it.
    model: str
    # OpenAI has two; Anthropic one, for which this says nothing.
    wire: Wire = "responses"
    # Another server that speaks like the provider.
    base_url: str | None = None
    # The variable that has the key; the provider's usual one, or none at all at another base_url.
    api_key_env: str | None = None
    # Instead of a variable; asked before each request, so that a rotated key is the new one.
    api_key: Callable[[], str] | None = field(default=None, repr=False)
    # Sent along. Never shown.
    headers: Mapping[str, Value] = field(default_factory=_no_headers, repr=False)
    prices: Prices | None = None
    # For a request as a whole, with those that are sent again and the waits between.
    timeout_ms: int = 600_000
    # Between two things that are heard of the provider.
    idle_timeout_ms: int = 120_000
    connect_timeout_ms: int = 10_000
    # Requests that are sent again after the first.
    max_retries: int = 3
    # A provider that asks for more patience than this has failed.
    max_retry_wait_ms: int = 60_000
    max_output_tokens: int | None = None
    # False for servers that cannot: the answer then comes in one piece.
    stream: bool = True
    # Whether it takes images.
    images: bool = True
    # False for one that cannot call: it then writes its programs in fenced blocks.
    tools: bool = True
    # Whether it takes tools whose input is text: OpenAI's custom tools, by Responses.
    freeform_tools: bool = False
    # What OpenAI tells of reasoning; nothing unless asked.
    reasoning_summary: Summary | None = None
    # Whether the beginning of a conversation is kept by the provider for the next request, where it has to be asked.
    cache: bool = True
    limits: AnswerLimits = field(default_factory=AnswerLimits)

    def __post_init__(self) -> None:
        for key, choices in (("provider", HOMES), ("wire", ("responses", "chat"))):
            if getattr(self, key) not in choices:
                raise InvalidInput(f"{key} is one of {', '.join(choices)}, not {getattr(self, key)!r:.80}")
        if self.reasoning_summary not in (None, "auto", "concise", "detailed"):
            raise InvalidInput(f"reasoning_summary is auto, concise or detailed, not {self.reasoning_summary!r:.80}")
        if self.provider == "anthropic" and (self.wire != "responses" or self.reasoning_summary):
            raise InvalidInput("wire and reasoning_summary are for OpenAI and servers like it; leave them out")
        if self.freeform_tools and (self.provider != "openai" or self.wire != "responses" or not self.tools):
            raise InvalidInput("freeform_tools are OpenAI's, by wire = 'responses', for a model that takes tools")
        if not self.model or len(self.model) > 200 or not self.model.isprintable():
            raise InvalidInput(f"model is the name that the provider has for it, not {self.model!r:.80}")
        for key, (least, most) in _BOUNDS.items():
            value = getattr(self, key)
            if value is None and key == "max_output_tokens":
                continue
            if type(value) is not int or not least <= value <= most:
                raise InvalidInput(f"{key} is a whole number between {least} and {most}, not {value!r:.80}")
        self._check_access()

    def _check_access(self) -> None:
        if self.api_key is not None and self.api_key_env is not None:
            raise InvalidInput("the key comes from api_key_env or from api_key, not from both")
        if self.api_key_env is not None and _VARIABLE.fullmatch(self.api_key_env) is None:
            # Perhaps the key itself: not repeated.
            raise InvalidInput("api_key_env is the name of a variable, such as OPENAI_API_KEY, and not the key")
        for name in self.headers:
            if _HEADER.fullmatch(name) is None or name.lower() in _TAKEN:
                raise InvalidInput(f"headers: {name!r:.80} cannot be given")
        if self.base_url is None:
            return
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidInput("base_url is like https://gateway.example.com/v1", hint="with nothing after the path")
        if parts.username is not None or parts.password is not None:
            raise InvalidInput("base_url has a password in it", hint="name its variable: api_key_env")

    @property
    def identity(self) -> str:
        """Whose reasoning and ids these are: the provider's, or another server's."""
        if self.base_url is None or self.base_url.rstrip("/") == HOMES[self.provider]:
            return self.provider
        return f"{self.provider}@{urlsplit(self.base_url).netloc.lower()}"

    @property
    def key_variable(self) -> str | None:
        """The variable that its key is in; None where none is needed, or `api_key` gives it."""
        if self.api_key is not None:
            return None
        if self.api_key_env is None and self.identity == self.provider:
            return KEYS[self.provider]
        return self.api_key_env
