"""`cloister tools`: what programs may call here, as `--tools` and the configuration say."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cloister.cli.exits import FAILED, OK
from cloister.cli.failures import complain
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.options import AsJson, ConfigFile, GrantOptions, Tools
from cloister.cli.tables import show
from cloister.cli.terminal import one_json_object, safe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cloister.sessions import Session

Speak = Annotated[Literal["python", "typescript"], Parameter(name=["--language", "-l"], help="For programs in it.")]
Name = Annotated[str, Parameter(help="The tool's full name.")]
Query = Annotated[str, Parameter(help="Words that have to do with it.")]
Limit = Annotated[int, Parameter(help="How many at most.")]
_WIDTH = 80


def list_(*, tools: Tools = None, config: ConfigFile = None, as_json: AsJson = False) -> int:
    async def work(session: "Session") -> list[dict[str, Any]]:
        for source in session.sources:
            if source.missing is not None:
                complain(f"source {source.name!r} is not there: {source.missing}")
            for note in source.notes:
                complain(f"source {source.name!r}: {note}")
        return [
            {
                "name": tool.full_name,
                "description": tool.description,
                "side_effect": str(tool.side_effect),
                "deferred": tool.defer_loading,
            }
            for tool in sorted(session.tools, key=lambda one: one.full_name)
        ]

    found = _ask(work, tools, config)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "tools": found})
        return OK
    rows = [(one["name"], one["side_effect"], _first(one["description"])) for one in found]
    show(["tool", "side effect", "description"], rows, "there are no tools: --tools or the configuration names them")
    return OK


def describe(name: Name, /, *, tools: Tools = None, config: ConfigFile = None, as_json: AsJson = False) -> int:
    async def work(session: "Session") -> dict[str, Any]:
        return await session.describe_tool(name)

    found = _ask(work, tools, config)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "tool": found})
        return OK
    import json

    for key, value in found.items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        print(f"{key}: {safe(text)}")
    return OK


def search(
    query: Query, /, *, limit: Limit = 10, tools: Tools = None, config: ConfigFile = None, as_json: AsJson = False
) -> int:
    async def work(session: "Session") -> list[dict[str, Any]]:
        return list(await session.search_tools(query, limit))

    found = _ask(work, tools, config)
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "tools": found})
    else:
        rows = [(one["name"], _first(str(one.get("description") or ""))) for one in found]
        show(["tool", "description"], rows, "nothing has to do with that")
    return OK if found else FAILED


def stubs(*, language: Speak = "python", tools: Tools = None, config: ConfigFile = None) -> int:
    async def work(session: "Session") -> str:
        return session.stubs

    print(safe(_ask(work, tools, config, language)))
    return OK


def _ask(
    work: "Callable[[Session], Awaitable[Any]]", tools: list[str] | None, config: str | None, language: str = "python"
) -> Any:
    from cloister.cli.job import read_terms

    terms = read_terms(GrantOptions(tools=tools, config=config))

    async def done() -> Any:
        async with terms.cloister() as cloister:
            return await work(await cloister.open_session("tools", language=language))

    return run_interruptibly(done())


def _first(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
