"""What a client is told: an observation, a list, an error, each as content for a model and as structured content.

Some clients show a model only the one, some only the other, so each says everything; only images stand in the content
alone. Nothing is decided here.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, assert_never

from mcp.types import CallToolResult, ContentBlock, ImageContent, ResourceLink, TextContent

from cloister.core.approval import Approval
from cloister.core.cell import (
    CellInfo,
    Completed,
    Failed,
    Interrupted,
    Observation,
    Terminated,
    WaitingForApproval,
    Yielded,
)
from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.errors import CloisterError
from cloister.core.wire import to_json
from cloister.mcp.options import SESSION_META, McpOptions

_DATA_URL = re.compile(r"data:(image/[A-Za-z0-9.+-]+);base64,(.*)", re.DOTALL)
# Of a call's arguments, where a person reads them.
_LONGEST_ARGUMENTS = 2000

Json: TypeAlias = dict[str, Any]


def told(seen: Observation, session_id: str, options: McpOptions) -> CallToolResult:
    """One observation."""
    blocks = [_block(item) for item in seen.content]
    data: Json = {"status": seen.status, "cell_id": seen.cell_id, "session_id": session_id}
    output = "".join(str(item["text"]) for item in seen.content if item.get("type") == "input_text")
    if output:
        data["output"] = output
    images = sum(not isinstance(block, TextContent) for block in blocks)
    if images:
        data["images"] = images
    if seen.saved_output is not None:
        data["saved_output"] = seen.saved_output
    lines = _end(seen, data, options)
    if seen.saved_output is not None:
        lines.append(f"What is missing above is in the session's file {seen.saved_output}.")
    blocks.append(TextContent(text="\n".join(lines)))
    failed = isinstance(seen, (Failed, Interrupted))
    return _result(blocks, data, session_id, failed=failed)


def _end(seen: Observation, data: Json, options: McpOptions) -> list[str]:
    match seen:
        case Yielded():
            data["next"] = f"it goes on: call `wait` with cell_id {seen.cell_id!r}"
            return [f"[yielded] {data['next']}"]
        case WaitingForApproval():
            return _waiting(seen, data, options)
        case Completed():
            data["result"] = to_json(seen.result)
            lines = ["[completed]"]
            if seen.result is not None:
                lines = [f"[completed] result: {json.dumps(seen.result, ensure_ascii=False)}"]
            return lines + _findings(seen.diagnostics, data)
        case Failed() | Interrupted():
            data["error"] = to_json(seen.error)
            notes = [found for found in seen.diagnostics if found.message != seen.error.message]
            return [f"[{seen.status}] {_wrong(seen.error)}", *_findings(notes, data)]
        case Terminated():
            return ["[terminated] it was stopped", *_findings(seen.diagnostics, data)]
        case _:
            assert_never(seen)


def _waiting(seen: WaitingForApproval, data: Json, options: McpOptions) -> list[str]:
    data["approvals"] = [_question(approval) for approval in seen.approvals]
    data["next"] = how_to_decide(seen, options)
    asked = [f"- {approval.id}: {described(approval)}" for approval in seen.approvals]
    return ["[waiting_for_approval] a person has to allow:", *asked, str(data["next"])]


def how_to_decide(seen: WaitingForApproval, options: McpOptions) -> str:
    ids = [approval.id for approval in seen.approvals]
    example = ids[0] if ids else "ID"
    then = f"then call `wait` with cell_id {seen.cell_id!r}"
    if options.allow_approve:
        return f"Ask the user. Pass the decision on with `approve` and approval_id {example!r}; {then}."
    if options.how_to_decide is not None:
        return f"{options.how_to_decide.format(id=example)}; {then}."
    if options.store_url is not None:
        command = f"cloister approvals allow {example} --store {shlex.quote(options.store_url)}"
        return f"Tell the user to run this in a terminal (`deny` in place of `allow` says no): `{command}`; {then}."
    return (
        "Nobody else can decide it: the server was started without --allow-approve, and without --session or --store "
        "the question is in its memory alone. Tell the user, and end the program with `wait` and terminate."
    )


def described(approval: Approval) -> str:
    """One question, for a person."""
    arguments = json.dumps(to_json(approval.arguments), ensure_ascii=False)
    if len(arguments) > _LONGEST_ARGUMENTS:
        arguments = f"{arguments[:_LONGEST_ARGUMENTS]}… ({len(arguments)} characters in all)"
    return f"{approval.capability} with {arguments} ({approval.side_effect}): {approval.reason}"


def _question(approval: Approval) -> Json:
    return {
        "id": approval.id,
        "tool": approval.capability,
        "arguments": to_json(approval.arguments),
        "side_effect": str(approval.side_effect),
        "reason": approval.reason,
    }


def found(tools: Sequence[Mapping[str, Any]], missing: Sequence[str], session_id: str) -> CallToolResult:
    """What a search has found. `missing` says which sources are not there."""
    data: Json = {"tools": [dict(tool) for tool in tools], "session_id": session_id}
    lines: list[str] = []
    for tool in tools:
        lines.append(f"- {tool['name']}: {tool.get('description') or 'no description'}")
        if tool.get("signature"):
            lines.append(f"  {tool['signature']}")
    if not tools:
        lines.append("Nothing was found: try other words.")
    if missing:
        data["missing"] = list(missing)
        lines.extend(f"Not there now: {reason}" for reason in missing)
    return _result([TextContent(text="\n".join(lines))], data, session_id)


def listed(cells: Sequence[tuple[str, CellInfo]], session_id: str) -> CallToolResult:
    """Cells with their languages."""
    data = {
        "cells": [{**to_json(info), "language": language} for language, info in cells],
        "session_id": session_id,
    }
    lines = [f"- {info.id}: {info.state}, {language}{_for(info)}" for language, info in cells] or ["There are none."]
    return _result([TextContent(text="\n".join(lines))], data, session_id)


def _for(info: CellInfo) -> str:
    if info.approvals:
        return f", waits for approvals {', '.join(info.approvals)}"
    return f", waits for {', '.join(info.waiting_for)}" if info.waiting_for else ""


def decided(approval: Approval, session_id: str) -> CallToolResult:
    data = {
        "approval_id": approval.id,
        "state": str(approval.state),
        "cell_id": approval.cell_id,
        "session_id": session_id,
        "next": f"call `wait` with cell_id {approval.cell_id!r}",
    }
    text = f"{approval.id} is {approval.state}: {data['next']}"
    return _result([TextContent(text=text)], data, session_id)


def refused(error: CloisterError) -> CallToolResult:
    """What went wrong before there was anything to observe."""
    return _refusal({"code": error.code, "message": error.message, "hint": error.hint})


def broken() -> CallToolResult:
    """A defect of ours, of which the log says more."""
    return _refusal(
        {
            "code": "INTERNAL",
            "message": "this is a defect of Cloister",
            "hint": "the server's standard error says more",
        }
    )


def _refusal(error: Json) -> CallToolResult:
    error = {key: value for key, value in error.items() if value is not None}
    text = f"[refused] {error['code']}: {error['message']}"
    if "hint" in error:
        text += f"\nhint: {error['hint']}"
    return CallToolResult(
        content=[TextContent(text=text)], structured_content={"status": "refused", "error": error}, is_error=True
    )


def _result(blocks: list[ContentBlock], data: Json, session_id: str, *, failed: bool = False) -> CallToolResult:
    return CallToolResult(
        content=blocks,
        structured_content=data,
        is_error=failed,
        # pyright sees the alias of the field only.
        _meta={SESSION_META: session_id},
    )


def _wrong(error: ErrorObject) -> str:
    where = f" (line {error.span.line}, column {error.span.column})" if error.span is not None else ""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return f"{error.code}: {error.message}{where}{hint}"


def _findings(diagnostics: Sequence[Diagnostic], data: Json) -> list[str]:
    if not diagnostics:
        return []
    data["diagnostics"] = to_json(list(diagnostics))
    lines: list[str] = []
    for found_one in diagnostics:
        where = f" (line {found_one.span.line})" if found_one.span is not None else ""
        lines.append(f"{found_one.severity}: {found_one.code}: {found_one.message}{where}")
        if found_one.hint:
            lines.append(f"  hint: {found_one.hint}")
    return lines


def _block(item: Mapping[str, Any]) -> ContentBlock:
    if item.get("type") == "input_text":
        return TextContent(text=str(item["text"]))
    url = str(item.get("image_url"))
    inline = _DATA_URL.fullmatch(url)
    if inline is not None:
        return ImageContent(mime_type=inline[1], data=inline[2])
    return ResourceLink(uri=url, name="image")
