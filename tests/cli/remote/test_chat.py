import re

from cloister.client import Client
from cloister.core.turn import Status
from tests.cli.shell import Shell, Terminal
from tests.cli.typing import Typist
from tests.client.relay import relay
from tests.server.lab import ADMIN, Running


def say(screen: Terminal, text: str) -> None:
    """Wait for the prompt, type, and press Enter."""
    screen.until("you>")
    screen.type(f"{text}\r")


def thread_on(screen: Terminal) -> str:
    return screen.match(r"cloister chat, (thr_\w+)")


def test_conversation_shows_words_programs_and_calls_and_asks_whoever_sits_there(shell: Shell) -> None:
    with shell.terminal("chat", "--new", "--title", "Refunds") as screen:
        thread = thread_on(screen)
        say(screen, "refund A7")
        screen.until("Let me look.")
        screen.until('  | o = await get_order(order_id="A7")')
        screen.match(r"  call get_order  (\d+ ms)  ok")
        screen.until("  note: halfway")
        screen.until("`refund` needs approval")
        screen.answer("y\n")
        screen.match(r"  call refund  (\d+ ms)  ok")
        screen.until("  > size is 2")
        screen.until("It is paid.")
        say(screen, "/threads")
        screen.until(thread)
        say(screen, "/nothing")
        screen.until("there is no /nothing")
        screen.until("you>")
        screen.type("\x04")
        assert screen.end() == 0
    # The thread that was used last goes on, with what was said in it.
    with shell.terminal("chat", thread) as screen:
        screen.until("> refund A7")
        screen.until("It is paid.")
        say(screen, "/quit")
        assert screen.end() == 0


def test_what_is_typed_while_a_turn_goes_on_is_said_in_its_middle_and_ctrl_c_ends_it(
    shell: Shell, server: Running
) -> None:
    with shell.terminal("chat", "--new") as screen:
        thread = thread_on(screen)
        say(screen, "nap")
        screen.until("  | await nap()")
        screen.type("in euros\n")
        screen.until("  queued")
        screen.type("/steer and soon\n")
        screen.until("  queued")
        screen.type("/open thr_other\n")
        screen.until("a turn goes on here")
        screen.interrupt()
        screen.until("the turn was interrupted")
        assert "INTERRUPTED" not in screen.screen
        say(screen, "hello")
        screen.until("Hello again.")
        screen.until("you>")
        screen.type("\x04")
        assert screen.end() == 0
        # What was typed is on the screen already.
        assert "\n> hello" not in screen.screen
    with Client(server.url, ADMIN) as client:
        assert [one.status for one in client.threads.get(thread).turns] == [Status.INTERRUPTED, Status.COMPLETED]


def test_question_that_is_put_off_is_put_again_or_answered_elsewhere(shell: Shell, server: Running) -> None:
    with shell.terminal("chat", "--new") as screen, Client(server.url, ADMIN) as client:
        thread = thread_on(screen)
        say(screen, "refund A7")
        # Ctrl-D at the question is no answer.
        screen.answer("\x04")
        screen.match(r"(apr_\w+) waits")
        screen.type("/approve\n")
        screen.until("Allow it? [y/N/a/?] ")
        [question] = client.threads.get(thread).pending_approvals
        assert client.approvals.decide(question.id, "deny").outcome == "denied"
        screen.until("was answered elsewhere")
        screen.until("Nothing was paid.")
        screen.until("you>")
        screen.type("\x04")
        assert screen.end() == 0


def test_second_ctrl_c_leaves_and_so_does_quit_and_the_turn_is_the_servers(shell: Shell, server: Running) -> None:
    with relay(server.url) as way, Client(server.url, ADMIN) as client:
        with shell.terminal("chat", "--new", "--url", way.url) as screen:
            thread = thread_on(screen)
            say(screen, "nap")
            screen.until("  | await nap()")
            # The server does not hear of it.
            way.flows.clear()
            screen.interrupt()
            screen.until("another Ctrl-C leaves it to the server")
            screen.interrupt()
            screen.until("the turn goes on at the server")
            assert screen.end() == 130
        [turn] = client.threads.get(thread).turns
        assert turn.status is Status.IN_PROGRESS
        with shell.terminal("chat", thread) as screen:
            screen.until("  | await nap()")
            screen.type("/quit\n")
            screen.until("the turn goes on at the server")
            assert screen.end() == 0
        client.threads.interrupt(thread, turn.id)


def test_each_line_of_a_pipe_is_a_turn(typed: Typist) -> None:
    done = typed("chat --new", stdin="hello\n/title Piped\n\nand more\r\n/quit\nnever said")
    assert (done.code, done.out, done.err) == (0, "Hello, said the model.\nHello again.\n", "")
    assert "Piped" in typed("threads list").out


def test_pipe_ends_with_the_code_of_its_last_turn_or_where_nobody_can_be_asked(typed: Typist) -> None:
    assert typed("chat --new", stdin="fail\n").code == 1
    waits = typed("chat --new", stdin="refund A7\nnever said\n")
    assert (waits.code, waits.out) == (5, "Let me look.\n")
    assert re.search(r"cloister threads answer apr_\w+ allow", waits.err)
    denied = typed("chat --new --approve deny", stdin="refund A7\n")
    assert (denied.code, denied.out) == (0, "Let me look.\nNothing was paid.\n")
    wrong = typed("chat --new", stdin="/nothing\nhello\n")
    assert (wrong.code, wrong.out) == (2, "Hello, said the model.\n")


def test_terms_of_a_new_thread_are_not_for_one_that_is_there(typed: Typist) -> None:
    done = typed("chat thr_01 --title x")
    assert done.code == 2
    assert "--title" in done.err
    made = typed("threads new --driver native --json").json
    assert made["thread"]["driver"] == "native"
