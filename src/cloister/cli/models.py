"""`cloister models list|test`: which models can be asked for here, and whether they answer."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cloister.cli.exits import FAILED, OK
from cloister.cli.failures import complain
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.options import AsJson, ConfigFile
from cloister.cli.tables import show
from cloister.cli.terminal import one_json_object

if TYPE_CHECKING:
    from cloister.app.config import Config

# Enough for a model that thinks before it says a word.
_TOKENS = 1024
_QUESTION = "Answer with one word: ready"


def list_(*, config: ConfigFile = None, as_json: AsJson = False) -> int:
    from cloister.app.config import load_config
    from cloister.threads.models import ModelRegistry

    held = load_config(config)
    entries = ModelRegistry(held.models(), environment=held.environment).entries()
    if as_json:
        told = [
            {
                "name": one.name,
                "provider": one.provider,
                "model": one.model,
                "base_url": one.base_url,
                "ready": one.missing is None,
                "missing": one.missing,
            }
            for one in entries
        ]
        with one_json_object() as write:
            write({"ok": True, "models": told})
        return OK
    rows = [(one.name, one.provider, one.model, one.missing or "ready") for one in entries]
    show(["model", "provider", "of it", "state"], [*rows, ("scripted:PATH", "scripted", "", "ready")], "")
    return OK


def try_(
    name: Annotated[
        str | None, Parameter(help="Only this one, such as openai:NAME.  [default: those of the configuration]")
    ] = None,
    /,
    *,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> int:
    from cloister.app.config import load_config

    held = load_config(config)
    results = run_interruptibly(_try_all(held, [name] if name is not None else [one.name for one in held.models()]))
    if as_json:
        with one_json_object() as write:
            write({"ok": all(one["ok"] for one in results), "models": results})
    else:
        for one in results:
            _say(one)
        if not results:
            complain("the configuration has no models", "cloister models test openai:NAME asks one that needs no table")
    return OK if all(one["ok"] for one in results) else FAILED


async def _try_all(held: "Config", names: list[str]) -> list[dict[str, Any]]:
    from cloister.threads.models import ModelRegistry

    results: list[dict[str, Any]] = []
    async with ModelRegistry(held.models(), environment=held.environment, base=Path()) as models:
        for name in names:
            results.append(await _try(models, name))
    return results


async def _try(models: Any, name: str) -> dict[str, Any]:
    from cloister.core.answer import Answer, Retrying
    from cloister.core.errors import CloisterError
    from cloister.core.message import user_text
    from cloister.core.usage import cost_to_doc, usage_to_doc
    from cloister.ports.model import Asked

    began = time.monotonic()
    first_ms: int | None = None
    try:
        asked = Asked((user_text(_QUESTION),), max_output_tokens=_TOKENS)
        async with models.get(name).request(asked) as pieces:
            async for piece in pieces:
                if isinstance(piece, Retrying):
                    continue
                took_ms = round((time.monotonic() - began) * 1000)
                first_ms = took_ms if first_ms is None else first_ms
                if isinstance(piece, Answer):
                    return {
                        "name": name,
                        "ok": True,
                        "answer": piece.message.text[:200],
                        "model": piece.model,
                        "first_ms": first_ms,
                        "took_ms": took_ms,
                        "usage": usage_to_doc(piece.usage),
                        "cost": cost_to_doc(piece.cost) if piece.cost is not None else None,
                    }
    except CloisterError as error:
        return {"name": name, "ok": False, "code": error.code, "error": error.message, "hint": error.hint}
    return {"name": name, "ok": False, "code": "answer_invalid", "error": "there was no answer", "hint": None}


def _say(result: dict[str, Any]) -> None:
    if not result["ok"]:
        complain(f"model {result['name']!r} does not work: {result['error']}", result["hint"])
        return
    cost = f", {result['cost']['amount']} {result['cost']['currency']}" if result["cost"] else ""
    said = " ".join(result["answer"].split())
    print(f"{result['name']}: {said!r} in {result['took_ms']} ms, the first piece in {result['first_ms']} ms{cost}")
