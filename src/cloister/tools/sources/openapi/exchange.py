"""One call of an operation: inputs made into a request, and the answer made into what a program gets."""

import base64
import binascii
import json
from typing import Any, cast

from cloister.core.value import Bounds, Json, ValueRefused, plain
from cloister.ports.source import SourceFailed
from cloister.tools.fetch import Answer, Request
from cloister.tools.sources.held import Veil
from cloister.tools.sources.openapi.inputs import Body, Parameter, is_json
from cloister.tools.sources.openapi.operations import Operation
from cloister.tools.sources.openapi.security import Signed
from cloister.tools.sources.openapi.styles import Unwritable, form_body, in_cookie, in_header, in_path, in_query

_LONGEST_URL = 16_000
_LONGEST_ERROR = 2000
_MOST_HEADERS = 64
_TEXTS = ("xml", "javascript", "yaml", "csv", "html", "x-www-form-urlencoded", "graphql", "toml")


def request_of(operation: Operation, arguments: dict[str, Json], signed: Signed) -> Request:
    """Raises `SourceFailed` for a value that a request cannot carry."""
    url, query, cookies = operation.url, list[str](), list[str]()
    headers = {"Accept": "application/json, */*;q=0.5"}
    for parameter in operation.inputs.parameters:
        value = arguments.get(parameter.key)
        if value is None:
            if parameter.place == "path":
                raise SourceFailed(f"`{parameter.key}` is part of the path and cannot be null")
            continue
        try:
            match parameter.place:
                case "path":
                    url = url.replace(
                        f"{{{parameter.name}}}", in_path(_said(parameter, value), explode=parameter.explode)
                    )
                case "query":
                    said = _said(parameter, value)
                    query += in_query(parameter.name, said, style=parameter.style, explode=parameter.explode)
                case "header":
                    headers[parameter.name] = in_header(_said(parameter, value), explode=parameter.explode)
                case "cookie":
                    cookies.append(in_cookie(parameter.name, _said(parameter, value)))
        except Unwritable as reason:
            raise SourceFailed(f"`{parameter.key}` cannot be sent: {reason}") from None
    for name, text in signed.query:
        query += in_query(name, text, style="form", explode=True)
    cookies += [in_cookie(name, text) for name, text in signed.cookies]
    if query:
        url = f"{url}?{'&'.join(query)}"
    if len(url) > _LONGEST_URL:
        raise SourceFailed(f"the URL would have {len(url)} characters, more than {_LONGEST_URL}")
    secret = dict(signed.headers)
    if cookies:
        secret["Cookie"] = "; ".join(cookies)
    body = _body(operation.inputs.body, arguments, headers)
    return Request(operation.method, url, headers, secret, body)


def _said(parameter: Parameter, value: Json) -> Json:
    return json.dumps(value, ensure_ascii=False) if parameter.as_json else value


def _body(body: Body | None, arguments: dict[str, Json], headers: dict[str, str]) -> bytes | None:
    if body is None:
        return None
    if body.fields is None:
        if body.key not in arguments:
            return None
        content = arguments[body.key]
    else:
        content = {name: arguments[key] for key, name in body.fields if key in arguments}
        if not content and not body.required:
            return None
    headers["Content-Type"] = body.media_type
    match body.kind:
        case "json":
            return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
        case "form":
            fields = cast("dict[str, Json]", content)
            try:
                return form_body((name, value) for name, value in fields.items() if value is not None)
            except Unwritable as reason:
                raise SourceFailed(f"the form cannot be sent: {reason}") from None
        case "text" | "bytes":
            if not isinstance(content, str):
                raise SourceFailed(f"`{body.key}` is a text")
            return content.encode("utf-8", "replace") if body.kind == "text" else _octets(content, body.key)


def _octets(text: str, key: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SourceFailed(f"`{key}` is not base64") from None


# -- the answer --------------------------------------------------------------------------------------------------------


def value_of(operation: Operation, answer: Answer, veil: Veil, max_bytes: int) -> Json:
    """Raises `SourceFailed` for an answer that is not a good one."""
    if not 200 <= answer.status < 300:
        raise SourceFailed(veil.text(_complaint(operation, answer)))
    try:
        return veil.json(_value(operation, answer, max_bytes))
    except ValueRefused as refused:
        raise SourceFailed(f"the answer cannot be taken: {refused.message}", hint=refused.hint) from None


def _value(operation: Operation, answer: Answer, max_bytes: int) -> Json:
    bounds = Bounds(size=max_bytes)
    if operation.returns == "headers":
        shown = dict(list(answer.headers.items())[:_MOST_HEADERS])
        return plain(
            {"status": answer.status, "headers": {k: v for k, v in shown.items() if k != "set-cookie"}}, bounds
        )
    if operation.returns == "whole":
        return plain(_whole(answer), bounds)
    if not answer.body:
        return None
    if is_json(answer.headers.get("content-type", "")):
        return plain(_json(answer), bounds)
    if operation.returns == "json":
        kind = answer.media_type[:100] or "something without a type"
        raise SourceFailed(f"it answered with {kind}, and the document says JSON")
    return plain(_whole(answer), bounds)


def _json(answer: Answer) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    try:
        return json.loads(answer.body, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise SourceFailed("it answered with what is called JSON and is none") from None


def _whole(answer: Answer) -> dict[str, Any]:
    told: dict[str, Any] = {"status": answer.status, "content_type": answer.media_type}
    kind = answer.media_type
    if kind.startswith("text/") or is_json(kind) or any(word in kind for word in _TEXTS) or not answer.body:
        return {**told, "text": answer.text}
    return {**told, "base64": base64.b64encode(answer.body).decode()}


def _complaint(operation: Operation, answer: Answer) -> str:
    said = f"{operation.method} was answered with {answer.status} {answer.reason[:100]}".rstrip()
    if 300 <= answer.status < 400:
        return f"{said}: a redirect of a {operation.method} is not followed"
    whole = _whole(answer)
    text = " ".join(str(whole.get("text", "")).split())
    if len(text) > _LONGEST_ERROR:
        text = f"{text[:_LONGEST_ERROR]}… ({len(text) - _LONGEST_ERROR} characters more)"
    return f"{said}: {text}" if text else said
