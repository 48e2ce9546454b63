"""Core types to and from JSON: snake_case, RFC 3339 times, absent instead of null, unknown fields refused.

What was stored or received, and may be of a newer version, is read by `keep_json`: a type with a field `extra` keeps
there what it does not know, and writes it again beside its own fields.

Writing needs the standard library only; reading uses pydantic and imports it on first use, because `import
cloister` should not pay for it.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import Enum, StrEnum
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

from cloister.core.capability import ApprovalPolicy, Capability
from cloister.core.errors import CloisterError, InvalidInput
from cloister.core.language import parse_language

T = TypeVar("T")

# Fields that hold a program's own JSON: null means something there, so it is written.
_KEEP_NULL = {"arguments", "result"}


# Where a type keeps the fields that it does not know.
_EXTRA = "extra"
# Most of what there is; every call's record is written with this.
_PLAIN = frozenset({str, int, float, bool, type(None)})


@cache
def _names(kind: type[Any]) -> tuple[str, ...] | None:
    """The fields of a dataclass; None for all else."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-11-16T12:00:00.000Z`."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    # Without the `+00:00` at its end.
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


def to_json(value: Any) -> Any:
    """Plain JSON values for any core type. Bytes are left out: they travel by other ways."""
    kind = cast("type[Any]", type(value))
    if kind in _PLAIN:
        return value
    if isinstance(value, ApprovalPolicy):
        return value.to_json()
    if (names := _names(kind)) is not None:
        out: dict[str, Any] = {}
        for name in names:
            item = getattr(value, name)
            if type(item) in _PLAIN:
                if item is not None or name in _KEEP_NULL:
                    out[name] = item
            elif name == _EXTRA:
                # What is called as a field of ours is not taken for it.
                out |= {key: part for key, part in to_json(item).items() if key == _EXTRA or key not in names}
            elif isinstance(item, StrEnum):
                out[name] = item.value
            elif not isinstance(item, bytes):
                out[name] = to_json(item)
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
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a dataclass's fields; None for those with no dataclass in them, which need no look."""
    return {name: hint if _has_fields(hint) else None for name, hint in get_type_hints(kind).items()}


@cache
def _has_fields(hint: Any) -> bool:
    return (isinstance(hint, type) and is_dataclass(hint)) or any(map(_has_fields, get_args(hint)))


def _refuse_unknown(hint: Any, data: Any, where: str, *, extra: bool = False) -> None:
    """Walk the type and the data side by side; an unknown field anywhere is refused by name. With `extra` such fields
    have been put there already."""
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(data, Mapping):
        hints = _hints(hint)
        given = cast("Mapping[str, Any]", data)
        unknown = given.keys() - hints.keys()
        if not extra and _EXTRA in hints and _EXTRA in given:
            unknown.add(_EXTRA)
        if unknown:
            known = hints.keys() if extra else hints.keys() - {_EXTRA}
            names = ", ".join(repr(name) for name in sorted(unknown))
            raise InvalidInput(f"{where} has no field {names}; it has {', '.join(sorted(known))}")
        for name, item in given.items():
            if hints[name] is not None:
                _refuse_unknown(hints[name], item, f"{where}.{name}", extra=extra)
        return
    for inner in get_args(hint):
        parts = cast("list[Any]", data) if isinstance(data, list) else [data]
        for part in parts:
            _refuse_unknown(inner, part, where, extra=extra)


def from_json(kind: type[T], data: Any) -> T:
    """Read a core type. Raises `InvalidInput` (or the type's own refusal) naming the field."""
    data = _object(kind, data)
    policy = data.pop("approval_policy", None) if kind is Capability else None
    _refuse_unknown(kind, data, kind.__name__)
    made = _validated(kind, data)
    return cast(T, replace(made, approval_policy=ApprovalPolicy.parse(policy)) if policy is not None else made)


def keep_json(kind: type[T], data: Any) -> T:
    """Read a core type that was stored or received: fields that it does not know go to its `extra`, and are refused
    where it has none."""
    data = _set_apart(kind, _object(kind, data))
    _refuse_unknown(kind, data, kind.__name__, extra=True)
    return cast(T, _validated(kind, data))


def _set_apart(hint: Any, data: Any) -> Any:
    """The data with what its types do not know under `extra`, at every level."""
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(data, Mapping):
        hints = _hints(hint)
        given = cast("Mapping[str, Any]", data)
        if _EXTRA not in hints:
            return {name: _set_apart(hints.get(name), part) for name, part in given.items()}
        own: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, part in given.items():
            if name == _EXTRA or name not in hints:
                extra[name] = part
            else:
                # All that a store has is read with this, and most fields have nothing in them to be set apart.
                own[name] = part if (inner := hints[name]) is None else _set_apart(inner, part)
        own[_EXTRA] = extra
        return own
    for inner in get_args(hint):
        if _has_fields(inner):
            if isinstance(data, list):
                return [_set_apart(inner, part) for part in cast("list[Any]", data)]
            return _set_apart(inner, data)
    return data


def _object(kind: type[Any], data: Any) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{kind.__name__} is read from a JSON object, not from {type(data).__name__}")
    return dict(cast("Mapping[str, Any]", data))


def _validated(kind: type[Any], data: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    if data.get("language") is not None:
        data["language"] = parse_language(data["language"])
    try:
        # As JSON, strictly: text is no number and true is no 1, but texts become times and enums.
        return _adapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as refusal:
        first = refusal.errors()[0]
        cause = (first.get("ctx") or {}).get("error")
        if isinstance(cause, CloisterError):
            raise cause from None
        where = ".".join(str(part) for part in first["loc"]) or kind.__name__
        raise InvalidInput(f"{kind.__name__}.{where}: {first['msg']}") from None
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{kind.__name__} cannot be read: {error}") from None


__all__ = ["format_time", "from_json", "keep_json", "to_json"]
