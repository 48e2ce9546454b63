"""The models of a server's threads: what may be named, and what is refused before it starts."""

from pathlib import Path
from typing import Any

import pytest

from cloister import CloisterError, InvalidInput
from cloister.app.config import Config, load_config
from cloister.cli.registry import registry_of

_SCRIPT = "answers: [{text: hello}]\n"
_TABLE = '[models.local]\nprovider = "openai"\nmodel = "q"\nbase_url = "http://127.0.0.1:9/v1"\n'


def _config(place: Path, text: str) -> Config:
    (place / "script.yaml").write_text(_SCRIPT)
    (place / "cloister.toml").write_text(text)
    return load_config(str(place / "cloister.toml"), environment={"HOME": str(place)}, here=place)


def test_clients_may_name_what_the_operator_has_named_and_nothing_else(tmp_path: Path) -> None:
    text = f'[threads]\nmodel = "scripted:script.yaml"\nmodels = ["local"]\n{_TABLE}'
    models, default = registry_of(_config(tmp_path, text), None)
    assert models is not None
    # A path is looked for beside the file that names it.
    assert default == "scripted:script.yaml"
    assert models.get(default) is models.get("scripted:script.yaml")
    assert models.get("local").provider.startswith("openai@")
    for name in ("scripted:other.yaml", "scripted:/etc/passwd", "openai:gpt-5", "nobody"):
        with pytest.raises(InvalidInput):
            models.get(name)


def test_default_that_cannot_be_asked_is_refused_before_anything_starts(tmp_path: Path) -> None:
    refused: list[tuple[str, str | None, str]] = [
        ("", "scripted:nowhere.yaml", "nowhere.yaml"),
        ("", "nobody", "there is no model 'nobody'"),
        ("", "anthropic:x", "ANTHROPIC_API_KEY"),
        ('[threads]\nmodel = "openai:x"\n', None, "OPENAI_API_KEY"),
        ('[threads]\nmodels = ["attic:x"]\n', None, "attic"),
    ]
    for text, model, said in refused:
        with pytest.raises(CloisterError, match=said):
            registry_of(_config(tmp_path, text), model)


def test_without_a_word_about_models_there_are_none(tmp_path: Path) -> None:
    nothing: tuple[Any, Any] = (None, None)
    assert registry_of(_config(tmp_path, ""), None) == nothing
    models, default = registry_of(_config(tmp_path, _TABLE), None)
    assert models is not None
    assert default is None
