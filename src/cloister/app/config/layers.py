"""Layers of configuration, and what they come to: the nearest one that says something is the one that counts.

A flag comes before the environment, that before the project's file, that before the user's, that before the default.
Deny rules of all of them hold: who is nearer cannot allow what somebody else has denied.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from cloister.app.config.keys import KEYS, NAMED, TABLES, checked, from_text, known
from cloister.app.config.places import json_line, read_toml, toml_line
from cloister.core.errors import InvalidConfig

Layer = Literal["flag", "environment", "project", "user", "default"]


@dataclass(frozen=True, slots=True)
class Source:
    """A file, to say where in it something is."""

    path: Path
    text: str = field(repr=False)
    language: Literal["toml", "json"] = "toml"

    def at(self, path: tuple[str, ...]) -> str:
        line = (toml_line if self.language == "toml" else json_line)(self.text, path)
        return f"{self.path}:{line}" if line is not None else str(self.path)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who said it. `where` is a file with its line, or a variable's name."""

    layer: Layer
    where: str | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Item:
    key: str
    value: Any
    origin: Origin


DEFAULT = Origin("default")


def from_file(path: Path, layer: Layer) -> dict[str, Item]:
    """What a file says, checked."""
    said, text = read_toml(path)
    source = Source(path, text)
    items: dict[str, Item] = {}
    for parts, value in _leaves(said, source):
        try:
            key = known(parts)
            value = checked(key, value)
        except InvalidConfig as error:
            raise located(error, source) from None
        items[key.name] = Item(key.name, value, Origin(layer, source.at(parts), source))
    return items


def from_environment(environment: Mapping[str, str]) -> dict[str, Item]:
    items: dict[str, Item] = {}
    for key in KEYS.values():
        text = environment.get(key.variable)
        if not text:
            continue
        try:
            value = checked(key, from_text(key, text))
        except InvalidConfig as error:
            said = error.message.removeprefix(f"{error.path}: ")
            raise InvalidConfig(key.variable, said, hint=error.hint) from None
        items[key.name] = Item(key.name, value, Origin("environment", key.variable))
    return items


def together(layers: list[dict[str, Item]]) -> dict[str, Item]:
    """All there is, the nearest layer first."""
    items: dict[str, Item] = {}
    for layer in layers:
        for name, item in layer.items():
            if name not in items:
                items[name] = item
            elif name in KEYS and KEYS[name].adds_up:
                nearer = items[name]
                where = f"{nearer.origin.where} and {item.origin.where}"
                value = tuple(dict.fromkeys((*nearer.value, *item.value)))
                items[name] = Item(name, value, Origin(nearer.origin.layer, where))
    for key in KEYS.values():
        items.setdefault(key.name, Item(key.name, key.default, DEFAULT))
    return items


def located(error: InvalidConfig, source: Source, above: tuple[str, ...] = ()) -> InvalidConfig:
    """The error, with the file and the line of its key."""
    path = (*above, *error.path.replace("[", ".[").split("."))
    reason = error.message.removeprefix(f"{error.path}: ")
    return InvalidConfig(f"{source.at(path)}: {error.path}", reason, hint=error.hint)


def _leaves(said: Mapping[str, Any], source: Source) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in said.items():
        if name not in NAMED and name not in TABLES:
            yield (name,), value
            continue
        if not isinstance(value, dict):
            reason = f"is a table, [{name}]" if name in TABLES else f"has a table for each name, such as [{name}.NAME]"
            if name == "approvals":
                reason = 'is a table of names, such as "shop.refund" = "manual"'
            raise located(InvalidConfig(name, reason), source)
        for inner, deeper in cast("dict[str, Any]", value).items():
            yield (name, inner), deeper
