"""What answers look like, for the description of the API: one story of a shop, written as the server would write it.

By the name of the answer's type. A test holds each against its type, and looks that none is missing.
"""

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cloister import __version__
from cloister.core.approval import Approval, ApprovalState, Decision
from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import SideEffect
from cloister.core.cell import CellInfo, CellState, Completed, WaitingForApproval
from cloister.core.codes import RunStatus
from cloister.core.content import text_content
from cloister.core.digest import digest_bytes
from cloister.core.dynamic import DynamicToolCallParams, DynamicToolSpec
from cloister.core.file import FileEntry, FileInfo, FileMatch
from cloister.core.held import AttachmentInfo, SecretInfo, ValueInfo
from cloister.core.item import AgentMessage, ContextCompaction, Item, ItemKind, UserMessage
from cloister.core.language import Language
from cloister.core.run import Metrics, RunResult
from cloister.core.session import SessionMeta
from cloister.core.thread import Thread
from cloister.core.turn import Receipt, Status, SteerReceipt, Turn, TurnUsage
from cloister.core.wire import format_time, to_json

_AT = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
_LATER = _AT + timedelta(seconds=3)
_CELL, _CALL, _APPROVAL = (f"{kind}_01M7R1G5Y5EAR2RF91RSZBHS1Y" for kind in ("cel", "cal", "apr"))
_THREAD, _TURN, _ITEM = (f"{kind}_01M7R1G5Y5EAR2RF91RSZBHS1Y" for kind in ("thr", "trn", "itm"))
_CONTENT = b"tea, salt"
_DIGEST = digest_bytes(_CONTENT)

_session = SessionMeta("notes", _AT, _LATER, title="Notes", labels={"team": "a"})
_record = ExternalCallRecord(_CALL, "shop.get_order", SideEffect.READ, 12.5, CallStatus.OK, _DIGEST, _DIGEST)
_metrics = Metrics(duration_ms=14.2, cpu_ms=0.4, external_calls_count=1)
_asked = Approval(
    _APPROVAL,
    "notes",
    _CELL,
    _CALL,
    "shop.refund",
    {"order": "A7", "amount": 30},
    SideEffect.WRITE,
    "the tool asks for every call",
    _DIGEST,
    _AT,
)
_answered = replace(_asked, state=ApprovalState.ALLOWED, decision=Decision.ALLOW, decided_at=_LATER)
_tool = DynamicToolSpec("pay", "shop", "Pay an order.", {"type": "object", "properties": {"order": {"type": "string"}}})
_thread = Thread(
    _THREAD,
    "notes",
    _AT,
    _LATER,
    title="Refunds",
    model="anthropic:claude",
    provider="anthropic",
    dynamic_tools=(_tool,),
)
_turn = Turn(
    _TURN,
    _THREAD,
    1,
    Status.COMPLETED,
    _AT,
    text_content("Refund order A7."),
    started_at=_AT,
    ended_at=_LATER,
    operation_key="r-17",
    usage=TurnUsage(2, 812, 64, model_ms=1900),
)
_said = Item(_ITEM, _THREAD, _TURN, ItemKind.USER_MESSAGE, Status.COMPLETED, _AT, UserMessage(_turn.input), _AT)
_reply = Item(
    _ITEM[:-1] + "Z", _THREAD, _TURN, ItemKind.AGENT_MESSAGE, Status.COMPLETED, _AT, AgentMessage("Done."), _LATER
)
_compaction = Item(
    _ITEM[:-1] + "0",
    _THREAD,
    _TURN,
    ItemKind.CONTEXT_COMPACTION,
    Status.COMPLETED,
    _LATER,
    ContextCompaction("Order A7 was refunded.", _ITEM),
    _LATER,
)
_attachment = AttachmentInfo(_DIGEST, "text/plain", len(_CONTENT), _AT, "shopping.txt")
_file = FileInfo("/notes.txt", "file", len(_CONTENT), _AT, _DIGEST)
_entry = {
    "name": "shop.get_order",
    "description": "Look up an order.",
    "input_schema": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    "output_schema": {},
    "side_effect": "read",
    "approval_policy": "none",
    "idempotent": True,
    "defer_loading": False,
    "limits": {"timeout_ms": 5000},
    "namespace": "shop",
}
_text = _CONTENT.decode()

EXAMPLES: Mapping[str, Any] = to_json(
    {
        "SessionMeta": _session,
        "Sessions": {"sessions": [_session], "next_after": "notes"},
        "Destroyed": {"deleted": True},
        "Snapshot": {"session_id": "notes", "snapshot": "Q0xPSVNURVI=", "size_bytes": 8},
        "RunResult": RunResult(RunStatus.OK, _CELL, 42, "hello\n", external_calls=(_record,), metrics=_metrics),
        "Completed": Completed(cell_id=_CELL, content=text_content("hello"), metrics=_metrics, result=42),
        "WaitingForApproval": WaitingForApproval(cell_id=_CELL, approvals=(_asked,)),
        "Cells": {"cells": [CellInfo(_CELL, CellState.ASLEEP, False, _AT, ("shop.refund",), (_APPROVAL,))]},
        "Catalog": {
            "tools": [_entry],
            "sources": [{"name": "shop"}],
            "stubs": "async def get_order(order: str) -> dict: ...",
            "preamble": "Programs may call these tools.",
        },
        "FileContent": {
            "path": "/notes.txt",
            "kind": "file",
            "content": _text,
            "encoding": "text",
            "size_bytes": len(_CONTENT),
            "hash": _DIGEST,
            "read_only": False,
            "modified_at": format_time(_AT),
        },
        "Directory": {"path": "/", "kind": "directory", "entries": [FileEntry("notes.txt", "/notes.txt", "file", 9)]},
        "FileInfo": _file,
        "FileAt": {"path": "/notes.txt", "hash": _DIGEST, "size_bytes": len(_CONTENT)},
        "Moved": {"from": "/notes.txt", "to": "/old/notes.txt"},
        "Matches": {"matches": [FileMatch("/notes.txt", 1, _text)]},
        "Values": {"values": [ValueInfo("count", 1, _AT, _LATER)]},
        "Value": {"key": "count", "value": 3},
        "Secrets": {"secrets": [SecretInfo("CARD", ("shop.pay",), _AT, _AT)]},
        "SecretSet": {"name": "CARD"},
        "AttachmentInfo": _attachment,
        "Attachments": {"attachments": [_attachment]},
        "AttachmentContent": {**to_json(_attachment), "content": base64.b64encode(_CONTENT).decode()},
        "Approvals": {"approvals": [_asked]},
        "DecidedAnswer": {"id": _APPROVAL, "outcome": "executed", "approval": _answered},
        "DecidedMany": {
            "results": [
                {"id": _APPROVAL, "outcome": "executed", "approval": _answered},
                {"id": "apr_none", "outcome": "not_found"},
            ]
        },
        "Thread": _thread,
        "Threads": {"threads": [_thread], "next_after": None},
        "ThreadDetail": {
            "thread": _thread,
            "turns": [_turn],
            "items": [_said, _reply],
            "latest_seq": 17,
            "pending_approvals": [_asked],
            "pending_tool_calls": [DynamicToolCallParams(_THREAD, _TURN, _CALL, "pay", "shop", {"order": "A7"})],
        },
        "CompactionItem": _compaction,
        "Turn": _turn,
        "TurnBegun": {"thread": _thread, "turn": _turn},
        "SteerReceipt": SteerReceipt(_TURN, "inp_01M7R1G5Y5EAR2RF91RSZBHS1Y", Receipt.QUEUED, "mine-1"),
        "ToolCallAccepted": {"call_id": _CALL},
        "RuntimeInfo": {
            "service": "cloister",
            "runtime_api_version": "1.0",
            "version": __version__,
            "bind_host": "127.0.0.1",
            "port": 8787,
            "auth_required": True,
            "transports": ["http", "sse", "mcp"],
            "capabilities": {
                "threads": True,
                "turns": True,
                "turn_steer": True,
                "turn_interrupt": True,
                "event_replay": True,
                "external_tools": True,
                "environments": True,
                "worker_runtime": True,
            },
            "experimental": {},
            "languages": [str(language) for language in Language],
            "confinement": {"rlimits": "active", "landlock": "active", "seccomp": "active", "namespaces": "active"},
        },
        "Health": {"status": "ok"},
    }
)
# Of what is no JSON, by its media type.
TEXTS: Mapping[str, str] = {
    "text/event-stream": ": open\n\n"
    'id: 17\nevent: turn.completed\ndata: {"schema_version":1,"seq":17,"previous_seq":16,"event":"turn.completed",'
    f'"kind":"turn","thread_id":"{_THREAD}","turn_id":"{_TURN}","timestamp":"{format_time(_LATER)}",'
    '"payload":{}}\n\n',
    "text/plain": 'cloister_http_requests_total{method="POST",route="/v1/sessions/{session_id}/run",status="200"} 3\n',
}
