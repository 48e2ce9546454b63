"""One call made in three ways: by a Python program, by a TypeScript program, and by the host itself."""

import asyncio
from itertools import count
from typing import Any

from cloister import Cloister, RunResult, Session
from cloister.ports.clock import SystemClock

LANGUAGES = ("python", "typescript")
WAYS = (*LANGUAGES, "host")

_CATCH = {
    "python": "try:\n    said = await {call}\nexcept RuntimeError as e:\n    said = str(e)\nsaid",
    "typescript": (
        "var said; try {{ said = await {call} }} catch (e) {{ said = `${{e.code}}: ${{e.message}}`"
        " + (e.hint ? ` (${{e.hint}})` : '') }} said"
    ),
}


class House:
    """A Cloister for many tests: to start its workers is what takes time. Every test has sessions of its own."""

    def __init__(self, **options: Any) -> None:
        usual: dict[str, Any] = {"workers": 2, "type_check": "off", "snapshot_key": b"k" * 32}
        self.cloister = Cloister(**(usual | options))
        self._numbers = count(1)

    async def __aenter__(self) -> "House":
        await self.cloister.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.cloister.__aexit__(*exc)

    async def open(self, way: str, *tools: object, **options: Any) -> Session:
        """A session for calls made in this way; leave it by `async with`."""
        language = way if way in LANGUAGES else "python"
        return await self.cloister.open_session(f"s{next(self._numbers)}", language=language, tools=tools, **options)


class HeldClock(SystemClock):
    """Stands still, and sleeps last, until the test moves it on."""

    def __init__(self) -> None:
        self._added = 0.0
        self._moved = asyncio.Condition()
        self.asleep: list[float] = []

    def monotonic(self) -> float:
        return self._added

    async def sleep(self, seconds: float) -> None:
        until = self._added + seconds
        async with self._moved:
            self.asleep.append(seconds)
            self._moved.notify_all()
            await self._moved.wait_for(lambda: self._added >= until)

    async def until_asleep(self, sleeps: int = 1) -> None:
        async with self._moved:
            await asyncio.wait_for(self._moved.wait_for(lambda: len(self.asleep) >= sleeps), 30)

    async def move(self, seconds: float) -> None:
        async with self._moved:
            self._added += seconds
            self._moved.notify_all()


async def call(session: Session, way: str, name: str, /, **arguments: Any) -> RunResult:
    """A program that does nothing but make this call, or the call alone."""
    if way == "host":
        return await session.call(name, arguments)
    return await session.run(program(way, name), inputs={"given": arguments})


def program(way: str, name: str) -> str:
    return written(way, name, "**given" if way == "python" else "given")


def written(way: str, name: str, arguments: str = "") -> str:
    """The call as the language writes it."""
    namespace, _, own = name.rpartition(".")
    if way == "typescript":
        return f"await {namespace or 'tools'}.{own}({arguments})"
    return (f"from {namespace} import {own}\n" if namespace else "") + f"await {own}({arguments})"


def caught(language: str, name: str, arguments: str = "") -> str:
    """A program that says what became of a call: its result, or `CODE: message (hint)`."""
    imported, _, made = written(language, name, arguments).rpartition("\n")
    return (f"{imported}\n" if imported else "") + _CATCH[language].format(call=made.removeprefix("await "))
