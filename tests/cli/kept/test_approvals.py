"""`cloister approvals`: answers to the questions of programs that sleep in a store."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cloister import ApprovalClosed, Cloister, Completed, Failed, InvalidInput, SessionExists, WaitingForApproval, tool
from cloister.app.kept import Answered, answer, claimed
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Put
from cloister.stores.sqlite import SqliteStore
from tests.cli.shell import Shell
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


def test_run_leaves_a_question_and_the_next_one_goes_on_with_the_program(typed: Typist) -> None:
    words = "run --session s --tools bank --approve later"
    asked = typed(words, "-e", "paid = await refund('A7', 250)\npaid")
    [question] = typed("approvals list --json").json["approvals"]
    assert (asked.code, asked.out) == (5, "")
    assert f"cloister approvals allow {question['id']}" in asked.err
    assert typed("approvals allow", question["id"]).code == 0
    assert typed.paid == []
    again = typed(words, "-e", "paid")
    assert (again.code, again.out) == (0, '"paid 250"\n')
    assert typed.paid == ["A7 250"]


def test_question_that_nothing_would_keep_is_not_left(typed: Typist) -> None:
    refused = typed("run --tools bank --approve later", "-e", "1")
    assert (refused.code, "name one: --session NAME" in refused.err) == (2, True)


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
    nobody = typed("approvals watch --decide")
    assert (nobody.code, "no terminal" in nobody.err) == (2, True)


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
                async with claimed(store, "s"):
                    pass
        assert (await host.approvals())[0].state == "pending"
        assert (await host.decide(waiting.approvals[0].id, "allow")).state == "allowed"
        assert (await session.resume(waiting.cell_id)).result == "paid"


async def is_written(store: SqliteStore, approval_id: str) -> None:
    """A host knows of a question a moment before the store does."""
    since = 0
    while await store.approval(approval_id) is None:
        await store.wait_for_events(since, 60_000)
        since = await store.last_event()


@pytest.mark.anyio
async def test_host_takes_an_answer_from_outside_as_if_it_were_given_there(tmp_path: Path) -> None:
    made: list[int] = []

    @tool(approval_policy="manual")
    async def pay(n: int) -> str:
        made.append(n)
        return "paid"

    url = f"sqlite://{tmp_path}/c.db"
    async with (
        Cloister(tools=[pay], store=url, approval_ttl_ms=600_000) as host,
        SqliteStore(tmp_path / "c.db", clock=SystemClock()) as store,
    ):
        session = await host.open_session("s")

        async def ask(n: int) -> tuple[str, str]:
            seen = await session.exec(f"await pay({n})", yield_ms=30_000)
            assert isinstance(seen, WaitingForApproval)
            await is_written(store, seen.approvals[0].id)
            return seen.cell_id, seen.approvals[0].id

        cell, asked = await ask(1)
        tries = [answer(store, asked, "allow", wait_ms=30_000) for _ in range(100)]
        done = await asyncio.gather(*tries, return_exceptions=True)
        [won] = [one for one in done if isinstance(one, Answered)]
        assert (won.outcome, won.call, won.approval.state) == ("executed", "ok", "allowed")
        assert all("was decided before: 'allow'" in str(one) for one in done if isinstance(one, ApprovalClosed))
        assert sum(isinstance(one, ApprovalClosed) for one in done) == 99
        assert isinstance(await session.wait(cell, yield_ms=30_000), Completed)
        assert made == [1]
        kinds = [row.kind for row in await store.events()]
        assert (kinds.count("approval.answered"), kinds.count("approval.decided")) == (1, 1)
        assert kinds.index("approval.decided") < kinds.index("call.settled")

        cell, asked = await ask(2)
        no = await answer(store, asked, "deny", message="not today", wait_ms=30_000)
        assert (no.outcome, no.call) == ("denied", None)
        failed = await session.wait(cell, yield_ms=30_000)
        assert isinstance(failed, Failed)
        assert "not today" in failed.error.message

        cell, asked = await ask(3)
        with pytest.raises(InvalidInput, match="rule"):
            await answer(store, asked, "allow_always", rule="args.n <")
        always = await answer(store, asked, "allow_always", rule="args.n < 5", wait_ms=30_000)
        assert always.outcome == "executed"
        await session.wait(cell, yield_ms=30_000)
        assert isinstance(await session.exec("await pay(4)", yield_ms=30_000), Completed)
        assert made == [1, 3, 4]

        # A decision of the host's own, and an end of the question, are as good as an answer.
        cell, asked = await ask(5)
        await host.decide(asked, "deny")
        with pytest.raises(ApprovalClosed, match="'deny'"):
            await answer(store, asked, "allow")
        await session.wait(cell, yield_ms=30_000)
        cell, asked = await ask(6)
        await session.terminate(cell)
        with pytest.raises(ApprovalClosed, match="cancelled"):
            await answer(store, asked, "allow")
        # One that `run` asks is taken too, and used when the run is resumed.
        waiting = await session.run("await pay(7)")
        await is_written(store, waiting.approvals[0].id)
        async with session.events() as events:
            assert (await answer(store, waiting.approvals[0].id, "allow")).outcome in ("written", "allowed")
            async for event in events:
                if event.kind == "approval.decided":
                    break
        assert (await session.resume(waiting.cell_id)).result == "paid"
        assert made == [1, 3, 4, 7]


@pytest.mark.anyio
async def test_one_host_answers_the_questions_of_another(tmp_path: Path) -> None:
    @tool(approval_policy="manual")
    async def pay(n: int) -> str:
        return f"paid {n}"

    url = f"sqlite://{tmp_path}/c.db"
    async with Cloister(tools=[pay], store=url) as host, Cloister(store=url) as other:
        session = await host.open_session("s")
        seen = await session.exec("import asyncio\nawait asyncio.gather(pay(1), pay(2), pay(3))", yield_ms=30_000)
        assert isinstance(seen, WaitingForApproval)
        first, *more = [one.id for one in seen.approvals]
        async with SqliteStore(tmp_path / "c.db", clock=SystemClock()) as store:
            for one in seen.approvals:
                await is_written(store, one.id)
        assert (await other.decide(first, "allow")).state == "allowed"
        with pytest.raises(ApprovalClosed):
            await other.decide(first, "deny")
        items = [{"id": one, "decision": "allow"} for one in (*more, first, "apr_nothing")]
        codes = [one.error and one.error["code"] for one in await other.decide_many(items)]
        assert codes == [None, None, "APPROVAL_CLOSED", "APPROVAL_NOT_FOUND"]
        ended = await session.wait(seen.cell_id, yield_ms=30_000)
        while not isinstance(ended, Completed):
            ended = await session.wait(seen.cell_id, yield_ms=30_000)
        assert ended.result == ["paid 1", "paid 2", "paid 3"]


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


@pytest.mark.anyio
async def test_answer_to_what_nobody_waits_for_any_more_counts_for_nothing(tmp_path: Path) -> None:
    @tool(approval_policy="manual")
    async def pay() -> str:
        return "paid"

    url = f"sqlite://{tmp_path}/c.db"
    async with Cloister(tools=[pay], store=url) as host:
        asked = (await (await host.open_session("s")).run("await pay()")).approvals[0]
    async with SqliteStore(tmp_path / "c.db", clock=SystemClock()) as store:
        question, cell = await store.approval(asked.id), await store.cell(asked.cell_id)
        assert question is not None
        assert cell is not None
        # As a host leaves it that is killed between its question and the cell that asks.
        orphan = {**question.doc, "approval": {**question.doc["approval"], "id": "apr_orphan", "cell_id": "cel_none"}}
        async with claimed(store, "s") as ours:
            await ours.write([Put(replace(question, id="apr_orphan", cell_id="cel_none", doc=orphan))])
            await ours.write([Put(replace(cell, live=False))])
        for one in ("apr_orphan", asked.id):
            with pytest.raises(ApprovalClosed, match="cancelled"):
                await answer(store, one, "allow")
            kept = await store.approval(one)
            assert kept is not None
            assert kept.state == "cancelled"
        assert [row.kind for row in await store.events()].count("approval.cancelled") == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_questions_of_a_host_are_put_to_who_watches_and_decided_there(shell: Shell) -> None:
    with shell.terminal("repl", "--session", "s", "--tools", "bank") as host:
        host.enter("await refund('A7', 250)", "s")
        host.match(r"(needs approval|apr_\w+)")
        with shell.terminal("approvals", "watch", "--decide") as watch:
            watch.until("asks  refund")
            watch.answer("y\n")
            watch.until("has made the call: ok")
            # One that is decided elsewhere is taken off the screen.
            host.enter("await refund('B8', 300)", "s")
            asked = watch.match(r"(apr_\w+)  s  asks")
            watch.until("Allow it?")
            asyncio.run(deny(shell.data / "cloister.db", asked))
            watch.until(f"{asked}  s  deny")
            host.enter("await refund('C9', 400)", "s")
            watch.answer("\x04")
            assert watch.end() == 0
    assert (shell.here / "paid").read_text() == "A7 250\n"


async def deny(path: Path, asked: str) -> None:
    async with SqliteStore(path, clock=SystemClock()) as store:
        await answer(store, asked, "deny", wait_ms=30_000)
