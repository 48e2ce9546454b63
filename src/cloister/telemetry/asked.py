"""A model whose requests are seen: each is a span, from the asking to the whole answer, and is measured."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Tracer

from cloister.core.answer import Answer, Piece, Retrying
from cloister.core.errors import CloisterError
from cloister.ports.model import Asked, Model, ModelCapabilities, Models
from cloister.telemetry import conventions as names
from cloister.telemetry.content import instructions_text, messages_text
from cloister.telemetry.meters import Meters
from cloister.telemetry.spans import failed


class SeenModels:
    def __init__(self, models: Models, see: Callable[[Model], Model]) -> None:
        self._models = models
        self._see = see

    def get(self, name: str) -> Model:
        return self._see(self._models.get(name))


class SeenModel:
    def __init__(
        self, model: Model, tracer: Tracer, meters: Meters, parent: Callable[[], Context | None], *, content: bool
    ) -> None:
        self._model = model
        self._tracer = tracer
        self._meters = meters
        self._parent = parent
        self._content = content

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> ModelCapabilities:
        return self._model.capabilities

    @asynccontextmanager
    async def request(self, asked: Asked) -> AsyncGenerator[AsyncIterator[Piece], None]:
        provider, name = names.PROVIDERS.get(self.provider, self.provider), self.name.partition(":")[2] or self.name
        known = {names.OPERATION: names.CHAT, names.PROVIDER: provider, names.REQUEST_MODEL: name}
        span = self._tracer.start_span(f"{names.CHAT} {name}", self._parent(), SpanKind.CLIENT, known)
        if asked.max_output_tokens is not None:
            span.set_attribute(names.REQUEST_MAX_TOKENS, asked.max_output_tokens)
        if asked.temperature is not None:
            span.set_attribute(names.REQUEST_TEMPERATURE, asked.temperature)
        if self._content:
            span.set_attribute(names.INPUT_MESSAGES, messages_text(asked.messages))
            if asked.instructions:
                span.set_attribute(names.SYSTEM_INSTRUCTIONS, instructions_text(asked.instructions))
        began, seen, error = time.perf_counter(), _Seen(span, content=self._content), None
        try:
            async with self._model.request(asked) as pieces:
                yield seen.through(pieces)
        except CloisterError as broke:
            error = broke.code
            failed(span, {"code": error})
            raise
        except BaseException as broke:
            # Interrupted, or a defect.
            error = type(broke).__name__
            failed(span, {"code": error})
            raise
        finally:
            span.end()
            usage = seen.answer.usage if seen.answer is not None else None
            self._meters.answer(provider, name, time.perf_counter() - began, usage, error)


class _Seen:
    def __init__(self, span: Span, *, content: bool) -> None:
        self._span = span
        self._content = content
        self.answer: Answer | None = None

    async def through(self, pieces: AsyncIterator[Piece]) -> AsyncGenerator[Piece, None]:
        async for piece in pieces:
            if isinstance(piece, Answer):
                self._whole(piece)
            elif isinstance(piece, Retrying):
                self._span.add_event("retrying", {names.ERROR_TYPE: piece.code, "wait_ms": piece.wait_ms})
            yield piece

    def _whole(self, answer: Answer) -> None:
        self.answer, span, usage = answer, self._span, answer.usage
        span.set_attribute(names.FINISH_REASONS, [str(answer.finish)])
        span.set_attribute(names.INPUT_TOKENS, usage.input_tokens)
        span.set_attribute(names.OUTPUT_TOKENS, usage.output_tokens)
        for name, count in (
            (names.CACHE_READ_TOKENS, usage.cached_tokens),
            (names.CACHE_WRITE_TOKENS, usage.cache_write_tokens),
            (names.REASONING_TOKENS, usage.reasoning_tokens),
        ):
            if count:
                span.set_attribute(name, count)
        if answer.model is not None:
            span.set_attribute(names.RESPONSE_MODEL, answer.model)
        if answer.response_id is not None:
            span.set_attribute(names.RESPONSE_ID, answer.response_id)
        if answer.cost is not None:
            span.set_attribute(names.COST, float(answer.cost.amount))
            span.set_attribute(names.COST_CURRENCY, answer.cost.currency)
        if self._content:
            span.set_attribute(names.OUTPUT_MESSAGES, messages_text([answer.message]))
