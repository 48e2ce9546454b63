"""Core types to and from JSON: snake_case, RFC 3339 times, absent instead of null, unknown fields refused.

Writing needs the standard library only; reading uses pydantic and imports it on first use, because `import
cloister` should not pay for it.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

from cloister.core.capability import ApprovalPolicy, Capability
from cloister.core.errors import CloisterError, InvalidInput
from cloister.core.language import parse_language

T = TypeVar("T")

# Fields that hold a program's own JSON: null means something there, so it is written.
_KEEP_NULL = {"result"}


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-11-16T12:00:00.000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_json(value: Any) -> Any:
    """Plain JSON values for any core type. Bytes are left out: they travel by other ways."""
    if isinstance(value, ApprovalPolicy):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Any] = {}
        for field in fields(value):
            item = getattr(value, field.name)
            if isinstance(item, bytes) or (item is None and field.name not in _KEEP_NULL):
                continue
            out[field.name] = to_json(item)
        return out
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in cast("list[Any]", value)]
    return value


@cache
def _adapter(kind: type[Any]) -> Any:
    # Only reading pays for pydantic: about 100 ms of import that most programs never need.
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(kind, config=None if is_dataclass(kind) else ConfigDict(extra="forbid"))


def _refuse_unknown(kind: type[Any], data: Mapping[str, Any]) -> None:
    known = {field.name for field in fields(kind)}
    unknown = sorted(set(data) - known)
    if unknown:
        names = ", ".join(repr(name) for name in unknown)
        raise InvalidInput(f"{kind.__name__} has no field {names}; it has {', '.join(sorted(known))}")


def from_json(kind: type[T], data: Any) -> T:
    """Read a core type. Raises `InvalidInput` (or the type's own refusal) naming the field."""
    from pydantic import ValidationError

    if not isinstance(data, Mapping):
        raise InvalidInput(f"{kind.__name__} is read from a JSON object, not from {type(data).__name__}")
    data = dict(cast("Mapping[str, Any]", data))
    _refuse_unknown(kind, data)
    if isinstance(data.get("language"), str):
        data["language"] = parse_language(data["language"])
    limits = data.get("limits")
    if isinstance(limits, Mapping):
        limits_kind = next(field.type for field in fields(cast("Any", kind)) if field.name == "limits")
        data["limits"] = from_json(_limits_type(limits_kind), limits)
    if kind is Capability and "approval_policy" in data:
        data["approval_policy"] = ApprovalPolicy.parse(data["approval_policy"])
    try:
        return cast(T, _adapter(kind).validate_python(data, strict=False))
    except ValidationError as refusal:
        first = refusal.errors()[0]
        cause = (first.get("ctx") or {}).get("error")
        if isinstance(cause, CloisterError):
            raise cause from None
        where = ".".join(str(part) for part in first["loc"]) or kind.__name__
        raise InvalidInput(f"{kind.__name__}.{where}: {first['msg']}") from None


def _limits_type(annotation: Any) -> type[Any]:
    from cloister.core.limits import CapabilityLimits, SessionLimits

    return CapabilityLimits if "CapabilityLimits" in str(annotation) else SessionLimits


__all__ = ["format_time", "from_json", "to_json"]
