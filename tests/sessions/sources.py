"""A source of tools whose other side is in the test's own hands."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from cloister import Capability, Manifest, SideEffect, SourceCall, SourceFailed
from cloister.core.value import Json

Answer = Callable[[Any, SourceCall], Awaitable[Json]]


async def _echo(arguments: Any, _about: SourceCall) -> Json:
    return arguments


def object_of(**properties: str) -> dict[str, Any]:
    """A schema with these properties, all of them required."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


class Shop:
    """`offer` and `withdraw` change what there is; `tell` says so. What is asked of it is noted."""

    def __init__(self, name: str = "shop", *tools: str, namespace: str | None = None, deferred: bool = False) -> None:
        self._name = name
        self.namespace = namespace
        self.deferred = deferred
        self.tools: dict[str, tuple[Capability, Answer, bool]] = {}
        self.asked: list[str] = []
        self.calls: list[tuple[str, Json, SourceCall]] = []
        self.entered = self.left = self.read = 0
        # The other side is gone, with this message.
        self.gone: str | None = None
        self.entered_in: object = None
        self.left_in: object = None
        self._listeners: list[Callable[[], None]] = []
        self._version = 0
        for tool in tools:
            self.offer(tool)

    def offer(
        self,
        name: str,
        schema: Mapping[str, Any] | None = None,
        answer: Answer = _echo,
        *,
        description: str = "",
        deferred: bool | None = None,
        namespace: str | None = None,
        **more: Any,
    ) -> None:
        made = Capability(
            name,
            namespace or self.namespace,
            description,
            input_schema=object_of(n="integer") if schema is None else schema,
            side_effect=SideEffect.READ,
            **more,
        )
        self.tools[made.full_name] = (made, answer, self.deferred if deferred is None else deferred)
        self._version += 1

    def withdraw(self, name: str) -> None:
        del self.tools[name]
        self._version += 1

    def tell(self) -> None:
        for listener in list(self._listeners):
            listener()

    # -- the port ------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def revision(self) -> str:
        return str(self._version)

    async def __aenter__(self) -> "Shop":
        self.entered += 1
        self.entered_in = asyncio.current_task()
        if self.gone is not None:
            raise SourceFailed(self.gone, hint="start it", gone=True)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.left += 1
        self.left_in = asyncio.current_task()

    async def manifests(self) -> Sequence[Manifest]:
        self.read += 1
        return [
            Manifest(made.name, made.namespace, made.description, tuple(made.input_schema.get("properties", {})), later)
            for made, _, later in self.tools.values()
        ]

    async def contract(self, full_name: str) -> Capability:
        self.asked.append(full_name)
        if full_name not in self.tools:
            raise SourceFailed(f"there is no {full_name}")
        return self.tools[full_name][0]

    async def call(self, full_name: str, arguments: Json, about: SourceCall) -> Json:
        self.calls.append((full_name, arguments, about))
        if self.gone is not None:
            raise SourceFailed(self.gone, hint="wait", gone=True)
        if full_name not in self.tools:
            raise SourceFailed(f"there is no {full_name}")
        return await self.tools[full_name][1](arguments, about)

    async def refresh(self) -> None:
        if self.gone is not None:
            raise SourceFailed(self.gone, gone=True)

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(changed)
        return lambda: self._listeners.remove(changed)
