import stat

from tests.cli.shell import Shell

UP = "\x1b[A"


def test_history_lasts_from_one_run_to_the_next(shell: Shell) -> None:
    with shell.terminal("repl") as terminal:
        terminal.enter("def f():\rreturn 40 + 2\r")
        terminal.enter("f()")
        terminal.until("42\r\n")
        terminal.enter(":quit")
        assert terminal.end() == 0
    kept = shell.data / "repl_history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with shell.terminal("repl") as terminal:
        # Past `:quit` and `f()`: the function comes back as one, and Enter runs it as soon as it is whole.
        terminal.enter(UP * 3 + "\r")
        terminal.enter("f()")
        terminal.until("42\r\n")
        terminal.enter(":quit")
        assert terminal.end() == 0


def test_history_that_others_could_read_becomes_private(shell: Shell) -> None:
    shell.data.mkdir()
    kept = shell.data / "repl_history"
    kept.touch(mode=0o644)
    with shell.terminal("repl") as terminal:
        terminal.enter(":quit")
        assert terminal.end() == 0
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_repl_works_where_no_history_can_be_kept(shell: Shell) -> None:
    shell.data.write_text("a file where the directory should be")
    with shell.terminal("repl") as terminal:
        terminal.until("cannot be kept at")
        terminal.enter("6 * 7")
        terminal.until("42\r\n")


def test_pipe_leaves_no_history(shell: Shell) -> None:
    shell("repl", stdin="6 * 7\n")
    assert not (shell.data / "repl_history").exists()


def test_tab_completes_commands_and_tools(shell: Shell) -> None:
    with shell.terminal("repl", "-t", "shop") as terminal:
        terminal.enter(":val\t")
        terminal.until("nothing is stored")
        terminal.enter("(await get_or\t('A' * 42))['size']")
        terminal.until("42\r\n")


def test_prompt_goes_to_stderr_when_stdout_is_a_file(shell: Shell) -> None:
    with (shell.here / "out").open("w") as file, shell.terminal("repl", stdout=file.fileno()) as terminal:
        terminal.enter("6 * 7")
        # The prompt is shown once more with what was typed; when it takes no more pastes, it is over.
        terminal.until("\x1b[?2004l")
        terminal.enter("\x04")
        assert terminal.end() == 0
    assert (shell.here / "out").read_text() == "42\n"
