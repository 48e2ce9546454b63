"""What requests may say, to the field: what is not here is refused. Values are checked by those who know them."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

_ID = r"^[a-zA-Z0-9_\-]{1,64}$"
_MOST = 2**40

SessionName: TypeAlias = Annotated[str, StringConstraints(pattern=_ID)]
LabelText: TypeAlias = Annotated[str, StringConstraints(max_length=256)]
Labels: TypeAlias = Annotated[
    dict[str, LabelText],
    Field(max_length=64, json_schema_extra={"propertyNames": {"maxLength": 256}}),
]
Milliseconds: TypeAlias = Annotated[int, Field(ge=0, le=86_400_000)]
Language: TypeAlias = Literal["python", "typescript", "type_script"]
Path: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Nothing(Body):
    """An empty object."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}]})


class Limits(Body):
    """Each may only narrow what there is."""

    memory_mb: int | None = Field(None, ge=1, le=_MOST)
    cpu_ms: int | None = Field(None, ge=1, le=_MOST)
    wall_ms: int | None = Field(None, ge=1, le=_MOST)
    max_stdout_bytes: int | None = Field(None, ge=1, le=_MOST)
    max_external_calls: int | None = Field(None, ge=0, le=_MOST)
    max_stack_depth: int | None = Field(None, ge=1, le=_MOST)

    def said(self) -> dict[str, int]:
        return {name: value for name, value in self if value is not None}


class FirstFile(Body):
    content: str
    encoding: Literal["text", "base64"] = "text"
    read_only: bool = False


class CreateSession(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": "notes", "language": "python", "title": "Notes", "labels": {"team": "a"}}]
        }
    )

    id: SessionName | None = None
    language: Language = "python"
    title: LabelText | None = None
    labels: Labels = Field(default_factory=dict)
    limits: Limits | None = None
    type_check: Literal["strict", "warn", "off"] | None = None
    durability: Literal["none", "cell", "call"] | None = None
    files: Annotated[dict[str, FirstFile], Field(max_length=1000)] = Field(default_factory=dict)


class ChangeSession(Body):
    """What is not said stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "Notes of May", "labels": {"team": "b"}}]})

    title: LabelText = ""
    labels: Labels = Field(default_factory=dict)

    def said(self) -> dict[str, Any]:
        return {name: value for name, value in self if name in self.model_fields_set}


class Run(Body):
    """A RunRequest. Its session is that of the path."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"code": "x = 20\nx + n", "inputs": {"n": 22}}]})

    code: str
    session_id: SessionName | None = None
    language: Language | None = None
    inputs: dict[str, Any] = Field(default_factory=dict)
    timeout_ms: int | None = Field(None, ge=1, le=_MOST)
    limits: Limits | None = None
    return_snapshot: bool = False
    validate_only: bool = False


class Validate(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"code": "1 +"}]})

    code: str
    inputs: dict[str, Any] = Field(default_factory=dict)


class Exec(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"code": "text('hello')", "yield_ms": 1000}]})

    code: str
    yield_ms: Milliseconds = 10_000
    max_output_tokens: int | None = Field(None, ge=0, le=2**53 - 1)
    isolated: bool = False
    inputs: dict[str, Any] = Field(default_factory=dict)
    limits: Limits | None = None


class Wait(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"yield_ms": 1000}]})

    yield_ms: Milliseconds = 10_000


class Fork(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "trial"}]})

    id: SessionName | None = None
    at: str | None = Field(None, max_length=64)


class Restore(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"snapshot": "Q0xPSVNURVI=", "id": "copy"}]})

    snapshot: str
    id: SessionName | None = None
    limits: Limits | None = None


class PutFile(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"content": "tea, salt"}]})

    content: str
    encoding: Literal["text", "base64"] = "text"


class OnePath(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"path": "/notes.txt"}]})

    path: Path


class Mkdir(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"path": "/reports/may"}]})

    path: Path
    parents: bool = True
    exist_ok: bool = False


class TwoPaths(Body):
    """`from` and `to`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"from": "/notes.txt", "to": "/old/notes.txt"}]})

    source: Path = Field(alias="from")
    target: Path = Field(alias="to")


class Grep(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"pattern": "salt", "glob": "*.txt"}]})

    pattern: Annotated[str, StringConstraints(min_length=1, max_length=1000)]
    path: Path = "/"
    glob: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    literal: bool = False
    limit: int = Field(100, ge=1, le=1000)


class PutValue(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"value": {"count": 3}}]})

    value: Any


class PutSecret(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"value": "…", "allow": ["shop.pay"]}]})

    value: Annotated[str, StringConstraints(min_length=1, max_length=65_536)]
    allow: (
        Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=256)]], Field(max_length=256)] | None
    ) = None


class AddAttachment(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "aGVsbG8=", "media_type": "text/plain", "name": "hello.txt"}]}
    )

    content: str
    media_type: Annotated[str, StringConstraints(min_length=3, max_length=255)]
    name: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None


class Decide(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"decision": "allow"}]})

    decision: Literal["allow", "allow_always", "deny"]
    message: Annotated[str, StringConstraints(max_length=4096)] | None = None
    rule: Annotated[str, StringConstraints(max_length=4096)] | None = None


class DecideOne(Decide):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "apr_01M7R1G5Y5EAR2RF91RSZBHS1Y", "decision": "deny"}]}
    )

    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]


class DecideMany(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"decisions": [{"id": "apr_01M7R1G5Y5EAR2RF91RSZBHS1Y", "decision": "allow"}]}]}
    )

    decisions: Annotated[list[DecideOne], Field(min_length=1, max_length=1000)]
