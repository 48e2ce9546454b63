"""The tables `[environments.NAME]`: directories of this machine that threads may work in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from cloister.core.errors import InvalidConfig, InvalidInput
from cloister.core.file import Mount

_KEYS = ("path", "mode", "hard_links")


def read_environment_table(key: str, said: object, base: Path) -> Mount:
    """Raises `InvalidConfig`. Whether the directory is there is found out by who opens it."""
    if not isinstance(said, Mapping):
        raise InvalidConfig(key, f"is a table with `path`, not {type(said).__name__}")
    table = cast("Mapping[str, Any]", said)
    unknown = sorted(table.keys() - set(_KEYS))
    if unknown:
        raise InvalidConfig(f"{key}.{unknown[0]}", "is not known", hint=f"there are {', '.join(_KEYS)}")
    path, hard_links = table.get("path"), table.get("hard_links", False)
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidConfig(f"{key}.path", "is the path of a directory", hint='write path = "/srv/repo"')
    if not isinstance(hard_links, bool):
        raise InvalidConfig(f"{key}.hard_links", "is true or false")
    try:
        return Mount(base / Path(path).expanduser(), table.get("mode", "read_only"), hard_links)
    except InvalidInput as error:
        raise InvalidConfig(f"{key}.mode", error.message) from None
