"""`cloister models`: what can be asked for, what is missing, and whether it answers."""

import pytest

from tests.cli.typing import Typist
from tests.threads.models.wire.aside import model_server
from tests.threads.models.wire.server import Fails, Reply


def test_models_are_listed_with_what_is_missing_and_asked_a_question(
    typed: Typist, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hunter2")
    typed.write("demo.yaml", "answers:\n  - expect: ready\n    text: ready\n    usage: {output_tokens: 1}\n")
    typed.write("wrong.yaml", "answers:\n  - txt: ready\n")
    typed.write(
        "cloister.toml",
        """
        [models.fast]
        provider = "openai"
        model = "small"
        base_url = "https://gateway.example.com/v1"
        api_key_env = "GATEWAY_KEY"
        headers = { x-team = "hunter2" }
        """,
    )
    listed = {one["name"]: one for one in typed("models list --json").json["models"]}
    assert listed["fast"]["missing"] == "the model 'fast' needs a key, and the environment has no variable GATEWAY_KEY"
    assert listed["fast"]["provider"] == "openai@gateway.example.com"
    assert [listed[f"{name}:NAME"]["ready"] for name in ("anthropic", "openai")] == [True, False]
    for words in ("models list", "models list --json", "config show", "config show --json"):
        said = typed(words)
        assert said.code == 0
        assert "hunter2" not in said.out
        assert ("GATEWAY_KEY" in said.out) is True

    tried = typed("models test scripted:demo.yaml --json").json["models"][0]
    assert (tried["ok"], tried["answer"], tried["usage"]) == (True, "ready", {"output_tokens": 1, "requests": 1})
    assert typed("models test scripted:demo.yaml").out.startswith("scripted:demo.yaml: 'ready' in ")
    failed = typed("models test")
    assert (failed.code, "model 'fast' does not work: the model 'fast' needs a key" in failed.err) == (1, True)
    wrong = typed("models test scripted:wrong.yaml --json")
    assert wrong.code == 1
    assert "wrong.yaml:2: answers[0].txt: is not known" in wrong.json["models"][0]["error"]
    typed.write("cloister.toml", '[models.fast]\nprovider = "openai"\nmodle = "small"\n')
    refused = typed("models list")
    assert refused.code == 2
    assert "cloister.toml:3: models.fast.modle: is not known" in refused.err


def test_model_of_a_provider_is_asked_over_the_wire(typed: Typist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "sk-hunter2")
    with model_server([Reply(text="ready"), Fails(401, "bad key sk-hunter2")]) as server:
        typed.write(
            "cloister.toml",
            f"""
            [models.there]
            provider = "openai"
            wire = "chat"
            model = "small"
            base_url = "http://127.0.0.1:{server.port}/v1"
            api_key_env = "GATEWAY_KEY"
            prices = {{ input = 1, output = 2 }}
            """,
        )
        told = typed("models test --json").json["models"][0]
        assert (told["answer"], told["cost"]) == ("ready", {"amount": "0.000034", "currency": "USD"})
        assert server.heard[0].headers["authorization"] == "Bearer sk-hunter2"
        refused = typed("models test there")
        assert refused.code == 1
        assert "HTTP 401: bad key [secret]" in refused.err
        assert "is the key in GATEWAY_KEY right?" in refused.err
