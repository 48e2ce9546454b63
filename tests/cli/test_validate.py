import json

from tests.cli.shell import Shell


def test_good_program_has_no_problems(shell: Shell) -> None:
    done = shell("validate", "-e", "await get_order('A7')", "--tools", "shop")
    assert (done.returncode, done.stdout, done.stderr) == (0, "no problems found\n", "")


def test_errors_are_shown_and_nothing_runs(shell: Shell) -> None:
    done = shell("validate", "-e", "print('ran')\nawait get_ordr('A7')", "--tools", "shop")
    assert done.returncode == 3
    assert "ran" not in done.stdout.replace("print('ran')", "")
    assert "error[UNKNOWN_TOOL]" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 error"


def test_type_error_is_a_warning_unless_strict(shell: Shell) -> None:
    command = ("validate", "-e", "await get_order(7)", "--tools", "shop")
    lenient, strict = shell(*command), shell(*command, "--type-check", "strict")
    assert (lenient.returncode, lenient.stdout.splitlines()[-1]) == (0, "1 warning")
    assert (strict.returncode, strict.stdout.splitlines()[-1]) == (3, "1 error")


def test_typescript_is_checked_too(shell: Shell) -> None:
    done = shell("validate", "-l", "typescript", "-e", "await tools.get_ordr({})", "--tools", "shop")
    assert done.returncode == 3
    assert "did you mean `get_order`?" in done.stdout


def test_json_is_one_object(shell: Shell) -> None:
    done = shell("validate", "--json", "-", stdin="x = (")
    made = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, "")
    assert made["status"] == "validation_error"
    assert made["diagnostics"][0]["code"] == "SYNTAX_ERROR"


def test_inputs_are_known_to_the_check(shell: Shell) -> None:
    done = shell("validate", "-e", "n + 1", "--input", "n=1", "--type-check", "strict")
    assert (done.returncode, done.stdout) == (0, "no problems found\n")
