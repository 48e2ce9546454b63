"""What routes answer with: our own JSON, written once. The classes are for the description of the API only."""

import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from cloister.core.approval import Approval
from cloister.core.cell import CellInfo, Completed, Failed, Interrupted, Terminated, WaitingForApproval, Yielded
from cloister.core.file import FileEntry, FileInfo, FileMatch
from cloister.core.held import AttachmentInfo, SecretInfo, ValueInfo
from cloister.core.run import RunResult
from cloister.core.session import SessionMeta
from cloister.core.wire import to_json


def written(value: Any) -> bytes:
    # ASCII: whatever a program has said, half a surrogate pair included, can be sent.
    return json.dumps(to_json(value), separators=(",", ":")).encode()


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(written(value), status, headers, "application/json")


def raw(data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """What is JSON already."""
    return Response(data, status, headers, "application/json")


Seen: TypeAlias = Annotated[
    Yielded | WaitingForApproval | Completed | Failed | Terminated | Interrupted, Field(discriminator="status")
]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ProblemAnswer(BaseModel):
    """RFC 9457, with our `code`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not Found",
                    "status": 404,
                    "code": "SESSION_NOT_FOUND",
                    "detail": "there is no session 'notes'",
                    "request_id": "req_1c2d3e4f5a6b7c8d9e0f",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    hint: str | None = None
    # Of the first place in the body that does not fit.
    pointer: str | None = None
    errors: list[dict[str, str]] | None = None


class Sessions(Answer):
    sessions: list[SessionMeta]
    # Give it as `after`, for those that come next; absent when there are none.
    next_after: str | None = None


class Destroyed(Answer):
    deleted: bool


class Snapshot(Answer):
    session_id: str
    # Base64.
    snapshot: str
    size_bytes: int


class Cells(Answer):
    cells: list[CellInfo]


class ToolEntry(BaseModel):
    name: str
    description: str
    input_schema: dict[str, Any] | bool
    output_schema: dict[str, Any] | bool
    side_effect: str
    approval_policy: Any
    idempotent: bool
    defer_loading: bool
    limits: dict[str, Any]
    namespace: str | None = None


class Catalog(Answer):
    """`stubs` and `preamble` are in the session's language, for the prompt of whoever writes programs."""

    tools: list[ToolEntry]
    sources: list[dict[str, Any]]
    stubs: str
    preamble: str


class FileContent(Answer):
    path: str
    kind: Literal["file"]
    content: str
    encoding: Literal["text", "base64"]
    size_bytes: int
    hash: str
    read_only: bool
    modified_at: str


class Directory(Answer):
    path: str
    kind: Literal["directory"]
    entries: list[FileEntry]


class Matches(Answer):
    matches: list[FileMatch]


class FileAt(Answer):
    path: str
    hash: str | None = None
    size_bytes: int | None = None


class Moved(Answer):
    source: str = Field(alias="from")
    target: str = Field(alias="to")


class Values(Answer):
    values: list[ValueInfo]


class Value(Answer):
    key: str
    value: Any


class Secrets(Answer):
    secrets: list[SecretInfo]


class SecretSet(Answer):
    name: str


class Attachments(Answer):
    attachments: list[AttachmentInfo]


class AttachmentContent(Answer):
    id: str
    media_type: str
    size_bytes: int
    created_at: str
    content: str
    name: str | None = None


class Approvals(Answer):
    approvals: list[Approval]
    next_after: str | None = None


Outcome: TypeAlias = Literal["executed", "denied", "expired", "already_decided", "not_found"]


class DecidedAnswer(Answer):
    """`executed`: it was allowed, and its program goes on."""

    id: str
    outcome: Literal["executed", "denied", "expired", "already_decided"]
    approval: Approval


class DecidedOne(Answer):
    id: str
    outcome: Literal["executed", "denied", "expired", "already_decided", "not_found", "refused"]
    approval: Approval | None = None
    error: dict[str, str] | None = None


class DecidedMany(Answer):
    results: list[DecidedOne]


class RuntimeInfo(Answer):
    service: str
    runtime_api_version: str
    version: str
    bind_host: str
    port: int
    auth_required: bool
    transports: list[str]
    capabilities: dict[str, bool]
    experimental: dict[str, Any]
    languages: list[str]
    confinement: dict[str, str]


class Health(Answer):
    status: str


__all__ = ["AttachmentInfo", "FileInfo", "RunResult", "answer", "raw", "written"]
