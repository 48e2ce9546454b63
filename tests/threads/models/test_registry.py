"""Which model a name means, what may be said about one, and what is missing before it can be used."""

import re
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cloister.core.errors import InvalidConfig, InvalidInput, ProviderUnavailable, ProviderUnconfigured
from cloister.core.usage import Prices
from cloister.threads.models import ModelRegistry, ModelSettings, ScriptedModel, parse_script, read_model_table
from tests.threads.models.asking import ASKED, pieces_of

_ENVIRONMENT = {"OPENAI_API_KEY": "sk-1", "TOKEN": "t-1"}


def _read(text: str) -> ModelSettings:
    return read_model_table("local", tomllib.loads(text), environment=_ENVIRONMENT)


def test_table_says_all_there_is_to_say() -> None:
    settings = _read(
        """
        provider = "openai"
        wire = "chat"
        model = "qwen3"
        base_url = "http://127.0.0.1:8000/v1"
        headers = { x-team = "${TOKEN}" }
        prices = { input = "0.1", output = 0.3, cached = 0, currency = "EUR" }
        timeout_ms = 5
        max_retries = 0
        stream = false
        tools = false
        """
    )
    assert settings.prices == Prices(Decimal("0.1"), Decimal("0.3"), Decimal(0), currency="EUR")
    assert (settings.identity, settings.key_variable, settings.stream) == ("openai@127.0.0.1:8000", None, False)
    assert not settings.tools
    assert "t-1" not in repr(settings)
    plain = _read('provider = "anthropic"\nmodel = "claude"')
    assert (plain.identity, plain.key_variable) == ("anthropic", "ANTHROPIC_API_KEY")


@pytest.mark.parametrize(
    ("said", "key", "words"),
    [
        ("", "", "says no `model`"),
        ('provider = "mistral"', "", "provider is one of anthropic, openai, not 'mistral'"),
        ('api_key = "sk-9"', ".api_key", "is not known (name the variable that has it: api_key_env)"),
        ('api_key_env = "sk-live-9"', "", "is the name of a variable, such as OPENAI_API_KEY, and not the key"),
        ('base_url = "ftp://x"', "", "base_url is like https://"),
        ('base_url = "https://u:p@x/v1"', "", "base_url has a password in it"),
        ("timeout_ms = true", ".timeout_ms", "is a whole number, not bool"),
        ("timeout_ms = 0", "", "timeout_ms is a whole number between 1 and 86400000, not 0"),
        ('wire = "chat"\nfreeform_tools = true', "", "freeform_tools are OpenAI's, by wire = 'responses'"),
        ("tools = false\nfreeform_tools = true", "", "for a model that takes tools"),
        ('wyre = "chat"', ".wyre", "is not known (did you mean `wire`?)"),
        ('headers = { host = "x" }', "", "headers: 'host' cannot be given"),
        ('headers = { x = "${NOPE}" }', ".headers.x", "the environment has no variable 'NOPE'"),
        ('prices = { input = "1" }', ".prices", "says no `output`"),
        ("prices = { input = -1, output = 1 }", ".prices.input", "is a decimal number of at least 0"),
        ("prices = { input = nan, output = 1 }", ".prices.input", "is a decimal number of at least 0"),
        ('prices = { input = 1, output = 1, currency = "€" }', ".prices.currency", "is three capital letters"),
    ],
)
def test_what_is_wrong_in_a_table_is_named_by_its_key(said: str, key: str, words: str) -> None:
    table: dict[str, Any] = {"provider": "openai", **({"model": "m"} if said else {}), **tomllib.loads(said)}
    with pytest.raises(InvalidConfig) as caught:
        read_model_table("local", table, environment=_ENVIRONMENT)
    assert caught.value.path == f"models.local{key}"
    shown = caught.value.message + (f" ({caught.value.hint})" if caught.value.hint else "")
    assert words in shown
    assert "sk-" not in shown


@pytest.mark.anyio
async def test_names_lead_to_models_and_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo.yaml").write_text("answers: [{text: Hello.}]")
    script = ScriptedModel(parse_script("answers: [{text: Hi.}]"))
    environment = dict(_ENVIRONMENT)
    fast = ModelSettings(name="fast", provider="anthropic", model="claude", api_key_env="FAST_KEY")
    async with ModelRegistry([fast], given={"mine": script}, environment=environment, base=tmp_path) as models:
        assert models.get("mine") is script
        assert models.get("openai:gpt-5").provider == models.get("openai-chat:gpt-5").provider == "openai"
        assert models.get("openai:gpt-5") is models.get("openai:gpt-5")
        scripted = models.get("scripted:demo.yaml")
        assert (scripted.provider, scripted.name) == ("scripted", "scripted:demo.yaml")
        for name, kind, words in (
            ("anthropic:claude", ProviderUnconfigured, "no variable ANTHROPIC_API_KEY"),
            ("fast", ProviderUnconfigured, "'fast' needs a key, and the environment has no variable FAST_KEY"),
            ("mistral:large", ProviderUnavailable, "there is no provider 'mistral'"),
            ("fsat", InvalidInput, "there is no model 'fsat'"),
            ("openai:", InvalidInput, "model is the name"),
            ("scripted:.", InvalidConfig, "is no file"),
            ("scripted:none.yaml", InvalidConfig, "cannot be read: No such file"),
        ):
            with pytest.raises(kind, match=re.escape(words)) as caught:
                models.get(name)
            if name == "fsat":
                assert caught.value.hint == "did you mean 'fast'?"
        environment["FAST_KEY"] = "k"
        assert models.get("fast").provider == "anthropic"
        del environment["FAST_KEY"]
        with pytest.raises(ProviderUnconfigured):
            models.get("fast")
        missing = {entry.name: entry.missing for entry in models.entries()}
        assert [name for name, what in missing.items() if what is None] == ["mine", "openai:NAME"]

        # Whoever has not installed the extra.
        for module in ("exchange", "openai"):
            monkeypatch.delitem(sys.modules, f"cloister.threads.models.provided.{module}", raising=False)
        nothing: Any = None
        monkeypatch.setitem(sys.modules, "openai", nothing)
        with pytest.raises(ProviderUnavailable) as unavailable:
            await pieces_of(models.get("openai:gpt-5"), ASKED)
        assert unavailable.value.hint == "pip install 'cloister[models]'"
    # Where somebody else says which.
    names = ("openai:gpt-5", "scripted:demo.yaml")
    async with ModelRegistry([fast], allowed=names, environment=_ENVIRONMENT, base=tmp_path) as models:
        assert [models.get(name).name for name in names] == list(names)
        (tmp_path / "demo.yaml").write_text("answers: []")
        assert [entry.name for entry in models.entries()] == ["fast", *names]
        for name in ("openai:gpt-6", "scripted:/etc/passwd", "mistral:x"):
            with pytest.raises(InvalidInput, match="there is no model"):
                models.get(name)
    with pytest.raises(InvalidInput, match="two models with the name 'fast'"):
        ModelRegistry([fast], given={"fast": script})


def test_importing_models_imports_no_sdk() -> None:
    slow = ("pydantic_ai", "openai", "anthropic", "httpx2", "yaml")
    code = f"import sys, cloister.threads.models; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
