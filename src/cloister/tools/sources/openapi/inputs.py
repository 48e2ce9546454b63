"""What an operation takes: its parameters and its body, laid out as one flat object of named inputs.

Inputs have names that programs can write. Where two want the same one, the parameter of the path keeps it, and the
others have the place where they go behind theirs: `id`, `id_query`, `id_body`. A JSON or form body that is a plain
object gives its properties; any other is the input `body`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from cloister.tools.sources.names import identifier
from cloister.tools.sources.openapi.document import Document, Unusable, members

Place: TypeAlias = Literal["path", "query", "header", "cookie"]
Kind: TypeAlias = Literal["json", "form", "text", "bytes"]

_PLACES: tuple[Place, ...] = ("path", "query", "header", "cookie")
_STYLES = {"path": ("simple",), "query": ("form", "deepObject"), "header": ("simple",), "cookie": ("form",)}
# The specification says that parameters of these names are ignored.
_IGNORED_HEADERS = ("accept", "content-type", "authorization")
# Who sets one of these could make another request out of one.
_FORBIDDEN_HEADERS = frozenset(
    "connection content-length cookie expect host keep-alive proxy-authorization te trailer transfer-encoding "
    "upgrade".split()
)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_MOST = 500
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.ASCII)


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    place: Place
    # What programs call it.
    key: str
    required: bool
    schema: Any
    description: str = ""
    style: str = "form"
    explode: bool = True
    # Written as JSON and not in a style.
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    media_type: str
    kind: Kind
    required: bool
    schema: Any
    # Inputs and the properties they become, or None: the input `key` is all of it.
    fields: tuple[tuple[str, str], ...] | None
    key: str = "body"
    description: str = ""


@dataclass(frozen=True, slots=True)
class Inputs:
    parameters: tuple[Parameter, ...]
    body: Body | None

    def names(self) -> tuple[str, ...]:
        body = self.body
        keys = () if body is None else (body.key,) if body.fields is None else tuple(key for key, _ in body.fields)
        return (*(parameter.key for parameter in self.parameters), *keys)


def read_inputs(document: Document, item: Mapping[str, Any], operation: Mapping[str, Any]) -> Inputs:
    """Raises `Unusable` for what cannot be sent."""
    read: dict[tuple[str, str], Parameter] = {}
    for holder in (item, operation):
        listed: Any = holder.get("parameters", [])
        if not isinstance(listed, list):
            raise Unusable("its parameters are not a list")
        for given in cast("list[Any]", listed):
            parameter = _parameter(document, document.part(given, "a parameter"))
            if parameter is not None:
                read[parameter.place, parameter.name] = parameter
    if len(read) > _MOST:
        raise Unusable(f"it has more than {_MOST} parameters")
    ordered = sorted(read.values(), key=lambda one: _PLACES.index(one.place))
    taken: set[str] = set()
    parameters = tuple(replace(one, key=_free(one.key, one.place, taken)) for one in ordered)
    return Inputs(parameters, _body(document, operation.get("requestBody"), taken))


def _free(key: str, place: str, taken: set[str]) -> str:
    name = key if key not in taken else f"{key}_{place}"
    number = 2
    while name in taken:
        name, number = f"{key}_{place}_{number}", number + 1
    taken.add(name)
    return name


def _parameter(document: Document, given: dict[str, Any]) -> Parameter | None:
    name, place = given.get("name"), given.get("in")
    if not isinstance(name, str) or not name or place not in _PLACES:
        raise Unusable(f"it has a parameter {name!r} in {place!r}; there are path, query, header and cookie")
    if place == "header":
        if name.lower() in _IGNORED_HEADERS:
            return None
        if name.lower() in _FORBIDDEN_HEADERS or not _HEADER.fullmatch(name):
            raise Unusable(f"it has the header {name!r} as a parameter, which cannot be set")
    if given.get("allowReserved") is True:
        raise Unusable(f"its parameter {name!r} says `allowReserved`, which is not supported")
    schema, as_json = _schema_of(document, given, name)
    style: Any = given.get("style", _STYLES[place][0])
    if style not in _STYLES[place]:
        raise Unusable(f"its parameter {name!r} has the style {style!r}, which is not supported in a {place}")
    explode: Any = given.get("explode", style in ("form", "deepObject"))
    if style == "deepObject" and explode is not True:
        raise Unusable(f"its parameter {name!r} is a deepObject that does not explode, which has no meaning")
    description: Any = given.get("description", "")
    return Parameter(
        name=name,
        place=place,
        key=identifier(name, "value"),
        required=given.get("required") is True or place == "path",
        schema=schema,
        description=description if isinstance(description, str) else "",
        style=style,
        explode=explode is True,
        as_json=as_json,
    )


def _schema_of(document: Document, given: dict[str, Any], name: str) -> tuple[Any, bool]:
    if "content" not in given:
        return given.get("schema", {}), False
    content = dict(members(given["content"]))
    for media_type, inner in content.items():
        if _JSON.fullmatch(base_type(media_type)):
            return document.part(inner, f"the content of its parameter {name!r}").get("schema", {}), True
    raise Unusable(f"its parameter {name!r} is written as {', '.join(content) or 'nothing'}, and only JSON can be")


# -- the body ----------------------------------------------------------------------------------------------------------


def base_type(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    return _JSON.fullmatch(base_type(media_type)) is not None


def _kind(media_type: str) -> Kind | None:
    base = base_type(media_type)
    if is_json(base) or base == "*/*":
        return "json"
    if base == "application/x-www-form-urlencoded":
        return "form"
    if base.startswith("text/"):
        return "text"
    return "bytes" if base == "application/octet-stream" else None


def _body(document: Document, given: Any, taken: set[str]) -> Body | None:
    if given is None:
        return None
    request = document.part(given, "its body")
    content = dict(members(request.get("content")))
    order: tuple[Kind, ...] = ("json", "form", "text", "bytes")
    for kind in order:
        for media_type, inner in content.items():
            if _kind(media_type) == kind:
                part = document.part(inner, "the content of its body")
                return _made_body(document, request, media_type, kind, part.get("schema", {}), taken)
    raise Unusable(f"its body is {' or '.join(content) or 'nothing'}; JSON, forms, text and octets can be sent")


def _made_body(
    document: Document, request: dict[str, Any], media_type: str, kind: Kind, schema: Any, taken: set[str]
) -> Body:
    fields: tuple[tuple[str, str], ...] | None = None
    required = request.get("required") is True
    if kind in ("json", "form"):
        names = list(_properties(document, schema))
        if names:
            fields = tuple((_free(identifier(name, "value"), "body", taken), name) for name in names)
    if kind == "form" and fields is None:
        raise Unusable("its form has no properties that could be filled in")
    if kind in ("text", "bytes"):
        encoding = {"contentEncoding": "base64"} if kind == "bytes" else {}
        schema = {"type": "string", **encoding}
    description: Any = request.get("description", "")
    return Body(
        media_type="application/json" if media_type == "*/*" else media_type,
        kind=kind,
        required=required,
        schema=schema,
        fields=fields,
        key="body" if fields is not None else _free("body", "body", taken),
        description=description if isinstance(description, str) else "",
    )


def _properties(document: Document, schema: Any) -> Iterator[str]:
    """The properties of a plain object that takes no others; nothing for any other schema."""
    part = document.part(schema, "the schema of its body") if isinstance(schema, dict) else {}
    composed = any(word in part for word in ("allOf", "anyOf", "oneOf", "not", "if", "patternProperties"))
    properties: Any = part.get("properties")
    if composed or part.get("type", "object") != "object" or not isinstance(properties, dict):
        return
    if part.get("additionalProperties", False) is not False or part.get("nullable") is True:
        return
    named = cast("dict[str, Any]", properties)
    if len(named) > _MOST:
        return
    for name, inner in named.items():
        if not (isinstance(inner, dict) and cast("dict[str, Any]", inner).get("readOnly") is True):
            yield name
