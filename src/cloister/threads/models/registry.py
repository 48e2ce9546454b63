"""Which model a name means.

    anthropic:NAME        Anthropic's, with ANTHROPIC_API_KEY
    openai:NAME           OpenAI's by its Responses API, with OPENAI_API_KEY; openai-chat:NAME by chat completions
    scripted:PATH         answers from a file
    NAME                  a [models.NAME] table of the configuration, or a model that the host gave

Models share their connections, which are closed when the registry is. Nothing is connected to, and no SDK imported,
before the first request.
"""

import difflib
import os
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from cloister.core.errors import CloisterError, InvalidInput, ProviderUnavailable
from cloister.ports.clock import Clock, SystemClock
from cloister.ports.model import Model
from cloister.threads.models.keys import check_key
from cloister.threads.models.provided.model import ProvidedModel
from cloister.threads.models.scripted import ScriptedModel, read_script
from cloister.threads.models.settings import HOMES, ModelSettings

_WAYS = ("anthropic:NAME", "openai:NAME", "openai-chat:NAME", "scripted:PATH")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One that can be asked for, in a list of them."""

    name: str
    provider: str
    # As the provider calls it; `NAME` where any of its models can be named.
    model: str
    base_url: str | None = None
    # What is missing before it can be used.
    missing: str | None = None


class ModelRegistry:
    """`async with ModelRegistry(config.models()) as models: models.get("openai:gpt-…")`"""

    def __init__(
        self,
        configured: Iterable[ModelSettings] = (),
        *,
        given: Mapping[str, Model] | None = None,
        allowed: Iterable[str] | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        base: Path | None = None,
    ) -> None:
        """`given` are models made in code, by the names they are asked for. Where others say which model, `allowed`
        has the names such as `openai:NAME` that they may say; None for all, files of scripts included. A relative path
        of a script is looked for from `base`. `chance` spreads out the waits before a request is sent again."""
        self._configured = {one.name: one for one in configured}
        self._given = dict(given or {})
        self._allowed = None if allowed is None else tuple(allowed)
        self._environment = os.environ if environment is None else environment
        self._clock = clock or SystemClock()
        self._chance = chance
        self._base = base or Path()
        self._made: dict[str, Model] = {}
        self._stack = AsyncExitStack()
        both = sorted(self._configured.keys() & self._given.keys())
        if both:
            raise InvalidInput(f"there are two models with the name {both[0]!r}", hint="rename one of them")

    async def __aenter__(self) -> "ModelRegistry":
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._made.clear()
        await self._stack.aclose()

    def get(self, name: str) -> Model:
        """Raises `InvalidInput`, `ProviderUnavailable`, and `ProviderUnconfigured` where its key is missing."""
        if name in self._given:
            return self._given[name]
        if name not in self._made:
            self._made[name] = self._make(name)
        made = self._made[name]
        if isinstance(made, ProvidedModel):
            # A key may have gone, or come, since.
            check_key(made.settings, self._environment)
        return made

    def entries(self) -> list[ModelEntry]:
        """What can be asked for here: those of the host and of the configuration, then whole providers."""
        found = [ModelEntry(name, model.provider, name) for name, model in self._given.items()]
        found += [self._entry(one, one.model) for one in self._configured.values()]
        if self._allowed is not None:
            return found + [self._named(name) for name in self._allowed]
        for provider in HOMES:
            settings = ModelSettings(name=f"{provider}:NAME", provider=provider, model="NAME")  # pyright: ignore[reportArgumentType]
            found.append(self._entry(settings, "NAME"))
        return found

    # -- inside ----------------------------------------------------------------------------------------------

    def _entry(self, settings: ModelSettings, model: str) -> ModelEntry:
        try:
            check_key(settings, self._environment)
        except CloisterError as error:
            return ModelEntry(settings.name, settings.identity, model, settings.base_url, error.message)
        return ModelEntry(settings.name, settings.identity, model, settings.base_url)

    def _named(self, name: str) -> ModelEntry:
        provider, _, of_it = name.partition(":")
        try:
            model = self._made.setdefault(name, self._made.get(name) or self._make(name))
        except CloisterError as error:
            return ModelEntry(name, provider, of_it, missing=error.message)
        if isinstance(model, ProvidedModel):
            return self._entry(model.settings, of_it)
        return ModelEntry(name, provider, of_it)

    def _make(self, name: str) -> Model:
        if name in self._configured:
            return self._provided(self._configured[name])
        kind, colon, rest = name.partition(":")
        if not colon or (self._allowed is not None and name not in self._allowed):
            raise InvalidInput(f"there is no model {name[:100]!r}", hint=self._hint(name))
        match kind:
            case "anthropic":
                return self._provided(ModelSettings(name=name, provider="anthropic", model=rest))
            case "openai":
                return self._provided(ModelSettings(name=name, provider="openai", model=rest))
            case "openai-chat":
                return self._provided(ModelSettings(name=name, provider="openai", model=rest, wire="chat"))
            case "scripted":
                path = self._base / Path(rest).expanduser()
                return ScriptedModel(read_script(path), name=name, clock=self._clock)
            case _:
                raise ProviderUnavailable(
                    f"there is no provider {kind[:100]!r} for the model {name[:100]!r}", hint=self._hint(name)
                )

    def _provided(self, settings: ModelSettings) -> ProvidedModel:
        model = ProvidedModel(settings, self._environment, self._clock, self._chance)
        self._stack.push_async_callback(model.close)
        return model

    def _hint(self, name: str) -> str:
        names = [*self._given, *self._configured, *(self._allowed or ())]
        near = difflib.get_close_matches(name, names, n=1)
        ways = _WAYS if self._allowed is None else ()
        return f"did you mean {near[0]!r}?" if near else f"there are {', '.join([*names, *ways]) or 'none'}"
