"""OpenAI's custom tools, whose input is text and not JSON, for a library that knows functions only.

The client is OpenAI's own; only its `responses.create` is another. A freeform tool is a function of one argument,
`input`, to the library, and a custom tool to the provider: offers and calls of the past are put into the provider's
words here, and calls that come back into the library's. All of it in the SDK's own types. The text of a call is that of
the item that is done, never what its pieces add up to: half a program is not handed on.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, cast

from openai import AsyncOpenAI, AsyncStream
from openai.resources.responses import AsyncResponses
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCustomToolCall,
    ResponseCustomToolCallInputDeltaEvent,
    ResponseCustomToolCallInputDoneEvent,
    ResponseFailedEvent,
    ResponseFunctionToolCall,
    ResponseIncompleteEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseStreamEvent,
)

from cloister.core.offer import FreeformTool
from cloister.threads.models.provided.freeform import arguments_of, input_of
from cloister.threads.models.provided.wire import CURRENT


class CustomToolClient(AsyncOpenAI):
    @property
    def responses(self) -> AsyncResponses:
        return _Responses(self)


class _Responses(AsyncResponses):
    async def create(self, **params: Any) -> Any:
        """As the SDK's, whose many shapes all come down to these."""
        offered = CURRENT.get().freeform
        create: Any = super().create
        if not offered:
            return await create(**params)
        if isinstance(params.get("tools"), list):
            params["tools"] = [_tool(one, offered) for one in params["tools"]]
        if isinstance(params.get("input"), list):
            params["input"] = _history(params["input"], offered)
        made: Any = await create(**params)
        return _whole(made) if isinstance(made, Response) else _Stream(made)


class _Stream:
    def __init__(self, inner: "AsyncStream[ResponseStreamEvent]") -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[ResponseStreamEvent]:
        async for event in self._inner:
            told = _event(event)
            if told is not None:
                yield told

    async def __aenter__(self) -> "_Stream":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._inner.close()


# -- to the provider --------------------------------------------------------------------------------------------------


def _tool(tool: Mapping[str, Any], offered: Mapping[str, FreeformTool]) -> Mapping[str, Any]:
    freeform = offered.get(tool.get("name", "")) if tool.get("type") == "function" else None
    if freeform is None:
        return tool
    made: dict[str, Any] = {"type": "custom", "name": tool["name"], "description": freeform.description}
    if freeform.grammar is not None:
        grammar = freeform.grammar
        made["format"] = {"type": "grammar", "syntax": grammar.syntax, "definition": grammar.definition}
    return made


def _history(items: Iterable[Mapping[str, Any]], offered: Mapping[str, FreeformTool]) -> list[Mapping[str, Any]]:
    made: list[Mapping[str, Any]] = []
    ours: set[str] = set()
    for item in items:
        match item:
            case {"type": "function_call", "name": str(name), "call_id": str(call_id), "arguments": arguments} if (
                name in offered and (text := input_of(arguments)) is not None
            ):
                ours.add(call_id)
                call = {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": text}
                made.append({**call, "id": item["id"]} if item.get("id") else call)
            case {"type": "function_call_output", "call_id": str(call_id)} if call_id in ours:
                output = {"type": "custom_tool_call_output", "call_id": call_id, "output": item["output"]}
                made.append(output)
            case _:
                made.append(item)
    return made


# -- from the provider ------------------------------------------------------------------------------------------------


def _whole(response: Response) -> Response:
    return response.model_copy(update={"output": [_item(one) for one in response.output]})


def _item(item: Any, *, begun: bool = False) -> Any:
    if not isinstance(item, ResponseCustomToolCall):
        return item
    return ResponseFunctionToolCall(
        type="function_call",
        id=item.id,
        call_id=item.call_id,
        name=item.name,
        arguments="" if begun else arguments_of(item.input),
    )


def _event(event: ResponseStreamEvent) -> ResponseStreamEvent | None:
    match event:
        case ResponseOutputItemAddedEvent():
            return event.model_copy(update={"item": _item(event.item, begun=True)})
        case ResponseOutputItemDoneEvent():
            return event.model_copy(update={"item": _item(event.item)})
        case ResponseCustomToolCallInputDeltaEvent() | ResponseCustomToolCallInputDoneEvent():
            return None
        case ResponseCompletedEvent() | ResponseIncompleteEvent() | ResponseFailedEvent():
            return cast("ResponseStreamEvent", event.model_copy(update={"response": _whole(event.response)}))
        case _:
            return event
