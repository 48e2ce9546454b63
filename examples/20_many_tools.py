"""Tools from a source, most of them hidden until they are searched for, and a preamble that fits its budget.

A source is anything that tells which tools it has and answers their calls: here, forty of them in a dictionary.

Run it: python examples/20_many_tools.py
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from cloister import Capability, Cloister, Manifest, SourceCall

CITIES = ["Oslo", "Lima", "Pune", "Accra", "Quito", "Turin", "Hanoi", "Perth"]
VERBS = ["forecast", "tides", "sunrise", "pollen", "quakes"]
DAYS = {"type": "object", "properties": {"days": {"type": "integer", "default": 1}}, "additionalProperties": False}


class Weather:
    name = "weather"
    revision = "1"

    async def manifests(self) -> Sequence[Manifest]:
        return [
            Manifest(f"{verb}_{city.lower()}", "weather", f"The {verb} for {city}.", ("days",), defer_loading=True)
            for city in CITIES
            for verb in VERBS
        ]

    async def contract(self, full_name: str) -> Capability:
        return Capability(full_name.removeprefix("weather."), "weather", input_schema=DAYS)

    async def call(self, full_name: str, arguments: Any, about: SourceCall) -> str:
        return f"{full_name} for {arguments.get('days', 1)} days: fine"

    async def refresh(self) -> None: ...
    async def __aenter__(self) -> "Weather":
        return self

    async def __aexit__(self, *exc: object) -> None: ...
    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


async def main() -> None:
    async with Cloister(sources=[Weather()]) as cloister:
        session = await cloister.open_session()
        before = session.preamble(1000)
        print(f"{before.tokens} tokens, {before.full} of {len(session.tools)} tools shown")
        found = await session.run("[tool['name'] for tool in await search_tools('sunrise in Quito', limit=2)]")
        print("found:", found.result)
        result = await session.run("from weather import sunrise_quito\nawait sunrise_quito(days=3)")
        print("->", result.result)
        print("now shown:", *[line for line in session.preamble(1000).text.splitlines() if "sunrise_quito(" in line])


asyncio.run(main())
