"""APIs from configuration: an `[openapi.NAME]` table, as plain data.

An error begins with the path of its key. `${NAME}` stands for a variable of the environment, in `credentials` only.
"""

import difflib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from cloister.core.errors import InvalidConfig, InvalidInput
from cloister.tools.sources.config import held_values, mapping, texts
from cloister.tools.sources.openapi.api import OpenApi

_KEYS = tuple(one.name for one in fields(OpenApi) if one.name != "name")
_LISTS = ("hosts", "private", "tools")
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("document", "namespace", "base_url"), str),
    **dict.fromkeys(("timeout_ms", "max_response_bytes", "concurrency"), int),
    **dict.fromkeys(("defer_loading", "typed_responses"), bool),
}
_NOUNS: Mapping[type, str] = {str: "text", int: "a whole number", bool: "true or false"}


def read_openapi_table(name: str, table: object, *, base: Path, environment: Mapping[str, str]) -> OpenApi:
    """A document that is a path is looked for from `base`."""
    path = f"openapi.{name}"
    options = dict(mapping(table, path))
    for key in options:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(_KEYS)}"
            raise InvalidConfig(f"{path}.{key}", "is not known", hint=hint)
    if "document" not in options:
        raise InvalidConfig(path, "says no `document`", hint='document = "shop.yaml", or its URL')
    for key, value in options.items():
        # By its very type: true is no number.
        if key in _KINDS and type(value) is not _KINDS[key]:
            raise InvalidConfig(f"{path}.{key}", f"is {_NOUNS[_KINDS[key]]}, not {type(value).__name__}")
    for key in _LISTS:
        if key in options:
            options[key] = texts(options[key], f"{path}.{key}")
    if "approvals" in options:
        options["approvals"] = mapping(options["approvals"], f"{path}.approvals")
    if "credentials" in options:
        options["credentials"] = held_values(options["credentials"], f"{path}.credentials", environment)
    document = options["document"]
    if not document.lower().startswith(("http://", "https://")):
        options["document"] = base / Path(document).expanduser()
    try:
        return OpenApi(name=name, **options)
    except InvalidInput as error:
        raise InvalidConfig(path, error.message, hint=error.hint) from None
