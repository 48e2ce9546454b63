"""Plugins: one that is shipped, one of your own with a state, and what happens to one that fails.

Run it: python examples/23_plugins.py
"""

import asyncio
import logging

from cloister import Cloister, Contribution, Event, Hook, HookedCall, PluginContext, PromptPart

logging.getLogger("cloister").setLevel(logging.CRITICAL)


class Greeter:
    name = "greeter"

    def attach(self, context: PluginContext) -> Contribution:
        greeted = [context.state if isinstance(context.state, int) else 0]

        async def greet(who: str) -> str:
            """Say hello."""
            greeted[0] += 1
            return f"hello {who}, number {greeted[0]}"

        text = PromptPart("notes", "Greet people by their names.")
        return Contribution(tools=[greet], prompt=[text], save=lambda: greeted[0])


class Clumsy(Hook):
    name = "clumsy"

    def attach(self, context: PluginContext) -> Contribution:
        return Contribution(hooks=[self])

    async def before_call(self, call: HookedCall) -> None:
        raise RuntimeError("oops")


def watch(event: Event) -> None:
    if event.kind == "plugin.disabled":
        print("disabled:", dict(event.data))


async def main() -> None:
    async with Cloister(plugins=["notes"], on_event=watch) as cloister:
        session = await cloister.open_session(plugins=[Greeter(), Clumsy()])
        for _ in range(2):
            result = await session.run("await greet('Ada')")
            print(result.result if result.ok else result.error and result.error.code)
        copy = await cloister.restore_session(await session.snapshot(), session_id="copy", plugins=[Greeter()])
        print((await copy.run("await greet('Bob')")).result)
        await session.run("await note_add('Ada was here', tags=['ada'])")
        print("notes:", (await session.run("await note_search('who was here')")).result)


asyncio.run(main())
