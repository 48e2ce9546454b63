"""Models from configuration: a `[models.NAME]` table, as plain data.

An error begins with the path of its key. `${NAME}` stands for a variable of the environment, in `headers` only; a key
is never written here, but the variable that has it (`api_key_env`).
"""

import difflib
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from cloister.core.errors import InvalidConfig, InvalidInput
from cloister.core.usage import Prices, read_amount
from cloister.threads.models.settings import ModelSettings
from cloister.tools.sources.config import held_values, mapping

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("provider", "model", "wire", "base_url", "api_key_env", "reasoning_summary"), str),
    **dict.fromkeys(("timeout_ms", "idle_timeout_ms", "connect_timeout_ms", "max_retries", "max_retry_wait_ms"), int),
    "max_output_tokens": int,
    **dict.fromkeys(("stream", "images", "tools", "freeform_tools", "cache"), bool),
}
_KEYS = (*_KINDS, "headers", "prices")
_NOUNS: Mapping[type, str] = {str: "text", int: "a whole number", bool: "true or false"}
_PRICES = ("input", "output", "cached", "cache_write", "currency")


def read_model_table(name: str, table: object, *, environment: Mapping[str, str]) -> ModelSettings:
    path = f"models.{name}"
    if _NAME.fullmatch(name) is None:
        raise InvalidConfig(path, "cannot be a name", hint="use letters, digits, dots, underscores and hyphens")
    options = dict(mapping(table, path))
    for key, value in options.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(_KEYS)}"
            if key == "api_key":
                hint = "name the variable that has it: api_key_env"
            raise InvalidConfig(f"{path}.{key}", "is not known", hint=hint)
        # By its very type: true is no number.
        if key in _KINDS and type(value) is not _KINDS[key]:
            raise InvalidConfig(f"{path}.{key}", f"is {_NOUNS[_KINDS[key]]}, not {type(value).__name__}")
    for key in ("provider", "model"):
        if key not in options:
            raise InvalidConfig(path, f"says no `{key}`", hint='provider = "openai", model = "gpt-…"')
    if "headers" in options:
        options["headers"] = held_values(options["headers"], f"{path}.headers", environment)
    if "prices" in options:
        options["prices"] = _prices(options["prices"], f"{path}.prices")
    try:
        return ModelSettings(name=name, **options)
    except InvalidInput as error:
        raise InvalidConfig(path, error.message, hint=error.hint) from None


def _prices(given: object, path: str) -> Prices:
    """Numbers or texts; a text is exact, and a number is taken for what it is written as."""
    said = mapping(given, path)
    amounts: dict[str, Decimal] = {}
    for key, value in said.items():
        if key not in _PRICES:
            raise InvalidConfig(f"{path}.{key}", "is not known", hint=f"there are {', '.join(_PRICES)}")
        if key == "currency":
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise InvalidConfig(f"{path}.{key}", "is a price for a million tokens, such as 0.25")
        try:
            amounts[key] = read_amount(str(value), f"{path}.{key}")
        except InvalidInput as error:
            raise InvalidConfig(f"{path}.{key}", error.message.partition(" ")[2]) from None
    for key in ("input", "output"):
        if key not in amounts:
            raise InvalidConfig(path, f"says no `{key}`", hint="the prices of a million tokens: input and output")
    currency: Any = said.get("currency", "USD")
    if not isinstance(currency, str) or re.fullmatch("[A-Z]{3}", currency) is None:
        raise InvalidConfig(f"{path}.currency", "is three capital letters, such as EUR")
    return Prices(**cast("dict[str, Any]", amounts), currency=currency)
