"""Whose model a thread talks to: remembered, and another one's refused by name unless the turn says to switch."""

import sys
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister
from cloister.core.errors import ProviderMismatch, ProviderUnavailable, ProviderUnconfigured
from cloister.core.thread import ThreadParams
from cloister.core.turn import Status, TurnParams
from cloister.threads.models import ModelRegistry, ModelSettings
from tests.threads.drivers.lab import Heard, host, scripted, talk

pytestmark = pytest.mark.anyio
SCRIPT = "answers: [{text: One.}, {text: Two.}, {text: Three.}, {text: Four.}]"


class Other(Heard):
    """The same by another provider's name."""

    @property
    def provider(self) -> str:
        return "another"


async def test_another_providers_model_is_refused_by_name_until_the_turn_says_to_switch(tmp_path: Path) -> None:
    mine, other = scripted(SCRIPT), Other(scripted(SCRIPT).model)
    async with host(tmp_path / "a.db", given={"mine": mine, "other": other}, default="mine") as cloister:
        threads = cloister.threads
        turn, _ = await talk(threads, "one")
        thread = (await threads.get(turn.thread_id)).thread
        assert (thread.provider, thread.model) == ("scripted", "mine")
        with pytest.raises(ProviderMismatch) as refused:
            await threads.turn(thread.id, TurnParams("two", model="other"))
        error = refused.value
        assert (error.code, error.expected, error.actual, error.thread) == (
            "provider_mismatch",
            "scripted",
            "another",
            thread.id,
        )
        # Nothing was begun, and nobody was asked.
        assert len((await threads.get(thread.id)).turns) == 1
        assert other.asked == []
        turn, _ = await talk(threads, "two", thread=thread)
        assert turn.status is Status.COMPLETED, turn.error

        turn, _ = await talk(threads, "three", thread=thread, model="other", switch_provider=True)
        assert (turn.status, turn.model) == (Status.COMPLETED, "other"), turn.error
        thread = (await threads.get(thread.id)).thread
        assert (thread.provider, thread.model) == ("another", "other")
        # All that was said goes along, and from here on the thread is the other one's.
        assert "one" in other.told()
        turn, _ = await talk(threads, "four", thread=thread)
        assert turn.model == "other"
        with pytest.raises(ProviderMismatch):
            await threads.turn(thread.id, TurnParams("five", model="mine"))


async def test_model_that_cannot_be_asked_is_named_before_a_turn_begins_and_the_thread_goes_on(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    models = ModelRegistry(
        [ModelSettings(name="keyed", provider="openai", model="gpt-5")],
        given={"demo": scripted(SCRIPT)},
        environment=environment,
    )
    async with models, Cloister(store=f"sqlite://{tmp_path / 'a.db'}", models=models) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        cases: list[tuple[str | None, type[Any], str]] = [
            (None, ProviderUnconfigured, "provider_unconfigured"),
            ("keyed", ProviderUnconfigured, "provider_unconfigured"),
            ("openai:gpt-5", ProviderUnconfigured, "provider_unconfigured"),
            ("mistral:large", ProviderUnavailable, "provider_unavailable"),
        ]
        for model, kind, code in cases:
            with pytest.raises(kind) as refused:
                await threads.turn(thread.id, TurnParams("go", model=model))
            assert refused.value.code == code
        assert (await threads.get(thread.id)).turns == ()
        turn, _ = await talk(threads, thread=thread, model="demo")
        assert turn.status is Status.COMPLETED, turn.error
        # A thread may name one whose key comes later.
        named = await threads.create(ThreadParams(model="keyed"))
        assert named.provider is None
        environment["OPENAI_API_KEY"] = "sk-1"
        with pytest.raises(ProviderMismatch):
            await threads.turn(thread.id, TurnParams("go", model="keyed"))


async def test_provider_whose_package_is_missing_fails_the_turn_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ModelSettings(name="there", provider="openai", model="m", base_url="http://127.0.0.1:9/v1")
    models = ModelRegistry([settings], given={"demo": scripted(SCRIPT)}, environment={})
    async with models, Cloister(store=f"sqlite://{tmp_path / 'a.db'}", models=models) as cloister:
        threads = cloister.threads
        thread = await threads.create()
        with monkeypatch.context() as without:
            # As Python does where it is not installed.
            without.setitem(sys.modules, "openai", None)
            for name in [name for name in sys.modules if name.startswith("cloister.threads.models.prov")]:
                without.delitem(sys.modules, name)
            turn, _ = await talk(threads, thread=thread, model="there")
        assert turn.error is not None
        assert (turn.status, turn.error.code) == (Status.FAILED, "provider_unavailable")
        assert "'openai'" in turn.error.message
        turn, _ = await talk(threads, thread=thread, model="demo", switch_provider=True)
        assert turn.status is Status.COMPLETED, turn.error
