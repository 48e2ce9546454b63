"""The keys of a configuration: what each is called, what kind of value it has, and what it is if nobody says so.

A key is a dotted path. The tables in `NAMED` have names of the user's below them; one of those is a value as a whole.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from cloister.core.cell import CellLimits
from cloister.core.errors import InvalidConfig, InvalidInput
from cloister.core.event import EventRetention
from cloister.core.file import FileLimits
from cloister.core.limits import SessionLimits
from cloister.core.serving import ServerLimits

Kind = Literal["text", "number", "switch", "texts", "table"]

# Tables whose names are the user's.
NAMED = ("approvals", "environments", "mcp", "models", "openapi", "plugins")
TYPE_CHECKS = ("strict", "warn", "off")
DURABILITIES = ("none", "cell", "call")
_NOUNS = {"text": "text", "number": "a whole number", "switch": "true or false", "texts": "a list of texts"}


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    default: Any = None
    choices: tuple[str, ...] = ()
    # Raises `InvalidInput`.
    check: Callable[[Any], object] | None = None
    # Each file and the environment add to it, instead of saying it anew.
    adds_up: bool = False

    @property
    def variable(self) -> str:
        return "CLOISTER_" + self.name.replace(".", "_").upper()


def _bounds(table: str, of: type[Any]) -> list[Key]:
    made: list[Key] = []
    for field in fields(of):

        def check(value: object, name: str = field.name) -> object:
            return of(**{name: value})

        made.append(Key(f"{table}.{field.name}", "number", getattr(of(), field.name), check=check))
    return made


def _check_rule(rules: object) -> None:
    # Imported here: rules take their time, and most hosts have none.
    from cloister.tools.rule import Rule

    for rule in cast("list[str]", rules):
        Rule.compile(rule, what="the deny rule")


def _at_least_one(value: int) -> None:
    if value < 1:
        raise InvalidInput(f"must be at least 1, not {value}")


def _a_port(value: int) -> None:
    if not 0 <= value <= 65535:
        raise InvalidInput(f"must be between 0 and 65535, not {value}")


def _a_url(value: str) -> None:
    if not value.startswith(("http://", "https://")):
        # It is not repeated: there may be a password in it.
        raise InvalidInput("must begin with http:// or https://")


KEYS: Mapping[str, Key] = {
    key.name: key
    for key in [
        Key("store", "text"),
        Key("durability", "text", "call", DURABILITIES),
        Key("workers", "number", check=_at_least_one),
        Key("type_check", "text", "warn", TYPE_CHECKS),
        Key("require_confinement", "switch", False),
        Key("tools", "texts", ()),
        Key("mcp_servers", "text"),
        Key("deny", "texts", (), check=_check_rule, adds_up=True),
        Key("approval_ttl_ms", "number", check=_at_least_one),
        *_bounds("limits", SessionLimits),
        *_bounds("cells", CellLimits),
        *_bounds("files", FileLimits),
        *_bounds("events", EventRetention),
        Key("server.host", "text", "127.0.0.1"),
        Key("server.port", "number", 8787, check=_a_port),
        Key("server.tokens", "text"),
        Key("server.hosts", "texts", ()),
        Key("server.origins", "texts", ()),
        *_bounds("server", ServerLimits),
        Key("threads.model", "text"),
        Key("threads.models", "texts", ()),
        Key("telemetry.enabled", "switch"),
        Key("telemetry.endpoint", "text", check=_a_url),
        Key("telemetry.content", "switch", False),
    ]
}
TABLES = tuple(dict.fromkeys(name.partition(".")[0] for name in KEYS if "." in name))


def known(path: tuple[str, ...]) -> Key:
    """The key of that path. Raises `InvalidConfig` with what it may have meant."""
    name = ".".join(path)
    if len(path) == 2 and path[0] in NAMED:
        return Key(name, "table")
    if name in KEYS:
        return KEYS[name]
    space = path[0] + "." if path[0] in TABLES else ""
    there = [one for one in (*KEYS, *NAMED) if one.startswith(space)]
    near = difflib.get_close_matches(name, there, n=1) or [
        one for one in KEYS if one.rpartition(".")[2] == path[-1] and one != name
    ]
    tops = [one for one in (*KEYS, *NAMED, *TABLES) if "." not in one]
    hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(there if space else tops)}"
    raise InvalidConfig(name, "is not known", hint=hint)


def checked(key: Key, value: object) -> Any:
    """The value, if it fits its key. Raises `InvalidConfig`."""
    if not _is(key.kind, value):
        raise InvalidConfig(key.name, f"is {_NOUNS.get(key.kind, 'a table')}, not {_said(value)}")
    if key.choices and value not in key.choices:
        near = difflib.get_close_matches(str(value), key.choices, n=1)
        hint = f"did you mean {near[0]!r}?" if near else None
        raise InvalidConfig(key.name, f"is one of {', '.join(key.choices)}, not {value!r}", hint=hint)
    if key.check is not None:
        try:
            key.check(value)
        except InvalidConfig:
            raise
        except InvalidInput as error:
            message = error.message.removeprefix(key.name.rpartition(".")[2]).strip()
            raise InvalidConfig(key.name, message, hint=error.hint) from None
    return tuple(cast("list[str]", value)) if key.kind == "texts" else value


def from_text(key: Key, text: str) -> object:
    """What a variable of the environment says, still to be checked."""
    match key.kind:
        case "number":
            return int(text) if text.lstrip("-").isdecimal() and text.isascii() else text
        case "switch":
            return {"1": True, "true": True, "0": False, "false": False}.get(text.lower(), text)
        case "texts":
            return [part.strip() for part in text.split(",") if part.strip()]
        case _:
            return text


def _is(kind: Kind, value: object) -> bool:
    match kind:
        case "text":
            return isinstance(value, str) and bool(value)
        case "number":
            return isinstance(value, int) and not isinstance(value, bool)
        case "switch":
            return isinstance(value, bool)
        case "texts":
            return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[object]", value))
        case "table":
            return True


def _said(value: object) -> str:
    return repr(value) if isinstance(value, (str, int, float, bool)) and len(repr(value)) < 80 else type(value).__name__
