"""`cloister approvals`: answers to the questions of programs that sleep in a store."""

import asyncio
import json
from pathlib import Path

import pytest

from cloister import Cloister, SessionExists, tool
from cloister.app.kept import answer, claimed
from cloister.ports.clock import SystemClock
from cloister.stores.sqlite import SqliteStore
from tests.cli.typing import Said, Typist


def leave_a_question(typed: Typist) -> str:
    """A program that waits for a person, in a session that no host has."""
    typed("repl --session s --tools bank", stdin="await refund('A7', 250)\n")
    [question] = typed("approvals list --json").json["approvals"]
    return question["id"]


def go_on(typed: Typist) -> Said:
    return typed("repl --session s --tools bank", stdin="1 + 1\n")


def test_answer_is_found_by_whoever_goes_on_with_the_session(typed: Typist) -> None:
    asked = leave_a_question(typed)
    assert asked in typed("approvals list").out
    shown = typed("approvals show", asked[-8:])
    assert "order_id" in shown.out
    assert "A7" in shown.out
    assert typed("approvals show", asked, "--json").json["approval"]["state"] == "pending"
    assert typed("approvals allow", asked[-8:]).code == 0
    assert typed.paid == []
    again = typed("approvals deny", asked)
    assert (again.code, "was decided before: 'allow'" in again.err) == (1, True)
    assert '"paid 250"' in go_on(typed).out
    assert typed.paid == ["A7 250"]
    assert typed("approvals list").out == ""
    assert typed("approvals list --state allowed --json").json["approvals"][0]["id"] == asked


def test_denied_program_is_told_why(typed: Typist) -> None:
    asked = leave_a_question(typed)
    assert typed("approvals deny", asked, "--message", "not today").code == 0
    assert "not today" in go_on(typed).err
    assert typed.paid == []


def test_unknown_question_is_named(typed: Typist) -> None:
    asked = leave_a_question(typed)
    refused = typed("approvals allow apr_nothing")
    assert (refused.code, "apr_nothing" in refused.err) == (1, True)
    assert typed("approvals allow", asked, "--rule", "true").code == 2


def test_watch_shows_what_is_open_and_what_becomes_of_it(typed: Typist) -> None:
    asked = leave_a_question(typed)
    [line] = typed("approvals watch --max-lines 1 --json").out.splitlines()
    assert json.loads(line)["approval"]["id"] == asked
    assert typed("approvals watch --timeout-ms 1").out.split()[:3] == [asked, "s", "asks"]
    typed("approvals allow", asked)
    assert typed("approvals watch --timeout-ms 1").out == ""


@pytest.mark.anyio
async def test_session_of_a_host_is_its_own_to_change_and_everybodys_to_read(tmp_path: Path) -> None:
    @tool(approval_policy="manual")
    async def pay() -> str:
        return "paid"

    url = f"sqlite://{tmp_path}/c.db"
    async with Cloister(tools=[pay], store=url) as host:
        session = await host.open_session("s")
        waiting = await session.run("await pay()")
        async with SqliteStore(tmp_path / "c.db", clock=SystemClock()) as store:
            with pytest.raises(SessionExists, match="process"):
                await answer(store, waiting.approvals[0].id, "allow")
            with pytest.raises(SessionExists):
                async with claimed(store, "s"):
                    pass
        assert (await host.approvals())[0].state == "pending"
        assert (await host.decide(waiting.approvals[0].id, "allow")).state == "allowed"
        assert (await session.resume(waiting.cell_id)).result == "paid"


@pytest.mark.anyio
async def test_of_many_answers_one_counts(tmp_path: Path) -> None:
    @tool(approval_policy="manual")
    async def pay() -> str:
        return "paid"

    url = f"sqlite://{tmp_path}/c.db"
    async with Cloister(tools=[pay], store=url) as host:
        session = await host.open_session("s")
        asked = (await session.run("await pay()")).approvals[0].id
    async with SqliteStore(tmp_path / "c.db", clock=SystemClock()) as store:
        answers = [answer(store, asked, word) for word in ("allow", "deny", "allow", "deny")]
        done = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(not isinstance(one, BaseException) for one in done) == 1
        kept = await store.approval(asked)
        assert kept is not None
        assert kept.state in ("allowed", "denied")
        assert [row.kind for row in await store.events()].count("approval.decided") == 1
