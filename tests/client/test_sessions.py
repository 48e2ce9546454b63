import inspect
from typing import Any

import pytest

from cloister.client import AsyncClient, Client, RequestRefused
from cloister.client.asynchronous import AsyncEventStream
from cloister.core.approval import Answer, ApprovalState, Decision
from cloister.core.cell import Completed, Terminated, WaitingForApproval, Yielded
from cloister.core.codes import RunStatus
from cloister.core.errors import FileNotFound, InvalidInput, SessionExists, SessionNotFound
from cloister.core.file import InitialFile
from cloister.core.language import Language
from tests.client.conftest import QUICK
from tests.server.lab import ADMIN, OTHER, Running


def test_session_is_made_described_copied_and_gone(client: Client) -> None:
    made = client.sessions.create(
        "notes", language="typescript", title="Notes", labels={"team": "a"}, limits={"wall_ms": 5000},
        files={"a.txt": "tea", "b.bin": InitialFile(b"\xff", read_only=True)},
    )  # fmt: skip
    assert (made.id, made.language, made.title, made.limits.wall_ms) == ("notes", Language.TYPESCRIPT, "Notes", 5000)
    assert client.sessions.get("notes") == made
    assert client.sessions.update("notes", title="Notes of May").title == "Notes of May"
    with pytest.raises(SessionExists, match="'notes'"):
        client.sessions.create("notes")
    assert client.sessions.run("notes", "let n = 6").ok
    fork = client.sessions.fork("notes", new_id="trial")
    assert client.sessions.run(fork.id, "n * 7").result == 42
    copy = client.sessions.restore(client.sessions.snapshot("notes"), session_id="copy")
    assert client.sessions.run(copy.id, "n").result == 6
    found = client.sessions.list(limit=2)
    assert [one.id for one in found.items] == ["copy", "notes"]
    assert [one.id for one in client.sessions.list(after=found.next_after).items] == ["trial"]
    assert "getOrder" in client.sessions.catalog("notes").stubs or "get_order" in client.sessions.catalog("notes").stubs
    for name in ("notes", "trial", "copy"):
        client.sessions.delete(name)
    with pytest.raises(SessionNotFound):
        client.sessions.get("notes")


def test_what_a_program_does_wrong_is_in_the_result_and_what_the_request_does_is_raised(client: Client) -> None:
    client.sessions.create("runs")
    done = client.sessions.run("runs", "print(n)\nawait get_order('A7')", inputs={"n": 3}, return_snapshot=True)
    assert (done.status, done.result, done.stdout) == (RunStatus.OK, {"size": 2}, "3\n")
    assert done.snapshot is not None
    assert done.external_calls[0].name == "get_order"
    failed = client.sessions.run("runs", "1 / 0")
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (RunStatus.RUNTIME_ERROR, "ZeroDivisionError") or failed.error.span
    assert client.sessions.validate("runs", "1 +").status is RunStatus.VALIDATION_ERROR
    with pytest.raises(InvalidInput) as refused:
        client.sessions.run("runs", "1", limits={"wall_ms": 0})
    cause = refused.value.__cause__
    assert isinstance(cause, RequestRefused)
    assert (cause.problem.status, cause.problem.pointer) == (422, "/limits/wall_ms")
    assert (cause.problem.request_id or "").startswith("req_")


def test_run_with_a_key_is_done_once(client: Client) -> None:
    client.sessions.create("once")
    client.sessions.run("once", "n = 0")
    for _ in range(2):
        assert client.sessions.run("once", "n += 1\nn", key="k-1").result == 1
    with pytest.raises(RequestRefused, match="IDEMPOTENCY_CONFLICT"):
        client.sessions.run("once", "n", key="k-1")


def test_cell_is_looked_at_waited_for_and_ended(client: Client) -> None:
    client.sessions.create("cells")
    done = client.sessions.exec("cells", "text('hello')\n1 + 1")
    assert isinstance(done, Completed)
    assert (done.result, done.content[0]["text"]) == (2, "hello")
    seen = client.sessions.exec("cells", "yield_control()\nwhile True: pass", yield_ms=0)
    assert isinstance(seen, Yielded)
    assert [one.id for one in client.sessions.cells("cells")] == [seen.cell_id]
    assert isinstance(client.sessions.wait("cells", seen.cell_id, yield_ms=1), Yielded)
    assert isinstance(client.sessions.terminate("cells", seen.cell_id), Terminated)


def test_question_is_found_answered_and_said_to_be_answered(client: Client) -> None:
    client.sessions.create("asks")
    cells = [client.sessions.exec("asks", f"await refund('A7', {n})", isolated=True) for n in range(3)]
    assert all(isinstance(one, WaitingForApproval) for one in cells)
    first, *others = client.approvals.list(state="pending", session_id="asks").items
    assert (first.capability, first.state) == ("refund", ApprovalState.PENDING)
    assert client.approvals.decide(first.id, "allow").outcome == "executed"
    assert client.approvals.decide(first.id, "deny").outcome == "already_decided"
    answers = {others[0].id: Answer(Decision.DENY, "no"), others[1].id: "allow", "apr_none": "allow"}
    outcomes = client.approvals.decide_many(answers)
    assert [one.outcome for one in outcomes] == ["denied", "executed", "not_found"]
    assert outcomes[0].approval is not None
    assert outcomes[0].approval.message == "no"
    for cell in cells:
        assert client.sessions.wait("asks", cell.cell_id).status in ("completed", "failed")


def test_files_are_what_was_written_whatever_they_are_called(client: Client) -> None:
    client.sessions.create("files")
    for name in ("a b#?.txt", "d/ü%2F.txt", "…"):
        wrote = client.files.write("files", name, f"in {name}")
        found = client.files.read("files", name)
        assert (found.text, found.hash) == (f"in {name}", wrote.hash)
    with pytest.raises(RequestRefused) as changed:
        client.files.write("files", "…", "other", if_match="0" * 64)
    assert changed.value.problem.code == "PRECONDITION_FAILED"
    with pytest.raises(RequestRefused):
        client.files.write("files", "…", "other", if_absent=True)
    client.files.write("files", "raw", b"\x00\xff", if_absent=True)
    assert client.files.read("files", "/workspace/raw").data == b"\x00\xff"
    client.files.mkdir("files", "deep/er")
    client.files.move("files", "raw", "deep/er/raw")
    client.files.copy("files", "deep/er/raw", "deep/raw")
    assert client.files.stat("files", "deep").kind == "directory"
    names = {one.path.rpartition("/")[2] for one in client.files.list("files", "deep", recursive=True)}
    assert names == {"er", "raw"}
    assert [one.line for one in client.files.grep("files", "in a b", literal=True)] == [1]
    client.files.delete("files", "deep", recursive=True)
    with pytest.raises(FileNotFound):
        client.files.read("files", "deep/raw")
    with pytest.raises(InvalidInput, match="directory"):
        client.files.read("files", "d")
    with pytest.raises(InvalidInput, match=r"\.\."):
        client.files.read("files", "../files")


def test_values_secrets_and_attachments_are_kept(client: Client) -> None:
    client.sessions.create("holds")
    for key in ("k", "/a//b", "..", "x?y"):
        client.values.set("holds", key, {"of": key, "none": None})
        assert client.values.get("holds", key) == {"of": key, "none": None}
    assert {one.key for one in client.values.list("holds")} == {"k", "/a//b", "..", "x?y"}
    client.values.delete("holds", "k")
    with pytest.raises(RequestRefused, match="'k'"):
        client.values.get("holds", "k")
    client.secrets.set("holds", "CARD", "4242", allow=["pay"])
    [secret] = client.secrets.list("holds")
    assert (secret.name, secret.allowed) == ("CARD", ("pay",))
    assert client.sessions.run("holds", "await pay(secret('CARD'))").result == "paid with 4 characters"
    client.secrets.delete("holds", "CARD")
    made = client.attachments.add("holds", b"\xff\x00", "image/png", name="dot.png")
    assert client.attachments.list("holds") == (made,)
    found = client.attachments.get("holds", made.id)
    assert (found.data, found.media_type, found.name) == (b"\xff\x00", "image/png", "dot.png")
    client.attachments.delete("holds", made.id)
    assert client.attachments.list("holds") == ()


def test_session_of_another_tenant_is_not_there(client: Client, server: Running) -> None:
    client.sessions.create("ours")
    with Client(server.url, OTHER, retry=QUICK) as other, pytest.raises(SessionNotFound):
        other.sessions.get("ours")


def test_wrong_token_is_refused_by_name_and_info_takes_none(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_TOKEN", "not-the-token-of-anybody")
    with Client(server.url, retry=QUICK) as stranger:
        assert stranger.info().service == "cloister"
        with pytest.raises(RequestRefused) as refused:
            stranger.sessions.list()
    assert refused.value.problem.code == "UNAUTHENTICATED"


@pytest.mark.anyio
async def test_async_client_has_the_same_methods_and_awaits_them(server: Running) -> None:
    async with AsyncClient(server.url, ADMIN, retry=QUICK) as client:
        assert (await client.info()).capabilities["event_replay"]
        await client.sessions.create("awaited")
        assert (await client.sessions.run("awaited", "20 + 22")).result == 42
        with pytest.raises(SessionNotFound):
            await client.sessions.get("elsewhere")
        assert isinstance(client.events(session_id="awaited"), AsyncEventStream)


def test_both_clients_have_the_same_methods_with_the_same_arguments(server: Running) -> None:
    def methods(client: Any) -> dict[str, str]:
        found: dict[str, str] = {}
        for noun in ("sessions", "files", "values", "secrets", "attachments", "approvals", "threads"):
            room: object = getattr(client, noun)
            for name in dir(type(room)):
                if not name.startswith("_") and name != "send":
                    found[f"{noun}.{name}"] = str(inspect.signature(getattr(room, name)))
        return found

    waits, awaited = methods(Client(server.url, ADMIN)), methods(AsyncClient(server.url, ADMIN))
    assert waits == awaited
    assert len(waits) > 45
