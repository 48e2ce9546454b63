"""Where configuration is: which files are read, and on which line of one a key stands.

A file that is found because of where the command runs says which programs are started. So one that others than its user
could have written is refused, unless it was named.
"""

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from cloister.core.errors import InvalidConfig

NAME = "cloister.toml"
VARIABLE = "CLOISTER_CONFIG"
_MOST_BYTES = 1 << 20
# A value that goes over more lines than this is found by its first.
_MOST_LINES = 200
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


def user_file(environment: Mapping[str, str]) -> Path:
    """The configuration of this user, or of the installation that `CLOISTER_DATA_DIR` names."""
    if chosen := environment.get("CLOISTER_DATA_DIR"):
        return Path(chosen) / NAME
    base = environment.get("XDG_CONFIG_HOME")
    home = environment.get("HOME")
    return (Path(base) if base else (Path(home) if home else Path.home()) / ".config") / "cloister" / NAME


def project_file(chosen: str | None, environment: Mapping[str, str], here: Path) -> Path | None:
    """The one that was named, or the one of this directory."""
    for name, what in ((chosen, "--config"), (environment.get(VARIABLE), VARIABLE)):
        if name:
            path = Path(name)
            if not path.is_file():
                raise InvalidConfig(what, f"names {name!r}, which is no file", hint="`cloister config init` writes one")
            return path
    found = here / NAME
    if not found.is_file():
        return None
    _check_whose(found)
    return found


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """What it says, and its text. Raises `InvalidConfig` with the line."""
    text = _read(path)
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        message = str(error).split(" (at ")[0]
        if found is None:
            # It ended too early.
            where = f"{path}:{text.count(chr(10)) + 1}"
        else:
            where = f"{path}:{found[1]}:{found[2]}"
            begun = _begun(text, int(found[1]))
            message = f"{message}, in `{begun}`" if begun else message
        raise InvalidConfig(where, f"is not TOML: {message}") from None
    except RecursionError:
        raise InvalidConfig(str(path), "is nested too deeply") from None


def read_json(path: Path) -> tuple[Any, str]:
    text = _read(path)
    try:
        return json.loads(text), text
    except json.JSONDecodeError as error:
        raise InvalidConfig(f"{path}:{error.lineno}:{error.colno}", f"is not JSON: {error.msg}") from None
    except RecursionError:
        raise InvalidConfig(str(path), "is nested too deeply") from None


def toml_line(text: str, path: tuple[str, ...]) -> int | None:
    """The line on which a key stands, or the nearest table above it."""
    lines, table, at, best = text.split("\n"), tuple[str, ...](), 0, (0, None)
    while at < len(lines):
        stripped = lines[at].strip()
        if not stripped or stripped.startswith("#"):
            at += 1
            continue
        said, size = _statement(lines, at)
        if said is not None:
            if stripped.startswith("["):
                table = _first_path(said)
                paths = [table]
            else:
                paths = [table + found for found in _paths(said)]
            for found in paths:
                if found == path[: len(found)] and len(found) > best[0]:
                    best = (len(found), at + 1)
        at += size
    return best[1]


def json_line(text: str, path: tuple[str, ...]) -> int | None:
    """The line on which a key of nested objects stands, or the nearest above it."""
    # The names of the containers that are open; the outermost has none.
    above: list[str] = []
    name, last, best = "", "", None
    for found in _TOKEN.finditer(text):
        word = found.group()
        if word.startswith('"'):
            last = word
        elif word == ":":
            name = cast("str", json.loads(last, strict=False))
            full = (*above[1:], name)
            if full == path[: len(full)]:
                best = text.count("\n", 0, found.start()) + 1
        elif word in "{[":
            above.append(name)
            name = ""
        elif above:
            above.pop()
    return best


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidConfig(str(path), f"cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise InvalidConfig(str(path), f"is larger than {_MOST_BYTES} bytes, and so no configuration")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidConfig(f"{path}:{line}", "is not UTF-8 text") from None


def _check_whose(path: Path) -> None:
    found = path.stat()
    if found.st_uid not in (os.getuid(), 0):
        raise InvalidConfig(
            str(path), "belongs to another user, who could have any program started", hint=f"name it: --config {path}"
        )
    if found.st_mode & stat.S_IWOTH:
        raise InvalidConfig(
            str(path), "can be written by everybody", hint=f"chmod o-w {path}, or name it: --config {path}"
        )


def _begun(text: str, line: int) -> str | None:
    """The key whose value is broken, as far as that can be told."""
    lines = text.split("\n")
    found = re.match(r"\s*([A-Za-z0-9_.\-\"' ]+?)\s*=", lines[line - 1]) if line <= len(lines) else None
    return found[1] if found is not None else None


def _statement(lines: list[str], at: int) -> tuple[dict[str, Any] | None, int]:
    """What is said from that line on, and over how many lines."""
    for size in range(1, min(_MOST_LINES, len(lines) - at) + 1):
        try:
            return tomllib.loads("\n".join(lines[at : at + size])), size
        except tomllib.TOMLDecodeError:
            continue
    return None, 1


def _first_path(said: Mapping[str, Any]) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    inner: Any = said
    while isinstance(inner, (dict, list)) and inner:
        if isinstance(inner, list):
            inner = cast("list[Any]", inner)[0]
            continue
        name, inner = next(iter(cast("dict[str, Any]", inner).items()))
        path = (*path, name)
    return path


def _paths(said: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(said, dict):
        return [above]
    names = cast("dict[str, Any]", said)
    return [above, *(path for name, inner in names.items() for path in _paths(inner, (*above, name)))]
