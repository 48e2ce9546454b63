"""Which model a turn is driven by, and whether its thread may be driven by it.

The turn says, or its thread, or the host. A thread remembers whose model it talks to: another provider's is refused by
name, unless the turn says to switch. What a thread remembers changes with a turn that begins, never before.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from cloister.core.errors import ProviderMismatch, ProviderUnconfigured
from cloister.core.item import Item
from cloister.core.thread import Thread
from cloister.ports.model import Model, Models
from cloister.threads.driver import Choice, Summary
from cloister.threads.drivers.summary import summarise


class Choosing:
    def __init__(self, models: Models, default: str | None) -> None:
        self._models = models
        self._default = default

    def choose(self, thread: Thread, model: str | None, *, switch_provider: bool) -> Choice:
        """Raises `ProviderUnconfigured`, `ProviderUnavailable`, `ProviderMismatch`, and `InvalidInput` for a name that
        there is not."""
        name = model or thread.model or self._default
        if name is None:
            raise ProviderUnconfigured(
                f"thread {thread.id} has no model, and this host has none for threads that name none",
                hint="name one in the turn or the thread, or give the host a default: Cloister(models=..., model=...)",
            )
        provider = self._models.get(name).provider
        if thread.provider not in (None, provider) and not switch_provider:
            raise ProviderMismatch(
                expected=thread.provider or "",
                actual=provider,
                thread=thread.id,
                hint="say switch_provider to go over to the other, or name a model of the one that the thread talks to",
            )
        return Choice(name, provider)

    async def summarise(
        self, choice: Choice, items: Sequence[Item], answered: int, now: Callable[[], datetime]
    ) -> Summary:
        return await summarise(self.model(choice.model), items, answered, now)

    def model(self, name: str) -> Model:
        return self._models.get(name)
