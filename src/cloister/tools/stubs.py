"""Python stubs from JSON Schema: what a type checker reads about a session's tools.

One schema tree in, text out. Local `$ref` only. What cannot be said becomes `Any`, never an error; depth and
size are bounded, so a schema from anywhere can be given.
"""

import keyword
from collections.abc import Mapping, Sequence
from typing import Any, cast

from cloister.core.capability import Capability

HEADER = "from typing import Any, Literal, NotRequired, TypedDict\n"
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_MAX_DEPTH = 12
_MAX_CLASSES = 40
# Parts of one schema that are looked at; unions of unions multiply.
_MAX_WORK = 2000

Schema = Mapping[str, Any]


class _Renderer:
    """Renders the schemas of one capability; collects the TypedDicts that they need."""

    def __init__(self, prefix: str, root: Schema) -> None:
        self._prefix = prefix
        self._root = root
        self._defs: dict[str, str] = {}
        self._work = 0
        self.classes: list[str] = []

    def type_of(self, schema: Any, hint: str, depth: int = 0) -> str:
        self._work += 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._work > _MAX_WORK:
            return "Any"
        schema = cast(Schema, schema)
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]), depth)
        if "const" in schema:
            return _literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _literal(cast("list[Any]", schema["enum"]))
        for word in ("anyOf", "oneOf"):
            options = schema.get(word)
            if isinstance(options, list) and options:
                return self._union(cast("list[Any]", options), hint, depth)
        if isinstance(schema.get("allOf"), list) and len(cast("list[Any]", schema["allOf"])) == 1:
            return self.type_of(cast("list[Any]", schema["allOf"])[0], hint, depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = dict.fromkeys(one for one in cast("list[Any]", kind) if isinstance(one, str))
            return self._union([{**schema, "type": one} for one in kinds], hint, depth)
        if kind == "array":
            return self._array(schema, hint, depth)
        if kind == "object" or "properties" in schema:
            return self._object(schema, hint, depth)
        return _PLAIN.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _union(self, options: Sequence[Any], hint: str, depth: int) -> str:
        parts = dict.fromkeys(self.type_of(option, f"{hint}_{n}", depth + 1) for n, option in enumerate(options[:20]))
        return "Any" if "Any" in parts or not parts else " | ".join(parts)

    def _array(self, schema: Schema, hint: str, depth: int) -> str:
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list) and prefix and not schema.get("items"):
            parts = [
                self.type_of(item, f"{hint}_{n}", depth + 1) for n, item in enumerate(cast("list[Any]", prefix)[:20])
            ]
            return f"list[{' | '.join(dict.fromkeys(parts))}]"
        return f"list[{self.type_of(schema.get('items'), hint + '_item', depth + 1)}]"

    def _object(self, schema: Schema, hint: str, depth: int) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            extra = schema.get("additionalProperties")
            return f"dict[str, {self.type_of(extra, hint + '_value', depth + 1)}]"
        if len(self.classes) >= _MAX_CLASSES:
            return "dict[str, Any]"
        self.classes.append("")
        at = len(self.classes) - 1
        # Numbered: two properties, or two tools, may read alike once their names are joined.
        name = f"{self._prefix}{_camel(hint)}_{at}"
        required = _required(schema)
        rows: list[str] = []
        for key, value in cast("Mapping[str, Any]", properties).items():
            made = self.type_of(value, f"{hint}_{key}", depth + 1)
            rows.append(f"    {key!r}: {made if key in required else f'NotRequired[{made}]'},\n")
        # The functional form takes any text as a key.
        self.classes[at] = f"{name} = TypedDict({name!r}, {{\n{''.join(rows)}}})\n"
        return name

    def _reference(self, ref: str, depth: int) -> str:
        if ref in self._defs:
            return self._defs[ref]
        if not ref.startswith("#/"):
            return "Any"
        target: Any = self._root
        for part in ref[2:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            target = cast("Mapping[str, Any]", target).get(part) if isinstance(target, Mapping) else None
        # A reference to what is being rendered is a recursive type, which a TypedDict call cannot say.
        self._defs[ref] = "Any"
        made = self.type_of(target, ref.rsplit("/", 1)[-1], depth + 1)
        self._defs[ref] = made
        return made


def _required(schema: Schema) -> set[str]:
    named = schema.get("required")
    return {name for name in cast("list[Any]", named) if isinstance(name, str)} if isinstance(named, list) else set()


def _literal(values: Sequence[Any]) -> str:
    shown = [repr(value) for value in values[:50] if value is None or isinstance(value, (str, int, bool))]
    return f"Literal[{', '.join(shown)}]" if shown and len(shown) == len(values) else "Any"


def _camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in text.replace("-", "_").split("_") if part.isidentifier())


def python_stub(capability: Capability) -> str:
    """`async def` with its TypedDicts, for one capability."""
    inputs = _Renderer(f"_{capability.name}_In", capability.input_schema)
    outputs = _Renderer(f"_{capability.name}_Out", capability.output_schema)
    result = outputs.type_of(capability.output_schema, "result")
    head = signature_text(capability, inputs, result)
    doc = f"    {capability.description[:2000]!r}\n" if capability.description else ""
    return "".join([*inputs.classes, *outputs.classes, f"async {head}:\n{doc}    ...\n"])


def signature_text(capability: Capability, renderer: _Renderer | None = None, result: str | None = None) -> str:
    """`def name(param: type = default) -> result`, as shown in hints."""
    schema = capability.input_schema
    renderer = renderer or _Renderer("", schema)
    if result is None:
        result = _Renderer("", capability.output_schema).type_of(capability.output_schema, "result")
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        return f"def {capability.name}(*args: Any) -> {result}"
    required = _required(schema)
    first: list[str] = []
    later: list[str] = []
    for name, value in cast("Mapping[str, Any]", properties).items():
        if not name.isidentifier() or keyword.iskeyword(name):
            return f"def {capability.name}(**kwargs: Any) -> {result}"
        made = renderer.type_of(value, name)
        if name in required:
            first.append(f"{name}: {made}")
        else:
            default = cast("Mapping[str, Any]", value).get("default", ...) if isinstance(value, Mapping) else ...
            shown = repr(default) if default is None or isinstance(default, (str, int, float, bool)) else "..."
            later.append(f"{name}: {made} = {shown}")
    return f"def {capability.name}({', '.join(first + later)}) -> {result}"
