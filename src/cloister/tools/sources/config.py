"""MCP servers from configuration: the `mcpServers` object that many clients share, and `[mcp.NAME]` tables.

    {"mcpServers": {"git": {"command": "mcp-server-git", "args": ["--repository", "."]},
                    "docs": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}

Takes plain data and knows no files. An error begins with the path of its key, so that whoever read the file can say on
which line that is. `${NAME}` stands for a variable of the environment, in `env` and `headers` only, `${NAME:-text}` for
one that may be missing.
"""

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any, cast

from cloister.core.errors import InvalidConfig, InvalidInput
from cloister.tools.sources.held import Held, Value
from cloister.tools.sources.mcp.servers import McpHttp, McpServer, McpStdio

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_BOTH = (
    "namespace tools approval approvals defer_loading connect_timeout_ms call_timeout_ms patience_ms "
    "max_response_bytes concurrency"
).split()
_STDIO = ("command", "args", "env", "cwd")
_HTTP = ("url", "headers")
# What other clients write beside them. `type` is held against what there is; the others say how a client shows it.
_TYPES = {
    "stdio": "command",
    "http": "url",
    "streamable-http": "url",
    "streamable_http": "url",
    "streamableHttp": "url",
}
# What some clients write and is something else here. What asks a person is never taken over in silence.
_ELSEWHERE = {
    "httpUrl": "write `url`",
    "serverUrl": "write `url`",
    "transport": "write `type`, or leave it out",
    "timeout": "write `call_timeout_ms`, in milliseconds",
    "autoApprove": 'write `approvals`: {"TOOL": "none"}',
    "alwaysAllow": 'write `approvals`: {"TOOL": "none"}',
}


def read_mcp_servers(config: object, *, environment: Mapping[str, str] | None = None) -> tuple[McpServer, ...]:
    """The servers of `{"mcpServers": {...}}`, in their order. Other keys beside `mcpServers` are another program's."""
    top = mapping(config, "config")
    if "mcpServers" not in top:
        near = difflib.get_close_matches("mcpServers", [str(key) for key in top], n=1)
        hint = f"did you mean `mcpServers` where it says {near[0]!r}?" if near else '{"mcpServers": {"NAME": {...}}}'
        raise InvalidConfig("mcpServers", "is missing", hint=hint)
    return read_mcp_tables(top["mcpServers"], path="mcpServers", environment=environment)


def read_mcp_tables(
    tables: object, *, path: str = "mcp", environment: Mapping[str, str] | None = None
) -> tuple[McpServer, ...]:
    """The servers of a mapping of names, such as the `[mcp.NAME]` tables of a TOML file. Those that say
    `disabled = true` are left out."""
    variables = os.environ if environment is None else environment
    made: list[McpServer] = []
    spaces: dict[str, str] = {}
    for name, table in mapping(tables, path).items():
        where = f"{path}.{name}"
        server = _server(name, mapping(table, where), where, variables)
        if server is None:
            continue
        if server.space in spaces:
            raise InvalidConfig(
                where,
                f"has the namespace {server.space!r}, and so has {spaces[server.space]!r}",
                hint="rename one of them, or give it a `namespace`",
            )
        spaces[server.space] = name
        made.append(server)
    return tuple(made)


def _server(name: str, table: Mapping[str, Any], path: str, variables: Mapping[str, str]) -> McpServer | None:
    known = [*_BOTH, *_STDIO, *_HTTP, "type", "disabled"]
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"
            hint = _ELSEWHERE.get(key, hint)
            raise InvalidConfig(f"{path}.{key}", "is not known", hint=hint)
    disabled: object = table.get("disabled", False)
    if not isinstance(disabled, bool):
        raise InvalidConfig(f"{path}.disabled", f"is true or false, not {disabled!r}")
    _check_kind(table, path)
    if disabled:
        return None
    options = {key: value for key, value in table.items() if key not in ("type", "disabled")}
    for key in ("env", "headers"):
        if key in options:
            options[key] = held_values(options[key], f"{path}.{key}", variables)
    for key in ("args", "tools"):
        if key in options:
            options[key] = texts(options[key], f"{path}.{key}")
    try:
        return (McpStdio if "command" in table else McpHttp)(name=name, **options)
    except InvalidInput as error:
        raise InvalidConfig(path, error.message, hint=error.hint) from None
    except TypeError as error:
        raise InvalidConfig(path, f"does not fit: {error}") from None


def _check_kind(table: Mapping[str, Any], path: str) -> None:
    for one, others, other in (("command", _HTTP, "url"), ("url", _STDIO, "command")):
        strange = [key for key in others if key in table]
        if one in table and strange:
            raise InvalidConfig(
                f"{path}.{strange[0]}", f"does not go with `{one}`", hint=f"say `{one}` or `{other}`, not both"
            )
    if "command" not in table and "url" not in table:
        raise InvalidConfig(path, "says neither `command` nor `url`", hint="`command` to start it, `url` to reach it")
    said: object = table.get("type")
    if said is None:
        return
    if not isinstance(said, str) or said not in _TYPES:
        hint = "use streamable HTTP: servers that speak only SSE are not supported" if said == "sse" else None
        raise InvalidConfig(f"{path}.type", f"cannot be {said!r}", hint=hint or f"there are {', '.join(_TYPES)}")
    if _TYPES[said] not in table:
        raise InvalidConfig(f"{path}.type", f"is {said!r}, which needs `{_TYPES[said]}`")


def held_values(given: object, path: str, variables: Mapping[str, str]) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for name, value in mapping(given, path).items():
        if callable(value):
            made[name] = cast("Value", value)
        elif not isinstance(value, str):
            raise InvalidConfig(f"{path}.{name}", f"is text, not {type(value).__name__}", hint="put it in quotes")
        else:
            text = _expand(value, f"{path}.{name}", variables)
            # What came from the environment is as good as a secret.
            made[name] = Held(text) if text != value else value
    return made


def _expand(text: str, path: str, variables: Mapping[str, str]) -> str:
    def replace(found: re.Match[str]) -> str:
        read = _NAME.fullmatch(found.group(1))
        if read is None:
            raise InvalidConfig(
                path, f"{found.group()!r} names no variable", hint="write ${NAME} or ${NAME:-otherwise}"
            )
        name, otherwise = read.groups()
        value = variables.get(name) or otherwise
        if value is None:
            raise InvalidConfig(
                path, f"the environment has no variable {name!r}", hint=f"set {name}, or write ${{{name}:-otherwise}}"
            )
        return value

    return _VARIABLE.sub(replace, text)


def texts(given: object, path: str) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple)):
        raise InvalidConfig(path, f"is a list of texts, not {type(given).__name__}")
    parts = cast("list[object]", given)
    for at, part in enumerate(parts):
        if not isinstance(part, str):
            raise InvalidConfig(f"{path}[{at}]", f"is text, not {type(part).__name__}", hint="put it in quotes")
    return tuple(cast("list[str]", parts))


def mapping(given: object, path: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidConfig(path, f"is an object with names, not {type(given).__name__}")
    for key in cast("Mapping[object, Any]", given):
        if not isinstance(key, str):
            raise InvalidConfig(path, f"has the key {key!r}, which is no text")
    return cast("Mapping[str, Any]", given)
