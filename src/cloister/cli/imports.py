"""Tools by name: `module:attribute` to the functions that a program may call."""

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

from cloister.cli.failures import DEBUG_VARIABLE, UsageError, debugging
from cloister.core.errors import CloisterError
from cloister.tools import Tool, ToolRegistry

_PLACES = "modules are looked for in the current directory and in the environment that cloister is installed in"


def import_tools(names: Sequence[str], beside: Path | None = None) -> list[object]:
    """All tools that the `--tools` options name, in order. Modules are found in the current directory, and in `beside`
    before it."""
    if not names:
        return []
    for place in (os.getcwd(), str(beside) if beside is not None else None):
        if place is not None and place not in sys.path:
            sys.path.insert(0, place)
    return [found for name in names for found in _tools_of(name)]


def _tools_of(name: str) -> list[object]:
    module_name, colon, attribute = name.partition(":")
    if not module_name or (colon and not attribute):
        raise UsageError(f"--tools {name!r} is not MODULE or MODULE:ATTRIBUTE", "for example --tools shop:get_order")
    if "/" in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise UsageError(f"--tools {name} is a file", f"write the module's name: --tools {dotted}{colon}{attribute}")
    target: object = _import(module_name, name)
    for part in attribute.split(".") if attribute else ():
        target = _attribute(target, part, name)
    if isinstance(target, ModuleType):
        return _decorated(target, name)
    if isinstance(target, Tool) or (callable(target) and not isinstance(target, type)):
        return [target]
    if isinstance(target, (list, tuple, set, frozenset, ToolRegistry)):
        tools = list(cast("Iterable[object]", target))
        strange = next((item for item in tools if not callable(item)), None)
        if strange is not None:
            raise UsageError(f"--tools {name}: {strange!r} in it is not a function")
        return tools
    raise UsageError(
        f"--tools {name} is no tool: it has the type {type(target).__name__}",
        "name a function, a list of functions, or a module",
    )


def _import(module_name: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UsageError(f"--tools {name}: there is no module {error.name!r}", _PLACES) from None
        raise _broken(name, error) from None
    # Containment: a user's module may do anything while it is imported.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        raise _broken(name, error) from None


def _broken(name: str, error: BaseException) -> UsageError:
    if debugging():
        traceback.print_exception(error)
    if isinstance(error, CloisterError):
        # A tool that was declared wrongly; it says itself what to do.
        return UsageError(f"--tools {name}: {error.message}", error.hint or f"{DEBUG_VARIABLE}=1 shows where")
    return UsageError(
        f"--tools {name}: importing it failed: {type(error).__name__}: {error}", f"{DEBUG_VARIABLE}=1 shows where"
    )


def _attribute(owner: object, part: str, name: str) -> object:
    try:
        return getattr(owner, part)
    except AttributeError:
        close = difflib.get_close_matches(part, [known for known in dir(owner) if not known.startswith("_")], n=1)
        hint = f"did you mean {close[0]!r}?" if close else None
        raise UsageError(f"--tools {name}: there is no {part!r} in it", hint) from None


def _decorated(module: ModuleType, name: str) -> list[object]:
    # One tool under two names is one tool.
    tools = {id(item): item for item in vars(module).values() if isinstance(item, Tool)}
    if not tools:
        raise UsageError(
            f"--tools {name}: the module has no @tool functions",
            f"decorate them with @cloister.tool, or name one: --tools {name.partition(':')[0]}:function",
        )
    return list(tools.values())
