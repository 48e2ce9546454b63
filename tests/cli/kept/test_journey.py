"""The commands as a user has them: the installed script, in a pipe of a shell and at a terminal."""

import json
import subprocess

import pytest

from tests.cli.shell import SCRIPT, Shell

PIPED = r"""
set -eu
cloister run --session s --tools bank -e "open('a.txt', 'w').write('one\n'); store('n', 1)" > /dev/null
cloister session list | cut -d' ' -f1
printf hunter2hunter2 | cloister secrets set s TOKEN --allow fetch
cloister secrets list s | tail -1 | cut -d' ' -f1
cloister files cat s a.txt | tr a-z A-Z
date > now.txt; cloister files put s now.txt; cloister files cat s now.txt | cmp - now.txt && echo same
cloister session snapshot s -o - | cloister session restore - --as t --tools bank
cloister values get t n
cloister files diff s t && echo no difference
cloister config show --json | grep -c '"ok": true'
cloister session list --json | head -c 1; echo
cloister nothing 2> /dev/null || echo "exit $?"
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_commands_go_together_in_a_pipe(shell: Shell) -> None:
    environment = {**shell.environment, "PATH": f"{SCRIPT.parent}:{shell.environment['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", PIPED], cwd=shell.here, env=environment, capture_output=True, text=True, timeout=110
    )
    assert (done.returncode, done.stderr) == (0, "cloister: not in the snapshot: secret TOKEN\n")
    assert done.stdout.splitlines() == [
        "SESSION",
        "s",
        "TOKEN",
        "ONE",
        "same",
        "session t is in the store",
        "1",
        "no difference",
        "1",
        "{",
        "exit 2",
    ]
    assert "\x1b" not in done.stdout


def test_secret_is_typed_without_being_shown_and_a_session_is_removed_when_one_is_sure(shell: Shell) -> None:
    shell("run", "--session", "s", "--tools", "bank", "-e", "store('x', '\\x1b[2J')")
    with shell.terminal("secrets", "set", "s", "TOKEN", "--allow", "fetch", from_scratch=True) as terminal:
        terminal.until("value of TOKEN: ")
        terminal.type("hunter2-hunter2\r")
        assert terminal.end() == 0
        assert "hunter2" not in terminal.screen
    with shell.terminal("values", "list", "s") as terminal:
        assert terminal.end() == 0
        # A table, and what a program stored cannot clear the screen.
        assert "─" in terminal.screen
        assert "\x1b[2J" not in terminal.screen
    for word, code, left in (("n", 2, ["s"]), ("y", 0, [])):
        with shell.terminal("session", "destroy", "s") as terminal:
            terminal.until("[y/N] ")
            terminal.type(f"{word}\r")
            assert terminal.end() == code
        listed = json.loads(shell("session", "list", "--json").stdout)["sessions"]
        assert [one["id"] for one in listed] == left
    with shell.terminal("session", "snapshot", "s", "-o", "-") as terminal:
        assert terminal.end() == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_session_that_a_repl_has_open_can_be_read_and_its_holder_is_named(shell: Shell) -> None:
    with shell.terminal("repl", "--session", "s", "--tools", "bank", from_scratch=True) as terminal:
        terminal.enter("store('x', 1)", "s")
        terminal.enter("await refund('A7', 250)", "s")
        asked = terminal.match(r"(apr_\w+)")
        assert json.loads(shell("values", "list", "s", "--json").stdout)["values"][0]["key"] == "x"
        assert asked in shell("approvals", "list").stdout
        for line in ("values set s x 2", "session destroy s -y"):
            refused = shell(*line.split())
            assert refused.returncode == 1
            assert f"session 's' is open in process {terminal.pid}" in refused.stderr
        # An answer is for the repl to take.
        assert "has made the call: ok" in shell("approvals", "allow", asked).stdout
        terminal.enter(":quit", "s")
        assert terminal.end() == 0
    assert shell("approvals", "allow", asked).returncode == 1
