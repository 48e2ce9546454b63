"""Values as they may be shown: whatever may be a secret is not.

A reference to the environment, `${TOKEN}`, is shown: it says where a secret is, and not what.
"""

import re
from typing import Any, cast

_MASK = "***"
_SECRET_NAME = re.compile(r"auth|cookie|token|secret|passw|credential|api.?key|key$", re.IGNORECASE)
_REFERENCE = re.compile(r"(?:[A-Za-z]+ )?\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_IN_URL = re.compile(r"(?<=://)([^/@\s:]*)(:[^@\s]*)?@")
_IN_QUERY = re.compile(r"([?&][^=&#\s]+=)[^&#\s]+")
# Names of files, which are no secret.
_PATHS = frozenset(["server.tokens"])
# All that is in these is taken for a secret.
_VAULTS = frozenset(["env", "headers", "credentials"])
# The name of a variable, as `api_key_env` has it, is none.
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def masked(key: str, value: Any) -> Any:
    """The value of a key, or a part of one."""
    name = key.rpartition(".")[2]
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        if name in _VAULTS:
            return {one: _hidden(what) for one, what in inner.items()}
        return {one: masked(f"{key}.{one}", what) for one, what in inner.items()}
    if isinstance(value, (list, tuple)):
        parts = list(cast("list[Any]", value))
        return _arguments(parts) if name == "args" else [masked(key, part) for part in parts]
    if isinstance(value, str):
        if _SECRET_NAME.search(name) and "." in key and key not in _PATHS:
            return value if name.endswith("_env") and _VARIABLE.fullmatch(value) else _hidden(value)
        return url(value)
    return value


def url(text: str) -> str:
    """Without a password, and without what is asked for."""
    if "://" not in text:
        return text
    text = _IN_URL.sub(lambda found: f"{found[1]}{':' + _MASK if found[2] else ''}@", text)
    return _IN_QUERY.sub(lambda found: found[1] + _MASK, text) if text.startswith("http") else _passwords(text)


def _passwords(text: str) -> str:
    return re.sub(r"([?&][^=&]*passw[^=&]*=)[^&]+", lambda found: found[1] + _MASK, text, flags=re.IGNORECASE)


def _hidden(value: Any) -> Any:
    return value if isinstance(value, str) and _REFERENCE.fullmatch(value) else _MASK


def _arguments(parts: list[Any]) -> list[Any]:
    """Of a command line: `--token X` and `--token=X` are secrets."""
    shown: list[Any] = []
    is_next = False
    for part in parts:
        name, equals, _ = part.partition("=") if isinstance(part, str) else ("", "", "")
        looks = bool(_SECRET_NAME.search(name.lstrip("-"))) and (name.startswith("-") or bool(equals))
        if is_next:
            shown.append(_hidden(part))
        elif looks and equals:
            shown.append(f"{name}={_MASK}")
        else:
            shown.append(url(part) if isinstance(part, str) else part)
        is_next = looks and not equals and not is_next
    return shown
