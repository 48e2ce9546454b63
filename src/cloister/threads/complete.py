"""`complete(prompt)` inside a cell: a program asks a model, through the gate like any other call.

Off unless the host gives `CompleteOptions`. The answer is journalled before the program sees it, so it is paid once: a
program that wakes after a crash finds it there, and one whose answer was on its way is told OUTCOME_UNKNOWN and not
asked for again in silence. Knows no session; which of them may use it is for policies to say.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from cloister.core.answer import Answer, FinishReason
from cloister.core.capability import SideEffect
from cloister.core.codes import Code
from cloister.core.errors import CloisterError, InvalidInput, ModelError
from cloister.core.inside import CompleteOptions
from cloister.core.limits import CapabilityLimits
from cloister.core.message import user_text
from cloister.core.value import Json
from cloister.ports.journal import Journal
from cloister.ports.model import Asked, Models, answered
from cloister.tools.allowance import Allowance
from cloister.tools.context import CallContext
from cloister.tools.contract import Contract
from cloister.tools.tool import Tool, ToolError

log = logging.getLogger("cloister.threads")
NAME = "complete"
_MOST_SCHEMA_BYTES = 64 << 10
_DESCRIPTION = """\
Ask a model, and have its answer as text. It knows nothing but the prompt: no conversation, no tools, no files.
"""
_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "minLength": 1, "description": "What it is asked, with all that it must know."},
        "instructions": {"type": "string", "description": "What holds for the answer, such as its form."},
        "schema": {"type": "object", "description": "A JSON Schema: the answer is then a value that fits it."},
        "max_output_tokens": {"type": "integer", "minimum": 1, "description": "How long the answer may be."},
    },
    "required": ["prompt"],
    "additionalProperties": False,
}


def complete_tool(options: CompleteOptions, models: Models, model: str, journals: Sequence[Journal]) -> Tool:
    """`model` is the name that is meant. Where the calls of a cell are on record is asked of `journals`."""
    return Tool.from_schema(
        name=NAME,
        description=_DESCRIPTION,
        handler=_Completing(options, models, model, journals),
        input_schema=_INPUT,
        side_effect=SideEffect.EXTERNAL_SYSTEM,
        limits=CapabilityLimits(timeout_ms=options.timeout_ms, concurrency=options.concurrency),
        idempotent=False,
    )


class _Completing:
    def __init__(self, options: CompleteOptions, models: Models, model: str, journals: Sequence[Journal]) -> None:
        self._options = options
        self._models = models
        self._model = model
        self._allowance = Allowance(NAME, options.max_calls, journals)

    async def __call__(
        self,
        prompt: str,
        instructions: str = "",
        schema: Mapping[str, Json] | None = None,
        max_output_tokens: int | None = None,
        *,
        context: CallContext,
    ) -> Json:
        fits = _contract(schema) if schema is not None else None
        await self._allowance.admit(context)
        if schema is not None:
            instructions = f"{instructions}\n\n{_in_json(schema)}".strip()
        most = min(max_output_tokens or self._options.max_output_tokens, self._options.max_output_tokens)
        answer = await self._ask(Asked((user_text(prompt),), instructions, tool_choice="none", max_output_tokens=most))
        usage = answer.usage
        context.used(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            requests=max(usage.requests, 1),
            **_cost(answer),
        )
        text = _whole(answer, most)
        return _value(text, fits) if fits is not None else text

    async def _ask(self, asked: Asked) -> Answer:
        try:
            return await answered(self._models.get(self._model), asked)
        except ModelError as error:
            raise ToolError(str(error.code), error.message, error.hint) from None
        except CloisterError as error:
            # What is wrong with a host's configuration, and where that lies, is no business of a program.
            log.error("%s() cannot ask %s: %s", NAME, self._model, error)
            raise ToolError(str(error.code), f"`{NAME}` has no model that can be asked now") from None


def _cost(answer: Answer) -> dict[str, int]:
    cost = answer.cost
    return {"cost_micros": round(cost.amount * 1_000_000)} if cost is not None and cost.currency == "USD" else {}


def _whole(answer: Answer, most: int) -> str:
    """The text, if that is all there is: half an answer is not handed out as a whole one."""
    match answer.finish:
        case FinishReason.LENGTH:
            hint = "ask for less, or allow more `max_output_tokens`"
            raise ToolError("answer_cut", f"the answer did not end within {most} tokens", hint)
        case FinishReason.CONTENT_FILTER:
            raise ToolError("model_refused", "the provider's filter kept the answer back")
        case FinishReason.ERROR:
            raise ToolError("model_failed", "the model ended its answer with an error")
        case _:
            return answer.message.text


# -- answers in JSON --------------------------------------------------------------------------------------------------


def _contract(schema: Mapping[str, Json]) -> Contract:
    if len(json.dumps(schema)) > _MOST_SCHEMA_BYTES:
        raise ToolError(Code.INVALID_ARGUMENTS, f"the schema has more than {_MOST_SCHEMA_BYTES} bytes")
    try:
        return Contract.compile(schema, what="the schema")
    except InvalidInput as error:
        raise ToolError(Code.INVALID_ARGUMENTS, error.message, error.hint) from None


def _in_json(schema: Mapping[str, Json]) -> str:
    return f"Answer with one JSON value and nothing else. It must fit this JSON Schema:\n{json.dumps(schema)}"


def _value(text: str, fits: Contract) -> Json:
    try:
        value = cast("Json", json.loads(_bare(text)))
    except (ValueError, RecursionError):
        raise ToolError("answer_invalid", "the model's answer is not JSON", "ask again, or without `schema`") from None
    violation = fits.check(value)
    if violation is not None:
        raise ToolError("answer_invalid", f"the model's answer does not fit: {violation.path}: {violation.message}")
    return value


def _bare(text: str) -> str:
    """Without the fence that models like to put around JSON."""
    said = text.strip()
    if said.startswith("```") and said.endswith("```") and "\n" in said:
        return said[said.index("\n") : -3]
    return said


def check_complete(options: object, models: Models | None, model: str | None) -> tuple[CompleteOptions, Models, str]:
    """What a host gave, with the model that is meant. Raises `InvalidInput`."""
    if not isinstance(options, CompleteOptions):
        raise InvalidInput(
            f"complete is CompleteOptions, not {type(options).__name__}", hint="write complete=CompleteOptions(...)"
        )
    name = options.model or model
    if models is None or name is None:
        raise InvalidInput(
            "complete() needs a model to ask",
            hint="give the Cloister models= and model=, or CompleteOptions(model=...)",
        )
    return options, models, name
