import json
from typing import Any

import pytest

from cloister.client import Client
from tests.cli.shell import Shell
from tests.cli.typing import Said, Typist
from tests.server.lab import ADMIN, Running


def told(done: Said) -> Any:
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def new(typed: Typist, *words: str) -> str:
    done = typed("threads new", *words)
    assert (done.code, done.err) == (0, "")
    return done.out.strip()


def test_thread_is_made_listed_shown_changed_and_put_away(typed: Typist) -> None:
    thread = new(typed, "--title", "Refunds of May", "--language", "typescript", "--label", "team=a")
    [row] = [line for line in typed("threads list", "--search", "of may").out.splitlines() if thread in line]
    assert "Refunds of May" in row
    shown = typed("threads show", thread).out
    assert "team=a" in shown
    assert "archived" not in shown
    detail = told(typed("threads show", thread, "--json"))
    assert detail["thread"]["title"] == "Refunds of May"
    assert typed("threads archive", thread).out == f"{thread} is put away\n"
    assert thread not in typed("threads list").out
    assert thread in typed("threads list", "--archived").out
    assert typed("threads archive", thread, "--undo").code == 0
    assert thread in typed("threads list", "--limit", "1000").out


def test_words_go_to_stdout_and_work_to_stderr_if_it_is_wanted(typed: Typist) -> None:
    done = typed("threads send", new(typed), "refund A7", "--calls", "--approve", "allow")
    assert (done.code, done.out) == (0, "Let me look.\nIt is paid.\n")
    for line in ('  | o = await get_order(order_id="A7")', "  note: halfway", "  > size is 2"):
        assert line in done.err.splitlines()
    assert "  call get_order  " in done.err
    assert "  call refund  " in done.err
    quiet = typed("threads send", new(typed), "refund A7", "--approve", "deny")
    assert (quiet.code, quiet.out, quiet.err) == (0, "Let me look.\nNothing was paid.\n", "")


def test_turn_that_waits_for_a_person_is_left_waiting_and_answered_later(typed: Typist) -> None:
    thread = new(typed)
    done = typed("threads send", thread, "refund A7")
    assert done.code == 5
    assert "`refund` needs approval" in done.err
    approval = done.err.split("cloister threads answer ")[1].split()[0]
    assert "waits for approval: refund" in typed("threads show", thread).out
    assert typed("threads answer", approval, "allow").out == f"{approval}: executed\n"
    late = typed("threads answer", approval, "deny")
    assert (late.code, late.out) == (1, f"{approval}: already decided\n")


def test_json_is_one_object_and_its_exit_code_says_how_the_turn_ended(typed: Typist) -> None:
    thread = new(typed)
    said = told(typed("threads send", thread, "hello", "--json", "--key", "k-1"))
    again = told(typed("threads send", thread, "hello", "--json", "--key", "k-1"))
    assert said["turn"]["id"] == again["turn"]["id"]
    failed = typed("threads send", new(typed), "fail", "--json")
    assert failed.code == 1
    assert json.loads(failed.out)["turn"]["error"]["code"] == "model_refused"
    conflict = typed("threads send", thread, "other", "--key", "k-1")
    assert conflict.code == 1
    assert "k-1" in conflict.err


def test_what_a_program_does_wrong_is_shown_and_the_model_goes_on(typed: Typist) -> None:
    done = typed("threads send", new(typed), "slip", "--calls")
    assert (done.code, done.out) == (0, "I slipped.\n")
    assert "ZeroDivisionError" in done.err


def test_turn_is_begun_steered_and_ended_from_elsewhere(typed: Typist) -> None:
    thread = new(typed)
    turn = typed("threads send", thread, "nap", "--no-wait").out.strip()
    steered = typed("threads steer", thread, "in euros", "--id", "s-1")
    assert (steered.code, steered.out) == (0, "queued\n")
    assert typed("threads interrupt", thread).out == f"{turn} is interrupted\n"
    late = typed("threads steer", thread, "too late", "--turn", turn)
    assert (late.code, late.out) == (1, "dropped\n")
    nothing = typed("threads interrupt", thread)
    assert nothing.code == 2
    assert f"no turn of {thread} goes on" in nothing.err


def test_events_are_all_there_each_once(typed: Typist, server: Running) -> None:
    thread = new(typed)
    typed("threads send", thread, "hello")
    lines = [json.loads(line) for line in typed("threads events", thread, "--json").out.splitlines()]
    assert lines[0]["event"] == "thread.started"
    assert lines[-1]["event"] == "turn.completed"
    assert [one["previous_seq"] for one in lines] == [0, *(one["seq"] for one in lines[:-1])]
    with Client(server.url, ADMIN) as client:
        assert client.threads.get(thread).latest_seq == lines[-1]["seq"]
    later = typed("threads events", thread, "--since", str(lines[1]["seq"])).out.splitlines()
    assert len(later) == len(lines) - 2
    assert typed("threads events", thread, "--since", str(lines[-1]["seq"])).out == ""


def test_copy_of_a_thread_goes_on_by_itself(typed: Typist) -> None:
    thread = new(typed)
    typed("threads send", thread, "hello")
    fork = typed("threads fork", thread).out.strip()
    assert fork != thread
    assert typed("threads send", fork, "once more").out == "Hello again.\n"
    first = json.loads(typed("threads show", fork, "--json").out)["items"][0]["id"]
    summary = typed("threads compact", fork, "--summary", "They said hello.", "--through", first)
    assert (summary.code, summary.out) == (0, "They said hello.\n"), summary.err


@pytest.mark.parametrize("words", ["threads list", "chat"])
def test_command_without_a_server_says_how_to_start_one(
    typed: Typist, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOISTER_URL")
    done = typed(words)
    assert done.code == 2
    assert "CLOISTER_URL" in done.err
    assert "cloister serve" in done.err


def test_server_that_is_not_there_and_thread_that_is_not_are_named(typed: Typist) -> None:
    done = typed("threads list", "--url", "http://127.0.0.1:1")
    assert done.code == 1
    assert "http://127.0.0.1:1 cannot be reached" in done.err
    for words in (("threads show", "thr_none"), ("chat", "thr_none"), ("threads send", "thr_none", "hello")):
        gone = typed(*words)
        assert gone.code == 1
        assert "'thr_none'" in gone.err
        assert "cloister threads list" in gone.err
    unknown = typed("threads answer", "apr_none", "allow")
    assert (unknown.code, "cloister threads show" in unknown.err) == (1, True)
    for verb in ("send", "steer"):
        assert typed(f"threads {verb}", "thr_none", " ").code == 2


def test_ctrl_c_leaves_the_turn_to_the_server_and_says_so(shell: Shell) -> None:
    thread = shell("threads", "new").stdout.strip()
    with shell.terminal("threads", "send", thread, "nap") as screen:
        screen.until("await nap()")
        screen.interrupt()
        screen.until(f"the turn goes on at the server, and cloister threads interrupt {thread} ends it")
        assert screen.end() == 130
    assert shell("threads", "interrupt", thread).returncode == 0
