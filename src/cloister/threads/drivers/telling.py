"""What a model is told of its work, in words: how a cell stands, what a call gave, what was found, what went wrong.

Each text begins with how it stands in brackets. An error is always told whole, with its hint: it is what the model can
act on. Nothing is decided here.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from cloister.cells.cut import cut_middle
from cloister.core.cell import (
    Completed,
    Content,
    Failed,
    Interrupted,
    Observation,
    Terminated,
    WaitingForApproval,
    Yielded,
)
from cloister.core.content import text_content
from cloister.core.diagnostic import Diagnostic, ErrorObject
from cloister.core.run import RunResult
from cloister.core.wire import to_json

# About ten thousand tokens.
_MOST_BYTES = 40_000


def seen_of(seen: Observation) -> Content:
    """One observation: what the cell had to say, and how it stands."""
    lines = _stands(seen)
    if seen.saved_output is not None:
        lines.append(f"What is missing above is in the session's file {seen.saved_output}.")
    return (*seen.content, *text_content("\n".join(lines)))


def result_of(result: RunResult) -> Content:
    """One call that the model made by itself."""
    if result.error is not None:
        return text_content(f"[failed] {wrong(result.error)}")
    value: Any = result.result
    if _is_content(value):
        return tuple(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text_content(cut_middle(text, _MOST_BYTES)[0])


def found_of(tools: Sequence[Mapping[str, Any]], names: Mapping[str, str] | None = None) -> Content:
    """What a search has found. `names` says what a model is to call them."""
    lines: list[str] = []
    for tool in tools:
        name = str(tool["name"])
        lines.append(f"- {(names or {}).get(name, name)}: {tool.get('description') or 'no description'}")
        if names is None and tool.get("signature"):
            lines.append(f"  {tool['signature']}")
    return text_content("\n".join(lines) or "Nothing was found: try other words.")


def refused(error: ErrorObject) -> Content:
    return text_content(f"[refused] {wrong(error)}")


def wrong(error: ErrorObject) -> str:
    where = f" (line {error.span.line}, column {error.span.column})" if error.span is not None else ""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return f"{error.code}: {error.message}{where}{hint}"


def _stands(seen: Observation) -> list[str]:
    match seen:
        case Yielded():
            return [f"[yielded] cell {seen.cell_id} goes on. `wait` for it, or go on without: you hear when it ends."]
        case WaitingForApproval():
            asked = ", ".join(f"`{one.capability}`" for one in seen.approvals)
            return [f"[waiting_for_approval] cell {seen.cell_id}: a person has to allow {asked}. It goes on by itself."]
        case Completed():
            value = to_json(seen.result)
            said = "[completed]" if value is None else f"[completed] result: {json.dumps(value, ensure_ascii=False)}"
            return [said, *_findings(seen.diagnostics)]
        case Failed() | Interrupted():
            notes = [one for one in seen.diagnostics if one.message != seen.error.message]
            return [f"[{seen.status}] {wrong(seen.error)}", *_findings(notes)]
        case Terminated():
            return ["[terminated] it was stopped", *_findings(seen.diagnostics)]
        case _:
            assert_never(seen)


def _findings(diagnostics: Sequence[Diagnostic]) -> list[str]:
    lines: list[str] = []
    for one in diagnostics:
        where = f" (line {one.span.line})" if one.span is not None else ""
        lines.append(f"{one.severity}: {one.code}: {one.message}{where}")
        if one.hint:
            lines.append(f"  hint: {one.hint}")
    return lines


def _is_content(value: Any) -> bool:
    """Parts as a client's tool gives them, with an image among them."""
    parts: list[Any] = value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
    kinds = {"input_text", "input_image"}
    return bool(parts) and all(isinstance(part, dict) and part.get("type") in kinds for part in parts)  # pyright: ignore[reportUnknownMemberType]
