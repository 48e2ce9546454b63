"""Plugins by name: those that are shipped, and those that other packages announce under `cloister.plugins`."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from cloister.core.errors import InvalidInput
from cloister.sessions.plugins.notes import Notes
from cloister.sessions.plugins.plugin import Plugin
from cloister.sessions.plugins.web import Web

GROUP = "cloister.plugins"
_Factory: TypeAlias = Callable[..., Plugin]
_SHIPPED: dict[str, _Factory] = {"notes": Notes, "web": Web}


def parse_plugins(value: object) -> tuple[Plugin, ...]:
    """Plugins, names of plugins, and names with options: `["notes", ("web", {"allow": [...]}), Mine()]`. Raises
    `InvalidInput`."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise InvalidInput(f"plugins are a list of them, not {type(value).__name__}", hint='write plugins=["notes"]')
    found = tuple(_parse(one) for one in cast("Iterable[Any]", value))
    check_plugin_names(found)
    return found


def check_plugin_names(plugins: Iterable[Plugin]) -> None:
    seen: set[str] = set()
    for plugin in plugins:
        if plugin.name in seen:
            raise InvalidInput(f"the plugin {plugin.name!r} is there twice: leave one out")
        seen.add(plugin.name)


def _parse(given: Any) -> Plugin:
    match given:
        case str():
            return _made(given, {})
        case (str(name), dict()):
            return _made(name, cast("dict[str, Any]", given[1]))
        case _ if not isinstance(given, type) and callable(getattr(given, "attach", None)) and _is_named(given):
            return given
        case _:
            raise InvalidInput(
                f"{given!r} is not a plugin",
                hint="give its name, (name, options), or an object with a name and a method attach(context)",
            )


def _is_named(given: Any) -> bool:
    name = getattr(given, "name", None)
    return isinstance(name, str) and bool(name)


def _made(name: str, options: Mapping[str, Any]) -> Plugin:
    made: Any
    try:
        factory = _factory(name)
        _check_options(name, factory, options)
        made = factory(**options)
    except InvalidInput:
        raise
    # Whatever a package does when it is loaded, the host asked for it by name and is told so.
    except Exception as error:
        raise InvalidInput(f"the plugin {name!r} cannot be made: {error}") from error
    if not _is_named(made) or not callable(getattr(made, "attach", None)):
        raise InvalidInput(f"what is announced as the plugin {name!r} is none: {made!r}")
    return made


def _check_options(name: str, factory: _Factory, options: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        # It does not say what it takes.
        return
    try:
        signature.bind(**options)
    except TypeError as error:
        known = ", ".join(signature.parameters)
        hint = f"its options are {known}" if known else "it has no options"
        raise InvalidInput(f"the plugin {name!r} cannot be made: {error}", hint=hint) from None


def _factory(name: str) -> _Factory:
    if name in _SHIPPED:
        return _SHIPPED[name]
    from importlib.metadata import entry_points

    announced = {point.name: point for point in entry_points(group=GROUP)}
    if name not in announced:
        known = sorted([*_SHIPPED, *announced])
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
        raise InvalidInput(f"there is no plugin {name!r}", hint=hint)
    return announced[name].load()
