"""A tool's signature as a TypeScript program writes the call, for hints.

Local `$ref` only; what cannot be said in a line becomes `unknown`.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from cloister.core.capability import Capability

_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_MAX_DEPTH = 4


def typescript_signature(capability: Capability) -> str:
    """`get_order({order_id: string, limit?: number}): Promise<{id: string}>`"""
    schema = capability.input_schema
    result = _type(capability.output_schema, capability.output_schema, 0)
    if schema.get("type") != "object":
        return f"{capability.full_name}(...args: unknown[]): Promise<{result}>"
    given = _type(schema, schema, 0) if schema.get("properties") else ""
    return f"{capability.full_name}({given}): Promise<{result}>"


def _type(schema: Any, root: Mapping[str, Any], depth: int) -> str:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return "unknown"
    part = cast("Mapping[str, Any]", schema)
    if isinstance(part.get("$ref"), str):
        return _type(_target(part["$ref"], root), root, depth + 1)
    literals: Any = [part["const"]] if "const" in part else part.get("enum")
    if isinstance(literals, list):
        return " | ".join(json.dumps(value) for value in cast("list[Any]", literals)[:10]) or "never"
    for word in ("anyOf", "oneOf"):
        if isinstance(part.get(word), list) and part[word]:
            return " | ".join(dict.fromkeys(_type(one, root, depth + 1) for one in part[word][:10]))
    kind = part.get("type")
    if kind == "array":
        inner = _type(part.get("items"), root, depth + 1)
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind == "object":
        return _object(part, root, depth)
    return _PLAIN.get(kind, "unknown") if isinstance(kind, str) else "unknown"


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return f"Record<string, {_type(schema.get('additionalProperties'), root, depth + 1)}>"
    required = schema.get("required")
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    rows: list[str] = []
    for name, one in list(cast("Mapping[str, Any]", properties).items())[:30]:
        written = name if name.isidentifier() else json.dumps(name)
        rows.append(f"{written}{'' if name in needed else '?'}: {_type(one, root, depth + 1)}")
    return "{" + ", ".join(rows) + "}"


def _target(ref: str, root: Mapping[str, Any]) -> Any:
    target: Any = root if ref.startswith("#/") else None
    for word in ref[2:].split("/"):
        if not isinstance(target, Mapping):
            return None
        target = cast("Mapping[str, Any]", target).get(word.replace("~1", "/").replace("~0", "~"))
    return target
