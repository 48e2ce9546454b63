"""The operations of a document: which can be called, what each is, and why the others cannot be.

Reading one follows references to parameters and bodies but makes no schema, so that thousands of them are read in a
moment; a contract is made when somebody asks for it.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import quote, urljoin

from cloister.core.capability import ApprovalPolicy, Capability, SideEffect
from cloister.core.errors import InvalidInput
from cloister.core.limits import CapabilityLimits
from cloister.ports.source import Manifest
from cloister.tools.fetch import split_url
from cloister.tools.outbound import Reach, Refused
from cloister.tools.sources.names import identifier, identifiers
from cloister.tools.sources.openapi.api import OpenApi
from cloister.tools.sources.openapi.document import Document, Unusable, members
from cloister.tools.sources.openapi.inputs import Body, Inputs, base_type, is_json, read_inputs
from cloister.tools.sources.openapi.schemas import standing_alone
from cloister.tools.sources.openapi.security import Scheme, choose

log = logging.getLogger("cloister.sources")

# What a program gets: the JSON of the answer, or what was answered whole, or whichever of them it turns out to be.
Returns: TypeAlias = Literal["json", "whole", "either", "headers"]

_METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_READS = ("GET", "HEAD", "OPTIONS")
_REPEATABLE = (*_READS, "PUT", "DELETE")
MAX_OPERATIONS = 20_000
_LONGEST_DESCRIPTION = 4000
_VARIABLE = re.compile(r"\{([^{}]*)\}")
_WHOLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "integer"},
        "content_type": {"type": "string"},
        "text": {"type": "string"},
        "base64": {"type": "string", "description": "What is no text."},
    },
    "required": ["status", "content_type"],
}
_HEADERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "integer"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["status", "headers"],
}


@dataclass(frozen=True, slots=True)
class Operation:
    # What the document calls it.
    original: str
    method: str
    # The base with the path, whose parameters are still in braces.
    url: str
    description: str
    inputs: Inputs
    schemes: tuple[Scheme, ...]
    returns: Returns
    # The schemas of what may come back as JSON; None for a body that is empty.
    answers: tuple[Any, ...]

    @property
    def is_repeatable(self) -> bool:
        return self.method in _REPEATABLE


class Operations:
    """By the names that programs write. `refused` has those that cannot be called, and why."""

    def __init__(self, document: Document, api: OpenApi, reach: Reach, base: str | None, found_at: str | None) -> None:
        self._document = document
        self._api = api
        self._reach = reach
        self._base = base
        self._found_at = found_at
        self._contracts: dict[str, Capability] = {}
        self.refused: dict[str, str] = {}
        read = self._read()
        names = identifiers(read)
        space = api.space
        self.by_name = {f"{space}.{names[original]}": one for original, one in read.items()}
        self.manifests = tuple(
            Manifest(full.partition(".")[2], space, one.description, one.inputs.names(), api.defer_loading)
            for full, one in self.by_name.items()
        )
        if self.refused:
            log.info("%s: not every operation can be called, %d cannot: see `refused`", api.what, len(self.refused))

    def _read(self) -> dict[str, Operation]:
        found: dict[str, Operation] = {}
        terms, count = self._api.terms, 0
        for path, given in members(self._document.root.get("paths")):
            try:
                item = self._document.part(given, f"the path {path!r}")
            except Unusable as reason:
                self.refused[path] = str(reason)
                continue
            for method in _METHODS:
                if method not in item:
                    continue
                count += 1
                if count > MAX_OPERATIONS:
                    raise InvalidInput(
                        f"{self._api.what} has more than {MAX_OPERATIONS} operations", hint="give a part of it"
                    )
                original = _original(item[method], method, path)
                if original in found or original in self.refused:
                    original = f"{method} {path}"
                if not terms.allow(original, identifier(original)):
                    continue
                try:
                    found[original] = self._operation(original, method, path, item)
                except Unusable as reason:
                    self.refused[original] = str(reason)
        return dict(sorted(found.items()))

    def _operation(self, original: str, method: str, path: str, item: Mapping[str, Any]) -> Operation:
        document, given = self._document, self._document.part(item[method], "it")
        inputs = read_inputs(document, item, given)
        _check_path(path, inputs)
        schemas = [parameter.schema for parameter in inputs.parameters]
        if inputs.body is not None:
            if method in ("get", "head"):
                raise Unusable(f"it is a {method.upper()} with a body, which means nothing")
            schemas.append(inputs.body.schema)
        returns, answers, answer_schemas = _answers(document, method, given)
        remote = document.remote_reference([*schemas, *answer_schemas])
        if remote is not None:
            raise Unusable(f"it refers to {remote[:200]!r}, which is not in the document, and nothing is ever fetched")
        return Operation(
            original=original,
            method=method.upper(),
            url=self._url(path, item, given),
            description=_description(given, method, path),
            inputs=inputs,
            schemes=choose(document, given, self._api.credentials),
            returns=returns,
            answers=answers,
        )

    def _url(self, path: str, item: Mapping[str, Any], given: Mapping[str, Any]) -> str:
        base = self._base or server_of(self._document, (given, item), self._found_at)
        if base is None:
            raise Unusable("the document does not say where it is; give a `base_url`")
        try:
            _, host, port, _ = split_url(base)
            self._reach.check(host, port)
        except Refused as refused:
            raise Unusable(f"its server cannot be reached: {refused.message}") from None
        return base.partition("?")[0].rstrip("/") + quote(path, safe="/{}:@!$&'()*+,;=~%")

    # -- contracts -------------------------------------------------------------------------------------------------

    def contract(self, full_name: str) -> Capability | None:
        known, one = self._contracts.get(full_name), self.by_name.get(full_name)
        if known is None and one is not None:
            known = self._contracts[full_name] = self._capability(full_name, one)
        return known

    def _capability(self, full_name: str, one: Operation) -> Capability:
        api, (space, _, name) = self._api, full_name.partition(".")
        # What it takes away may be gone for good.
        default = ApprovalPolicy("manual" if one.method == "DELETE" else "none")
        return Capability(
            name=name,
            namespace=space,
            description=one.description,
            input_schema=self._input_schema(full_name, one.inputs),
            output_schema=self._output_schema(full_name, one) if api.typed_responses else {},
            side_effect=SideEffect.READ if one.method in _READS else SideEffect.EXTERNAL_SYSTEM,
            limits=CapabilityLimits(
                timeout_ms=api.timeout_ms, max_response_bytes=api.max_response_bytes, concurrency=api.concurrency
            ),
            approval_policy=api.terms.policy(one.original, name, default),
            idempotent=one.is_repeatable,
            defer_loading=api.defer_loading,
        )

    def _input_schema(self, full_name: str, inputs: Inputs) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required = [parameter.key for parameter in inputs.parameters if parameter.required]
        for parameter in inputs.parameters:
            properties[parameter.key] = _noted(self._document, parameter.schema, parameter.description)
        whole: dict[str, Any] = {"type": "object", "properties": properties}
        if inputs.body is not None:
            self._add_body(inputs.body, properties, required, whole)
        if required:
            whole["required"] = required
        whole["additionalProperties"] = False
        made = standing_alone(self._document, whole, "request", f"the input schema of {full_name}")
        # What is sent is laid out by these names, whatever had to be left out of their types.
        loose = {"type": "object", "properties": dict.fromkeys(properties, True), "additionalProperties": False}
        kept: Any = made.get("properties")
        if not isinstance(kept, dict) or len(cast("dict[str, Any]", kept)) != len(properties):
            return {**loose, "required": required} if required else loose
        if "dependentRequired" in whole:
            made["dependentRequired"] = whole["dependentRequired"]
        return made

    def _add_body(self, body: Body, properties: dict[str, Any], required: list[str], whole: dict[str, Any]) -> None:
        if body.fields is None:
            properties[body.key] = _noted(self._document, body.schema, body.description)
            if body.required:
                required.append(body.key)
            return
        part = self._document.part(body.schema, "the schema of its body")
        inner = dict(members(part.get("properties")))
        asked: Any = part.get("required", [])
        needed = [key for key, name in body.fields if isinstance(asked, list) and name in asked]
        for key, name in body.fields:
            properties[key] = inner[name]
        if body.required:
            required += needed
        elif needed:
            # A body that may be left out is left out as a whole.
            whole["dependentRequired"] = {
                key: [other for other in needed if other != key] for key, _ in body.fields if needed != [key]
            }

    def _output_schema(self, full_name: str, one: Operation) -> dict[str, Any]:
        match one.returns:
            case "whole":
                return _WHOLE
            case "headers":
                return _HEADERS
            case "either":
                return {}
            case "json":
                options = [{"type": "null"} if answer is None else answer for answer in one.answers]
                schema = options[0] if len(options) == 1 else {"anyOf": options}
                return standing_alone(self._document, schema, "response", f"the output schema of {full_name}")


def server_of(document: Document, holders: tuple[Mapping[str, Any], ...], found_at: str | None) -> str | None:
    """The first server of the nearest that names any, with its variables at their defaults. Raises `Unusable`."""
    for holder in (*holders, document.root):
        servers: Any = holder.get("servers")
        if not isinstance(servers, list) or not servers:
            continue
        server = document.part(cast("list[Any]", servers)[0], "its server")
        url: Any = server.get("url")
        if not isinstance(url, str):
            raise Unusable("its server has no url")
        variables = dict(members(server.get("variables")))

        def default(found: re.Match[str], variables: dict[str, Any] = variables) -> str:
            given: Any = variables.get(found.group(1))
            value: Any = cast("dict[str, Any]", given).get("default") if isinstance(given, dict) else None
            if not isinstance(value, str):
                raise Unusable(f"the url of its server has the variable {found.group(1)!r} without a default")
            return value

        url = _VARIABLE.sub(default, url)
        if "://" in url:
            return url
        return urljoin(found_at, url) if found_at is not None else None
    return urljoin(found_at, "/") if found_at is not None else None


def _original(given: Any, method: str, path: str) -> str:
    said: Any = cast("dict[str, Any]", given).get("operationId") if isinstance(given, dict) else None
    return said if isinstance(said, str) and 0 < len(said) <= 200 else f"{method} {path}"


def _check_path(path: str, inputs: Inputs) -> None:
    if not path.startswith("/") or any(character in path for character in "?#\\") or not path.isprintable():
        raise Unusable(f"its path {path[:200]!r} is not one")
    named = set(_VARIABLE.findall(path))
    known = {parameter.name for parameter in inputs.parameters if parameter.place == "path"}
    if named != known:
        strange = sorted(named ^ known)
        raise Unusable(f"its path {path[:200]!r} and its parameters do not agree on {', '.join(map(repr, strange))}")


def _description(given: Mapping[str, Any], method: str, path: str) -> str:
    texts = [given.get("summary"), given.get("description")]
    said = "\n\n".join(dict.fromkeys(text.strip() for text in texts if isinstance(text, str) and text.strip()))
    said = said or f"{method.upper()} {path}"
    if given.get("deprecated") is True:
        said = f"Deprecated. {said}"
    return said if len(said) <= _LONGEST_DESCRIPTION else f"{said[:_LONGEST_DESCRIPTION]}…"


def _answers(document: Document, method: str, given: Mapping[str, Any]) -> tuple[Returns, tuple[Any, ...], list[Any]]:
    """What comes back when all went well, and the schemas in it."""
    if method == "head":
        return "headers", (), []
    responses = dict(members(given.get("responses")))
    good = sorted(code for code in responses if re.fullmatch("2([0-9][0-9]|[xX][xX])", code))
    found: list[Any] = []
    others = unknown = False
    for code in good:
        content = dict(members(document.part(responses[code], f"its response {code}").get("content")))
        if not content:
            if None not in found:
                found.append(None)
            continue
        inner = next((part for kind, part in content.items() if is_json(kind)), None)
        if inner is None:
            others = others or "*/*" not in map(base_type, content)
            unknown = unknown or not others
            continue
        schema = document.part(inner, f"the content of its response {code}").get("schema")
        if schema is None:
            unknown = True
        elif schema not in found:
            found.append(schema)
    schemas = [schema for schema in found if schema is not None]
    if unknown or not good or (others and schemas):
        return "either", (), []
    if others:
        return "whole", (), []
    return "json", tuple(found), schemas


def _noted(document: Document, schema: Any, description: str) -> Any:
    """A schema with the description of where it stands, if it has none of its own."""
    if not description or not isinstance(schema, dict) or "description" in schema:
        return cast("Any", schema)
    if "$ref" in schema and document.is_3_0:
        return {"allOf": [cast("Any", schema)], "description": description}
    return {**cast("dict[str, Any]", schema), "description": description}
