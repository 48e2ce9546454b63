"""Hooks are the host's own say about every call: here one keeps a log, one changes arguments, one refuses.

They run in order, before a call is judged and after it was made. A hook that fails denies.

Run it: python examples/11_hooks.py
"""

import asyncio

from cloister import CallContext, Cloister, Deny, ExternalCallRecord, Hook, HookedCall, Note, Replace, tool

PROGRAM = """
sent = [await send_mail(to="ada@example.com", text="hello")]
try:
    await send_mail(to="ada@elsewhere.net", text="psst")
except RuntimeError as error:
    sent.append(str(error))
sent
"""


class Audit(Hook):
    async def before_call(self, call: HookedCall) -> Note:
        print("log: asked for", call.name, call.arguments)
        return Note({"ticket": "T-1"})

    async def after_call(self, call: HookedCall, record: ExternalCallRecord) -> None:
        print("log: done", call.arguments, record.status.value)


class Footer(Hook):
    """Other arguments are validated like a program's own."""

    async def before_call(self, call: HookedCall) -> Replace | None:
        if not isinstance(call.arguments, dict) or "text" not in call.arguments:
            return None
        return Replace({**call.arguments, "text": f"{call.arguments['text']} [sent by a program]"})


class OurDomain(Hook):
    async def before_call(self, call: HookedCall) -> Deny | None:
        to = call.arguments.get("to") if isinstance(call.arguments, dict) else None
        return None if str(to).endswith("@example.com") else Deny("mail stays in the house", "write to @example.com")


@tool(side_effect="external_system")
async def send_mail(to: str, text: str, ctx: CallContext) -> str:
    """Send a mail."""
    return f"{ctx.notes['ticket']} to {to}: {text}"


async def main() -> None:
    async with Cloister(tools=[send_mail], hooks=[Audit(), Footer(), OurDomain()]) as cloister:
        result = await (await cloister.open_session()).run(PROGRAM)
        print(*result.result, sep="\n")


asyncio.run(main())
