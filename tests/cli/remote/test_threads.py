import json
import subprocess
from typing import Any

import pytest

from cloister.client import Client
from tests.cli.shell import Shell
from tests.server.lab import ADMIN, Running


def told(done: "subprocess.CompletedProcess[str]") -> Any:
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def new(shell: Shell, *words: str) -> str:
    done = shell("threads", "new", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_thread_is_made_listed_shown_changed_and_put_away(shell: Shell) -> None:
    thread = new(shell, "--title", "Refunds of May", "--language", "typescript", "--label", "team=a")
    [row] = [line for line in shell("threads", "list", "--search", "of may").stdout.splitlines() if thread in line]
    assert "Refunds of May" in row
    shown = shell("threads", "show", thread).stdout
    assert "team=a" in shown
    detail = told(shell("threads", "show", thread, "--json"))
    assert detail["thread"]["title"] == "Refunds of May"
    assert shell("threads", "archive", thread).stdout == f"{thread} is put away\n"
    assert thread not in shell("threads", "list").stdout
    assert thread in shell("threads", "list", "--archived").stdout
    assert shell("threads", "archive", thread, "--undo").returncode == 0
    assert thread in shell("threads", "list", "--limit", "1000").stdout


def test_words_go_to_stdout_and_work_to_stderr_if_it_is_wanted(shell: Shell) -> None:
    done = shell("threads", "send", new(shell), "refund A7", "--calls", "--approve", "allow")
    assert (done.returncode, done.stdout) == (0, "Let me look.\nIt is paid.\n")
    for line in ('  | o = await get_order(order_id="A7")', "  note: halfway", "  > size is 2"):
        assert line in done.stderr.splitlines()
    assert "  call get_order  " in done.stderr
    assert "  call refund  " in done.stderr
    quiet = shell("threads", "send", new(shell), "refund A7", "--approve", "deny")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "Let me look.\nNothing was paid.\n", "")


def test_turn_that_waits_for_a_person_is_left_waiting_and_answered_later(shell: Shell) -> None:
    thread = new(shell)
    done = shell("threads", "send", thread, "refund A7")
    assert done.returncode == 5
    assert "`refund` needs approval" in done.stderr
    approval = done.stderr.split("cloister threads answer ")[1].split()[0]
    assert "waits for approval: refund" in shell("threads", "show", thread).stdout
    assert shell("threads", "answer", approval, "allow").stdout == f"{approval}: executed\n"
    late = shell("threads", "answer", approval, "deny")
    assert (late.returncode, late.stdout) == (1, f"{approval}: already decided\n")


def test_json_is_one_object_and_its_exit_code_says_how_the_turn_ended(shell: Shell) -> None:
    thread = new(shell)
    said = told(shell("threads", "send", thread, "hello", "--json", "--key", "k-1"))
    again = told(shell("threads", "send", thread, "hello", "--json", "--key", "k-1"))
    assert said["turn"]["id"] == again["turn"]["id"]
    failed = shell("threads", "send", new(shell), "fail", "--json")
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["turn"]["error"]["code"] == "model_refused"
    conflict = shell("threads", "send", thread, "other", "--key", "k-1")
    assert conflict.returncode == 1
    assert "k-1" in conflict.stderr


def test_what_a_program_does_wrong_is_shown_and_the_model_goes_on(shell: Shell) -> None:
    done = shell("threads", "send", new(shell), "slip", "--calls")
    assert (done.returncode, done.stdout) == (0, "I slipped.\n")
    assert "ZeroDivisionError" in done.stderr


def test_turn_is_begun_steered_and_ended_from_elsewhere(shell: Shell) -> None:
    thread = new(shell)
    turn = shell("threads", "send", thread, "nap", "--no-wait").stdout.strip()
    steered = shell("threads", "steer", thread, "in euros", "--id", "s-1")
    assert (steered.returncode, steered.stdout) == (0, "queued\n")
    assert shell("threads", "interrupt", thread).stdout == f"{turn} is interrupted\n"
    late = shell("threads", "steer", thread, "too late", "--turn", turn)
    assert (late.returncode, late.stdout) == (1, "dropped\n")
    nothing = shell("threads", "interrupt", thread)
    assert nothing.returncode == 2
    assert f"no turn of {thread} goes on" in nothing.stderr


def test_events_are_all_there_each_once(shell: Shell, server: Running) -> None:
    thread = new(shell)
    shell("threads", "send", thread, "hello")
    lines = [json.loads(line) for line in shell("threads", "events", thread, "--json").stdout.splitlines()]
    assert lines[0]["event"] == "thread.started"
    assert lines[-1]["event"] == "turn.completed"
    assert [one["previous_seq"] for one in lines] == [0, *(one["seq"] for one in lines[:-1])]
    with Client(server.url, ADMIN) as client:
        assert client.threads.get(thread).latest_seq == lines[-1]["seq"]
    later = shell("threads", "events", thread, "--since", str(lines[1]["seq"])).stdout.splitlines()
    assert len(later) == len(lines) - 2
    assert shell("threads", "events", thread, "--since", str(lines[-1]["seq"])).stdout == ""


def test_copy_of_a_thread_goes_on_by_itself(shell: Shell) -> None:
    thread = new(shell)
    shell("threads", "send", thread, "hello")
    fork = shell("threads", "fork", thread).stdout.strip()
    assert fork != thread
    assert shell("threads", "send", fork, "once more").stdout == "Hello again.\n"
    first = json.loads(shell("threads", "show", fork, "--json").stdout)["items"][0]["id"]
    summary = shell("threads", "compact", fork, "--summary", "They said hello.", "--through", first)
    assert (summary.returncode, summary.stdout) == (0, "They said hello.\n"), summary.stderr


@pytest.mark.parametrize("words", [("threads", "list"), ("chat",)])
def test_command_without_a_server_says_how_to_start_one(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell(*words, environment={"CLOISTER_URL": ""})
    assert done.returncode == 2
    assert "CLOISTER_URL" in done.stderr
    assert "cloister serve" in done.stderr


def test_server_that_is_not_there_and_thread_that_is_not_are_named(shell: Shell) -> None:
    done = shell("threads", "list", "--url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "http://127.0.0.1:1 cannot be reached" in done.stderr
    gone = shell("threads", "show", "thr_none")
    assert gone.returncode == 1
    assert "'thr_none'" in gone.stderr
    assert shell("threads", "send", "thr_none", " ").returncode == 2
