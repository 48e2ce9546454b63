"""`cloister mcp add|list|test`: MCP servers in the configuration, and whether they can be talked to."""

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cloister.cli.exits import FAILED, OK
from cloister.cli.failures import UsageError, complain
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.kept.where import tell
from cloister.cli.options import AsJson, ConfigFile
from cloister.cli.tables import show
from cloister.cli.terminal import one_json_object

if TYPE_CHECKING:
    from cloister.tools.sources import McpServer

ServerName = Annotated[str, Parameter(help="What it is called; its tools have this as their namespace.")]
Program = Annotated[
    str,
    Parameter(help="The program that starts it, after --; or its URL.", allow_leading_hyphen=True),
]
Env = Annotated[
    list[str] | None,
    Parameter(negative="", metavar="NAME=VALUE", help="Of its environment; '${TOKEN}' refers to ours. Repeatable."),
]
Header = Annotated[
    list[str] | None,
    Parameter(negative="", metavar="NAME=VALUE", help="Sent along to a URL; '${TOKEN}' refers to the environment."),
]
Into = Annotated[
    str | None,
    Parameter(name="--config", metavar="FILE", help="The file that it is added to.  [default: ./cloister.toml]"),
]
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def add(
    name: ServerName,
    /,
    *program: Program,
    env: Env = None,
    header: Header = None,
    config: Into = None,
    as_json: AsJson = False,
) -> int:
    from cloister.app.config.places import read_toml
    from cloister.cli.kept.session import write_whole
    from cloister.tools.sources import read_mcp_tables

    table = _table(program, _pairs(env, "--env"), _pairs(header, "--header"))
    # References are looked up when it is started, not now.
    read_mcp_tables({name: table}, environment=_Anything())
    path = Path(config or "cloister.toml")
    said, text = read_toml(path) if path.exists() else ({}, "")
    if name in said.get("mcp", {}):
        raise UsageError(f"{path} has [mcp.{name}] already", "change it there")
    written = f"{text.rstrip()}\n\n" if text.strip() else ""
    write_whole(path, (written + _toml(name, table)).encode(), over=True)
    # What was added must be read as it was meant.
    assert read_toml(path)[0]["mcp"][name] == table
    tell(as_json, {"file": str(path), "server": name}, f"{path} has [mcp.{name}]; cloister mcp test {name} tries it")
    return OK


def list_(*, config: ConfigFile = None, as_json: AsJson = False) -> int:
    from cloister.app.config import load_config
    from cloister.app.config.masking import masked

    items = load_config(config).server_items()
    told: list[dict[str, Any]] = [
        {"name": item.key.partition(".")[2], "where": item.origin.where, "server": masked(item.key, item.value)}
        for item in items
    ]
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "servers": told})
        return OK
    rows = [(one["name"], _how(one["server"]), one["where"]) for one in told]
    show(["server", "how", "said in"], rows, "there are no MCP servers; cloister mcp add names one")
    return OK


def try_(
    name: Annotated[str | None, Parameter(help="Only this one.  [default: all]")] = None,
    /,
    *,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> int:
    from cloister.app.config import load_config

    servers = load_config(config).servers()
    chosen = [one for one in servers if name in (None, one.name)]
    if name is not None and not chosen:
        there = ", ".join(one.name for one in servers) or "none"
        raise UsageError(f"there is no MCP server {name!r} in the configuration", f"there are {there}")
    results = [run_interruptibly(_try(server)) for server in chosen]
    if as_json:
        with one_json_object() as write:
            write({"ok": all(one["ok"] for one in results), "servers": results})
    else:
        for one in results:
            _say(one)
        if not results:
            complain("there are no MCP servers", "cloister mcp add names one")
    return OK if all(one["ok"] for one in results) else FAILED


async def _try(server: "McpServer") -> dict[str, Any]:
    from cloister.tools.sources import McpSource

    began = time.monotonic()
    try:
        async with McpSource(server) as source:
            manifests = await source.manifests()
            tools = [{"name": f"{server.space}.{one.name}", "description": one.description} for one in manifests]
            return {
                "name": server.name,
                "ok": True,
                "tools": tools,
                "took_ms": round((time.monotonic() - began) * 1000),
            }
    # Containment: a server may fail in any way, and saying how is what this command is for.
    except Exception as error:  # noqa: BLE001
        return {"name": server.name, "ok": False, "error": getattr(error, "message", None) or str(error)}


def _say(result: dict[str, Any]) -> None:
    if not result["ok"]:
        complain(f"MCP server {result['name']!r} does not work: {result['error']}")
        return
    print(f"{result['name']}: {len(result['tools'])} tools in {result['took_ms']} ms")
    rows = [(one["name"], one["description"].strip().partition("\n")[0][:80]) for one in result["tools"]]
    show(["tool", "description"], rows, "it has no tools")


class _Anything(dict[str, str]):
    """An environment in which every variable has a value."""

    def get(self, _key: str, _default: Any = None) -> Any:
        return "x"


def _table(program: tuple[str, ...], env: dict[str, str], header: dict[str, str]) -> dict[str, Any]:
    if not program:
        raise UsageError(
            "nothing says how it is started or where it is",
            "cloister mcp add git -- mcp-server-git --repository . ; cloister mcp add docs https://example.com/mcp",
        )
    first, *arguments = program
    if first.startswith(("http://", "https://")):
        if arguments or env:
            raise UsageError("a URL has no arguments and no environment", "leave them out, or name a program")
        return {"url": first, **({"headers": header} if header else {})}
    if first.startswith("-"):
        # Other clients have options there, and what was written down would fail only when it is started.
        raise UsageError(
            f"{first!r} is no option of cloister mcp add, and no program",
            "cloister mcp add docs https://example.com/mcp names a URL; a program comes after --",
        )
    if header:
        raise UsageError("headers go with a URL", "give --env to a program")
    made: dict[str, Any] = {"command": first}
    if arguments:
        made["args"] = arguments
    return made | ({"env": env} if env else {})


def _pairs(given: list[str] | None, what: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            # Somebody may have written a secret there: it is not repeated.
            raise UsageError(f"{what} takes NAME=VALUE", f"{what} 'TOKEN=${{TOKEN}}' takes it from the environment")
        made[name] = value
    return made


def _toml(name: str, table: dict[str, Any]) -> str:
    lines = [f"[mcp.{_key(name)}]"]
    for key, value in table.items():
        if isinstance(value, dict):
            inner: dict[str, str] = value  # pyright: ignore[reportUnknownVariableType]
            pairs = ", ".join(f"{_key(one)} = {_text(what)}" for one, what in inner.items())
            lines.append(f"{key} = {{ {pairs} }}")
        elif isinstance(value, list):
            parts: list[str] = value  # pyright: ignore[reportUnknownVariableType]
            lines.append(f"{key} = [{', '.join(map(_text, parts))}]")
        else:
            lines.append(f"{key} = {_text(value)}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    # A JSON text is a TOML text, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _how(server: dict[str, Any]) -> str:
    if "url" in server:
        return str(server["url"])
    return " ".join([str(server.get("command", "")), *map(str, server.get("args", []))])
