import json
import os
import signal
import subprocess

import pytest

from cloister.cli.exits import EXIT_OF
from cloister.core.codes import RunStatus
from tests.cli.shell import Shell


def test_value_of_an_expression_is_printed(shell: Shell) -> None:
    done = shell("run", "-e", "1 + 1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


def test_null_prints_nothing(shell: Shell) -> None:
    done = shell("run", "-e", "x = 1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_value_follows_the_output_on_a_line_of_its_own(shell: Shell) -> None:
    done = shell("run", "-e", "print('é', end='')\n{'é': [1, -2]}")
    assert done.stdout == 'é\n{\n  "é": [\n    1,\n    -2\n  ]\n}\n'


def test_code_may_begin_with_a_hyphen(shell: Shell) -> None:
    assert shell("run", "-e", "-1 + 3").stdout == "2\n"


def test_language_is_guessed_from_the_name_of_the_file(shell: Shell) -> None:
    (shell.here / "sum.ts").write_text("const n: number = 20; n + 1")
    (shell.here / "sum.py").write_text("20 + 2")
    assert shell("run", "sum.ts").stdout == "21\n"
    assert shell("run", "sum.py").stdout == "22\n"


def test_dash_reads_the_program_from_standard_input(shell: Shell) -> None:
    assert shell("run", "-", stdin="6 * 7\n").stdout == "42\n"


def test_what_is_written_to_stderr_stays_apart(shell: Shell) -> None:
    done = shell("run", "-l", "typescript", "-e", "console.log('out'); console.error('err')")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_inputs_are_variables_of_the_program(shell: Shell) -> None:
    done = shell("run", "-e", "[n, name]", "--input", "n=-3", "-i", 'name="a = b"', "--json")
    assert json.loads(done.stdout)["result"] == [-3, "a = b"]


def test_tools_come_from_a_module_a_list_and_a_function(shell: Shell) -> None:
    code = "await get_order('A77')"
    assert json.loads(shell("run", "-e", code, "--tools", "shop").stdout) == {"size": 3}
    assert json.loads(shell("run", "-e", code, "--tools", "shop:several").stdout) == {"size": 3}
    both = shell("run", "-e", f"[{code}, await add(1)]", "-t", "shop:get_order", "-t", "shop:add", "--json")
    assert json.loads(both.stdout)["result"] == [{"size": 3}, 3]


def test_json_is_one_object_and_nothing_else(shell: Shell) -> None:
    done = shell("run", "--json", "-t", "shop", "-e", "print('hi')\nawait get_order('A7')\n1 / 0")
    made = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert (done.returncode, done.stderr) == (1, "")
    assert (made["status"], made["stdout"]) == ("runtime_error", "hi\n")
    assert made["error"]["span"] == {"line": 3, "column": 1, "end_line": 3, "end_column": 6}
    assert [call["name"] for call in made["external_calls"]] == ["get_order"]


def test_tool_that_prints_does_not_spoil_the_json(shell: Shell) -> None:
    (shell.here / "loud.py").write_text("print('imported')\n\ndef shout() -> int:\n    print('called')\n    return 1\n")
    done = shell("run", "--json", "-e", "await shout()", "--tools", "loud:shout")
    assert json.loads(done.stdout)["result"] == 1
    assert done.stderr == "imported\ncalled\n"


@pytest.mark.parametrize(
    ("code", "options", "exit_code", "error"),
    [
        ("x = [1]\nx[5]", (), 1, "RUNTIME_ERROR"),
        ("x = (", (), 3, "SYNTAX_ERROR"),
        ("await get_ordr('A7')", ("-t", "shop"), 3, "UNKNOWN_TOOL"),
        ("await get_order(7)", ("-t", "shop", "--type-check", "strict"), 3, "TYPE_ERROR"),
        ("while True: pass", ("--cpu-ms", "100"), 4, "TIMEOUT_CPU"),
        ("import asyncio\nawait asyncio.sleep(60)", ("--timeout-ms", "200"), 4, "TIMEOUT_WALL"),
        ("x = []\nwhile True: x.append('x' * 9999)", ("--memory-mb", "8"), 4, "MEMORY_EXCEEDED"),
    ],
)
def test_exit_code_says_how_the_program_ended(
    shell: Shell, code: str, options: tuple[str, ...], exit_code: int, error: str
) -> None:
    done = shell("run", "-e", code, *options)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert f"error[{error}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_status_has_an_exit_code() -> None:
    assert set(EXIT_OF) == set(RunStatus)


def test_error_shows_the_line_a_caret_and_a_hint(shell: Shell) -> None:
    (shell.here / "order.py").write_text("# a comment\nawait get_ordr('A7')\n")
    done = shell("run", "order.py", "--tools", "shop")
    assert done.stderr.splitlines() == [
        "error[UNKNOWN_TOOL]: there is no tool `get_ordr`",
        "  at order.py:2:7",
        "  2 | await get_ordr('A7')",
        "    |       ^^^^^^^^",
        "  hint: did you mean `get_order`? get_order(order_id: str) -> dict[str, int]",
    ]


def test_error_that_the_check_found_is_told_once(shell: Shell) -> None:
    done = shell("run", "-e", "6 *")
    assert done.returncode == 3
    assert done.stderr.count("error[SYNTAX_ERROR]") == 1


def test_failed_tool_is_named_to_the_user_and_kept_from_the_program(shell: Shell) -> None:
    code = "try:\n    await explode()\nexcept RuntimeError as e:\n    seen = str(e)\nseen"
    done = shell("run", "-e", code, "--tools", "shop")
    assert done.returncode == 0
    assert "secret" not in done.stdout
    assert done.stderr == "cloister: tool explode failed: ValueError: host's secret (CLOISTER_DEBUG=1 shows where)\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "FILE or as -e CODE, and this has neither"),
        (("run", "a.py", "-e", "1"), "this has both"),
        (("run", "missing.py"), "'missing.py' cannot be read: No such file"),
        (("run", "1+1"), "use -e CODE"),
        (("run", "shop.py", "--language", "perl"), "perl"),
        (("run", "-e", "1", "--input", "name=Ada"), "for text add quotes: --input 'name=\"Ada\"'"),
        (("run", "-e", "1", "--memory-mb", "0"), "memory_mb must be between 1 and"),
        (("run", "-e", "1", "--tools", "shop:get_ordr"), "did you mean 'get_order'?"),
        (("run", "-e", "1", "--timeut-ms", "5"), "Did you mean --timeout-ms?"),
    ],
)
def test_wrong_command_is_refused_with_a_hint(shell: Shell, words: tuple[str, ...], said: str) -> None:
    done = shell(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_variable_shows_the_traceback(shell: Shell) -> None:
    done = shell("run", "missing.py", environment={"CLOISTER_DEBUG": "1"})
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    running = subprocess.Popen(
        shell.command("run", "-e", "for i in range(2000): print('x' * 30)"),
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait(30) == 0


@pytest.mark.parametrize("code", ["print('begun')\nwhile True: pass", "await nap()", "await block()"])
def test_interrupt_stops_the_program_with_130(shell: Shell, code: str) -> None:
    options = ("--timeout-ms", "60000", "--cpu-ms", "60000", "--tools", "shop")
    running = subprocess.Popen(
        shell.command("run", *options, "-e", code),
        cwd=shell.here,
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "begun\n"
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("cloister: stopped by SIGINT")
    # Nobody of its process group is left behind.
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


def test_interrupted_run_is_still_one_json_object(shell: Shell) -> None:
    (shell.here / "mark.py").write_text(
        "from pathlib import Path\n\ndef mark() -> None:\n    Path('begun').write_text('')\n"
    )
    os.mkfifo(shell.here / "begun")
    running = subprocess.Popen(
        shell.command("run", "--json", "--tools", "mark:mark", "-e", "print('a')\nawait mark()\nwhile True: pass"),
        cwd=shell.here,
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    (shell.here / "begun").read_text()
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    made = json.loads(out)
    assert (made["status"], made["stdout"], made["error"]["code"]) == ("interrupted", "a\n", "INTERRUPTED")
