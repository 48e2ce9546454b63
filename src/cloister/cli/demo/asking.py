"""The act in which a person is asked: the program sleeps until the answer, and uses a secret that it never sees."""

import json
import secrets
from typing import Literal

from cloister.app import Cloister
from cloister.cli.demo.programs import REFUNDING
from cloister.cli.demo.shop import Bank
from cloister.cli.demo.stage import Stage, size
from cloister.cli.source import Source
from cloister.core.run import RunResult
from cloister.sessions import Session

_NO = "ask the bank first"


async def ask_a_person(stage: Stage) -> bool:
    """Play the act in both languages; whether it went as it should."""
    went_well = True
    for language, code in REFUNDING.items():
        bank = Bank()
        token = {"BANK_TOKEN": {"value": bank.TOKEN, "allowed": ["refund"]}}
        key = secrets.token_bytes(32)
        async with Cloister(tools=bank.tools(), secrets=token, snapshot_key=key) as cloister:
            session = await cloister.open_session(language=language)
            stage.program(source := Source("cell", code, language))
            result = await session.run(code)
            result = await _decide(stage, cloister, session, result, "allow")
            result = await _decide(stage, cloister, session, result, "deny")
            stage.line(f"   printed: {result.stdout.strip()}")
            stage.line(f"-> {json.dumps(result.result)}")
            stage.findings(result, source)
        hidden = bank.TOKEN not in repr(result)
        saw = "never saw it" if hidden else "saw it"
        stage.line(f"   refunds made: {len(bank.told)}; the bank got {' '.join(bank.told)}, the program {saw}")
        went_well = went_well and result.ok and hidden and bank.told == [bank.TOKEN]
    return went_well


async def _decide(
    stage: Stage, cloister: Cloister, session: Session, waiting: RunResult, decision: Literal["allow", "deny"]
) -> RunResult:
    """Show what a person is asked and what is left of the program meanwhile, and go on with the answer."""
    if not waiting.approvals:
        return waiting
    asked = waiting.approvals[0]
    given = ", ".join(f"{name}={json.dumps(asked.arguments[name])}" for name in ("order_id", "cents"))
    holds = "no worker" if session.worker_pid is None else f"worker {session.worker_pid}"
    stage.line(f"a person is asked: {asked.capability}({given})")
    stage.line(f"   the program holds {holds}, it is {size(len(await session.snapshot()))}; the answer: {decision}")
    await cloister.decide(asked.id, decision, message=_NO if decision == "deny" else None)
    return await session.resume(waiting.cell_id)
