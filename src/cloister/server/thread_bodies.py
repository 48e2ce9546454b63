"""What may be asked of threads and turns, to the field. The core's own checks are asked where a field is read."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator

from cloister.core.content import MAX_CONTENT_BYTES, MAX_PARTS, parse_content
from cloister.core.dynamic import MAX_DYNAMIC_TOOLS, DynamicToolCallResult, DynamicToolSpec, check_specs
from cloister.core.errors import InvalidInput
from cloister.core.language import parse_language
from cloister.core.thread import (
    MAX_LABEL,
    MAX_LABELS,
    MAX_TITLE,
    DriverKind,
    ThreadParams,
    Wake,
    check_labels,
    check_metadata,
    check_prompt,
    check_title,
)
from cloister.core.turn import (
    LOCAL,
    MAX_OPERATION_KEY_BYTES,
    SteerParams,
    TurnBudget,
    TurnEnvironmentParams,
    TurnParams,
    check_client_id,
)
from cloister.server.bodies import Body, Language, SessionName
from cloister.server.fitting import fits, refusal
from cloister.threads import check_input_schema

_MOST = 2**53 - 1

# With a bound, because only then half a surrogate pair is refused here and not by the store.
Text: TypeAlias = Annotated[str, StringConstraints(max_length=MAX_CONTENT_BYTES)]
Title: TypeAlias = Annotated[str, StringConstraints(max_length=MAX_TITLE), AfterValidator(fits(check_title))]
ModelName: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Prompt: TypeAlias = Annotated[Text, AfterValidator(fits(check_prompt))]
ThreadLabels: TypeAlias = Annotated[
    dict[str, str],
    Field(
        max_length=MAX_LABELS,
        json_schema_extra={
            "propertyNames": {"minLength": 1, "maxLength": MAX_LABEL},
            "additionalProperties": {"type": "string", "maxLength": MAX_LABEL},
        },
    ),
    AfterValidator(fits(check_labels)),
]
Metadata: TypeAlias = Annotated[dict[str, Any], AfterValidator(fits(check_metadata))]
OwnId: TypeAlias = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_OPERATION_KEY_BYTES), AfterValidator(fits(check_client_id))
]


class InputText(Body):
    type: Literal["input_text"]
    text: Text


class InputImage(Body):
    type: Literal["input_image"]
    image_url: Annotated[Text, StringConstraints(pattern=r"^(https?://|data:image/)")]
    detail: Literal["auto", "low", "high"] | None = None


Part: TypeAlias = Annotated[InputText | InputImage, Field(discriminator="type")]
Parts: TypeAlias = Annotated[list[Part], Field(max_length=MAX_PARTS)]


def _plain(parts: str | list[Any]) -> Any:
    if isinstance(parts, str):
        return parts
    return [part.model_dump(exclude_none=True) for part in parts]


def _way(given: object) -> str:
    return "text" if isinstance(given, str) else "parts"


Input: TypeAlias = Annotated[
    Annotated[Text, Tag("text")] | Annotated[list[Part], Field(min_length=1, max_length=MAX_PARTS), Tag("parts")],
    Discriminator(_way),
    AfterValidator(fits(lambda parts: parse_content(_plain(parts)))),
]


class DynamicTool(Body):
    """A tool that the client answers: see `tool_call.requested`. `input_schema` is JSON Schema."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]
    namespace: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)] | None = None
    description: Text = ""
    input_schema: Annotated[dict[str, Any], AfterValidator(fits(check_input_schema))] = Field(default_factory=dict)
    defer_loading: bool = False

    @model_validator(mode="after")
    def _fits(self) -> "DynamicTool":
        try:
            self.spec()
        except InvalidInput as error:
            raise refusal(error) from None
        return self

    def spec(self) -> DynamicToolSpec:
        return DynamicToolSpec(self.name, self.namespace, self.description, self.input_schema, self.defer_loading)


def _specs(tools: list[DynamicTool]) -> tuple[DynamicToolSpec, ...]:
    return tuple(tool.spec() for tool in tools)


DynamicTools: TypeAlias = Annotated[
    list[DynamicTool],
    Field(max_length=MAX_DYNAMIC_TOOLS),
    AfterValidator(fits(lambda tools: check_specs(_specs(tools)))),
]


class Environment(Body):
    environment_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] = LOCAL
    cwd: Annotated[str, StringConstraints(min_length=1, max_length=4096)] = "/"


class CreateThread(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "title": "Refunds",
                    "driver": "code",
                    "system_prompt": "You look after orders.",
                    "dynamic_tools": [
                        {
                            "namespace": "shop",
                            "name": "pay",
                            "description": "Pay an order.",
                            "input_schema": {"type": "object", "properties": {"order": {"type": "string"}}},
                        }
                    ],
                    "labels": {"team": "a"},
                }
            ]
        }
    )

    title: Title | None = None
    session_id: SessionName | None = None
    model: ModelName | None = None
    system_prompt: Prompt | None = None
    driver: Literal["code", "native"] = "code"
    language: Language | None = None
    wake: Literal["notify", "turn"] = "notify"
    dynamic_tools: DynamicTools = Field(default_factory=list[DynamicTool])
    environments: Annotated[list[Environment], Field(max_length=64)] = Field(default_factory=list[Environment])
    labels: ThreadLabels = Field(default_factory=dict)
    metadata: Metadata = Field(default_factory=dict)

    def params(self) -> ThreadParams:
        return ThreadParams(
            title=self.title,
            session_id=self.session_id,
            model=self.model,
            system_prompt=self.system_prompt,
            driver=DriverKind(self.driver),
            language=parse_language(self.language) if self.language is not None else None,
            wake=Wake(self.wake),
            dynamic_tools=_specs(self.dynamic_tools),
            environments=tuple(TurnEnvironmentParams(one.environment_id, one.cwd) for one in self.environments),
            labels=self.labels,
            metadata=self.metadata,
        )


class ChangeThread(Body):
    """What is not said stays; null takes a title, a model or a prompt away."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "Refunds of May", "archived": True}]})

    title: Title | None = None
    labels: ThreadLabels = Field(default_factory=dict)
    metadata: Metadata = Field(default_factory=dict)
    archived: bool = False
    model: ModelName | None = None
    system_prompt: Prompt | None = None
    wake: Literal["notify", "turn"] = "notify"

    def said(self) -> dict[str, Any]:
        return {name: value for name, value in self if name in self.model_fields_set}


class ForkThread(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"turn_id": "trn_01M7R1G5Y5EAR2RF91RSZBHS1Y"}]})

    turn_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None


class Compact(Body):
    """Up to `through_item_id`, or all but the last `keep_last` turns (1 unless given). Without a `summary` the thread's
    model makes one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"keep_last": 2}]})

    keep_last: int | None = Field(None, ge=0, le=_MOST)
    summary: Annotated[str, StringConstraints(min_length=1, max_length=1 << 20)] | None = None
    through_item_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None


class Budget(Body):
    """Requests to the model, tokens of all of them, and the time since the turn was started."""

    iterations: int = Field(TurnBudget().iterations, ge=1, le=_MOST)
    tokens: int | None = Field(None, ge=1, le=_MOST)
    wall_ms: int | None = Field(None, ge=1, le=_MOST)

    def said(self) -> TurnBudget:
        return TurnBudget(self.iterations, self.tokens, self.wall_ms)


class BeginTurn(Body):
    """`operation_key`: the same one with the same content is the same turn, also after years."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"input": "Refund order A7.", "operation_key": "r-17"}]})

    input: Input
    model: ModelName | None = None
    dynamic_tools: DynamicTools = Field(default_factory=list[DynamicTool])
    environment_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    operation_key: OwnId | None = None
    budget: Budget | None = None
    switch_provider: bool = False
    accepts_finish: bool = False

    def params(self) -> TurnParams:
        return TurnParams(
            _plain(self.input),
            model=self.model,
            dynamic_tools=_specs(self.dynamic_tools),
            environment_id=self.environment_id,
            operation_key=self.operation_key,
            budget=self.budget.said() if self.budget is not None else TurnBudget(),
            switch_provider=self.switch_provider,
            accepts_finish=self.accepts_finish,
        )


class Steer(Body):
    """What comes again with the same `id` is not delivered again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"input": "Order A8, I meant.", "id": "mine-1"}]})

    input: Input
    id: OwnId | None = None

    def params(self) -> SteerParams:
        return SteerParams(_plain(self.input), self.id)


class ToolCallAnswer(Body):
    """Without `success` the program gets an error, with the texts of `content` as its message."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"success": True, "content": [{"type": "input_text", "text": "paid"}]}]}
    )

    success: bool
    content: Annotated[
        Parts, AfterValidator(fits(lambda parts: parse_content(_plain(parts), "content", may_be_empty=True)))
    ] = Field(default_factory=list[Any])

    def result(self) -> DynamicToolCallResult:
        return DynamicToolCallResult(self.success, _plain(self.content))
