"""The repl as somebody at a terminal meets it."""

import subprocess

from tests.cli.shell import Shell

ENDLESS = "print('be' + 'gun')\nwhile True: pass\n"
ASKS = "await refund('A7', 250)"
PATIENT = ("--cpu-ms", "60000")


def test_cell_prints_its_value_and_what_it_defines_stays(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.enter("n = 6")
        terminal.enter("print('out' + 'put'); {'n': n * 7}")
        terminal.until('output\r\n{\r\n  "n": 42\r\n}\r\n')
        terminal.enter(":quit")
        assert terminal.end() == 0


def test_function_of_several_lines_ends_with_an_empty_one(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.enter("def double(n):\rif n > 9:\rreturn n * 2")
        # Out of the inner block, by one level.
        terminal.type("\x7freturn 0\r\r")
        terminal.enter("[double(21), double(1)]")
        terminal.until("[\r\n  42,\r\n  0\r\n]\r\n")
        terminal.enter("\x04")
        assert terminal.end() == 0


def test_open_bracket_goes_on_with_the_next_line(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.enter("sum([40,\r2])")
        terminal.until("42\r\n")


def test_pasted_program_is_one_cell_with_its_empty_lines(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.until("repl>")
        terminal.paste("def f():\n    a = 40\n\n    return a + 2\n\nf()")
        terminal.type("\r")
        terminal.until("42\r\n")


def test_error_shows_its_place_and_the_session_goes_on(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.enter("n = 42; n / 0")
        terminal.until("error[RUNTIME_ERROR]")
        terminal.until("at <repl>:1:9")
        terminal.until("^^^^^")
        terminal.enter("n")
        terminal.until("42\r\n")
        terminal.enter(":quit")
        assert terminal.end() == 0


def test_interrupt_stops_the_cell_and_the_session_goes_on(shell: Shell) -> None:
    with shell.terminal("repl", *PATIENT) as terminal:
        terminal.enter("n = 41")
        terminal.until("repl>")
        terminal.paste("n = 0\n" + ENDLESS)
        terminal.type("\r")
        terminal.until("begun")
        terminal.interrupt()
        terminal.until("cloister: the cell was stopped")
        terminal.until("the session's variables are as they were before this cell")
        terminal.enter("n + 1")
        terminal.until("42\r\n")
        terminal.enter(":quit")
        assert terminal.end() == 0


def test_interrupt_cancels_the_calls_of_the_cell(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "shop") as terminal:
        terminal.enter("await nap()")
        terminal.until("begun")
        terminal.interrupt()
        terminal.until("cloister: the cell was stopped")
        terminal.enter("6 * 7")
        terminal.until("42\r\n")


def test_interrupt_at_the_prompt_clears_the_line(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.until("repl>")
        terminal.type("this is wrong\x03")
        terminal.until("repl>")
        terminal.type("wrong too")
        terminal.until("wrong too")
        # The same by a signal that somebody else sends.
        terminal.interrupt()
        terminal.enter("6 * 7")
        terminal.until("42\r\n")
        terminal.enter("\x04")
        assert terminal.end() == 0
        assert "error" not in terminal.screen


def test_cell_that_waits_for_approval_gives_the_prompt_back(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "bank") as terminal:
        terminal.enter(f"print('said ' + {ASKS})")
        terminal.until("cloister: `refund` needs approval (side effect: write)")
        approval = terminal.match(r"approval (apr_\w+): answer with :approve \w{4} allow, or deny")
        terminal.enter("'later'")
        terminal.until("stands in line behind one that waits for approval")
        terminal.enter(":cells")
        cell = terminal.match(rf"(cel_\w+)  asleep  \d+ m?s  waiting for refund, approval {approval}\r\n")
        terminal.match(r"(cel_\w+)  queued  \d+ m?s\r\n")
        assert shell.paid == []
        terminal.enter(f":approve {approval[-4:].lower()}")
        terminal.until("said paid 250\r\n")
        terminal.until(f"cell {cell} has ended: completed")
        terminal.until('"later"\r\n')
        terminal.enter(":cells")
        terminal.until("no open cells")
        terminal.enter(":quit")
        assert terminal.end() == 0
    assert shell.paid == ["A7 250"]


def test_denied_call_tells_the_program_why(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "bank") as terminal:
        terminal.enter(ASKS)
        tail = terminal.match(r"answer with :approve (\w{4}) allow")
        terminal.enter(f":approve {tail} deny ask the bank first")
        terminal.until("`refund` was not allowed: ask the bank first")
    assert shell.paid == []


def test_answer_for_all_is_given_with_the_command(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "bank", "--approve", "allow") as terminal:
        terminal.enter(ASKS)
        terminal.until('"paid 250"\r\n')


def test_waiting_cell_can_be_stopped_and_asked_about(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "bank") as terminal:
        terminal.enter(ASKS)
        terminal.until("answer with :approve")
        terminal.enter(":cells")
        cell = terminal.match(r"(cel_\w+)  asleep")
        terminal.enter(f":wait {cell}")
        terminal.until("`refund` needs approval")
        terminal.enter(f":stop {cell[-4:]}")
        terminal.until(f"cell {cell} has ended: terminated")
        terminal.enter("6 * 7")
        terminal.until("42\r\n")
    assert shell.paid == []


def test_whoever_leaves_is_told_what_has_not_ended(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "bank") as terminal:
        terminal.enter(ASKS)
        terminal.until("or deny\r\n")
        terminal.enter("\x04")
        assert terminal.end() == 0
        assert terminal.screen.splitlines()[-1].endswith("of repl has not ended, and goes no further")
    assert shell.paid == []


def test_calls_notes_texts_and_images_are_shown(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "shop") as terminal:
        terminal.enter("text('shown' * 2); image('https://a.example/x.png'); notify('half' * 2); await get_order('A7')")
        terminal.until("shownshown\r\n")
        terminal.until("  note: halfhalf\r\n")
        terminal.match(r"(  call get_order  \d+ ms  ok)\r\n")
        terminal.until("[image https://a.example/x.png]\r\n")
        terminal.enter(":calls")
        terminal.match(r"(  call get_order  \d+ ms  ok)\r\n")
    with shell.terminal("repl", "--no-calls", "-t", "shop") as terminal:
        terminal.enter("await get_order('A7')")
        terminal.enter(":quit")
        assert terminal.end() == 0
        assert "  call" not in terminal.screen


def test_typescript_goes_on_until_its_braces_are_closed(shell: Shell) -> None:
    with shell.terminal("repl", "--language", "typescript", "-t", "shop") as terminal:
        terminal.enter("const double = (n: number) => {\rreturn n * 2\r}")
        terminal.enter("double((await tools.get_order({order_id: 'A'})).size + 20)")
        terminal.until("42\r\n")
        terminal.enter("null.x")
        terminal.until("error[")
        terminal.enter(":quit")
        assert terminal.end() == 0


# -- without a terminal ----------------------------------------------------------------------------------------


def test_piped_lines_are_cells_without_prompt_or_echo(shell: Shell) -> None:
    done = shell("repl", stdin="n = 6\n\ndef f(m):\n    return m * n\n\nf(\n  7\n)\nprint('a', end='')\n'é'")
    assert (done.returncode, done.stdout, done.stderr) == (0, '42\na\n"é"\n', "")


def test_piped_cell_that_fails_changes_nothing_about_the_exit_code(shell: Shell) -> None:
    done = shell("repl", stdin="1 / 0\n6 * 7\n")
    assert (done.returncode, done.stdout) == (0, "42\n")
    assert done.stderr.startswith("error[RUNTIME_ERROR]")


def test_piped_command_that_is_wrong_does(shell: Shell) -> None:
    done = shell("repl", stdin=":cels\n6 * 7\n")
    assert (done.returncode, done.stdout) == (2, "42\n")
    assert done.stderr == "cloister: there is no command :cels\n  hint: did you mean :cells?\n"


def test_unfinished_cell_at_the_end_of_the_pipe_runs(shell: Shell) -> None:
    assert shell("repl", stdin="if True:\n    print('last')").stdout == "last\n"


def test_file_is_read_like_a_pipe(shell: Shell) -> None:
    (shell.here / "cells").write_text("\ufeffn = 6\r\nn * 7\r\n")
    with (shell.here / "cells").open() as file:
        done = subprocess.run(
            shell.command("repl"), stdin=file, env=shell.environment, capture_output=True, text=True, timeout=60
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


def test_question_in_a_pipe_waits_for_its_answer(shell: Shell) -> None:
    with subprocess.Popen(
        shell.command("repl", "-t", "bank"),
        cwd=shell.here,
        env=shell.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(f"{ASKS}\n")
        said = [running.stderr.readline() for _ in range(5)]
        running.stdin.write(f":approve {said[-1].split()[1].rstrip(':')} allow\n")
        assert running.stdout.readline() == '"paid 250"\n'
        running.stdin.close()
        assert running.wait(30) == 0


def test_wrong_options_are_refused_before_anything_is_read(shell: Shell) -> None:
    done = shell("repl", "--tools", "nowhere", stdin="print('ran')\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no module 'nowhere'" in done.stderr
