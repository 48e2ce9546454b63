import json
from pathlib import Path

from tests.cli.shell import Shell

LAYERS = ["rlimits", "no_new_privs", "landlock", "seccomp", "namespaces"]


def test_doctor_runs_a_program_in_each_language(shell: Shell) -> None:
    done = shell("doctor", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert found["ok"]
    assert {name: language["runs"] for name, language in found["languages"].items()} == {
        "python": True,
        "typescript": True,
    }


def test_doctor_reports_each_layer_and_warns_of_the_missing(shell: Shell) -> None:
    found = json.loads(shell("doctor", "--json").stdout)
    warnings = [problem["message"] for problem in found["problems"]]
    for name, language in found["languages"].items():
        assert list(language["confinement"]) == LAYERS
        for layer, state in language["confinement"].items():
            warned = any(text.startswith(f"{layer} is missing around the workers of {name}") for text in warnings)
            assert warned == (state != "active")


def test_doctor_is_readable_and_says_what_is_not_supported(shell: Shell) -> None:
    done = shell("doctor")
    assert done.returncode == 0
    for text in (
        "python does not support:",
        "typescript does not support:",
        "rlimits",
        str(shell.data),
    ):
        assert text in done.stdout
    assert "\x1b" not in done.stdout


def test_directory_that_cannot_be_written_is_a_warning(shell: Shell, tmp_path: Path) -> None:
    # A file in its place: even root cannot make a directory there.
    (tmp_path / "taken").write_text("")
    done = shell("doctor", environment={"CLOISTER_DATA_DIR": str(tmp_path / "taken" / "data")})
    assert done.returncode == 0
    assert "set CLOISTER_DATA_DIR to one that can" in done.stdout
