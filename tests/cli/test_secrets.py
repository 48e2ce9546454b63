import json

import pytest

from cloister.cli.failures import UsageError
from cloister.cli.secrets import check_tools, parse_secrets
from tests.cli.shell import Shell

VALUE = "tok-5f2a90c1d7e8"
FETCH = "await fetch('/me', secret('TOKEN'))"


def test_value_comes_from_the_environment_and_tools_from_the_option() -> None:
    made = parse_secrets(["TOKEN=fetch, shop.*", "KEY=*"], {"TOKEN": VALUE, "KEY": "abcd"})
    assert {name: (secret.value, secret.allowed) for name, secret in made.items()} == {
        "TOKEN": (VALUE, ("fetch", "shop.*")),
        "KEY": ("abcd", ("*",)),
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([VALUE], "NAME=TOOL"),
        ([f"={VALUE}"], "NAME=TOOL"),
        ([f"a-b={VALUE}"], "NAME=TOOL"),
        ([f"TOKEN={VALUE}"], "--secret TOKEN: after the = come the tools"),
        (["TOKEN="], "--secret TOKEN: after the = come the tools"),
        (["TOKEN=fetch,"], "--secret TOKEN: after the = come the tools"),
        (["TOKEN=fetch", "TOKEN=publish"], "--secret TOKEN is given twice"),
        (["OTHER=fetch"], "the environment variable OTHER is not set"),
        (["SHORT=fetch"], "--secret SHORT: the value of a secret has at least 4 characters"),
    ],
)
def test_wrong_secret_is_refused_by_name_and_no_value_is_repeated(given: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_secrets(given, {"TOKEN": VALUE, "SHORT": "abc"})
    assert said in refused.value.message
    assert refused.value.hint is not None
    assert VALUE not in refused.value.message + refused.value.hint


@pytest.mark.parametrize(
    ("tools", "hint"),
    [("fech", "did you mean 'fetch'?"), ("bank.*", "the tools are fetch"), ("s3cr3t", "the tools are")],
)
def test_secret_for_a_tool_that_is_not_there_is_refused(tools: str, hint: str) -> None:
    secrets = parse_secrets([f"TOKEN={tools}"], {"TOKEN": VALUE})
    with pytest.raises(UsageError, match="--secret TOKEN names a tool that is not there") as refused:
        check_tools(secrets, ["fetch"])
    assert refused.value.hint is not None
    assert hint in refused.value.hint
    assert "s3cr3t" not in refused.value.message + refused.value.hint


def test_secret_may_be_for_a_namespace_or_for_all() -> None:
    check_tools(parse_secrets(["A=bank.*", "B=*"], {"A": VALUE, "B": VALUE}), ["bank.pay"])


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_tool_gets_the_value_and_the_program_a_handle(shell: Shell, language: str) -> None:
    code = {"python": FETCH, "typescript": "await tools.fetch({url: '/me', token: secret('TOKEN')})"}[language]
    options = ("-t", "bank", "-l", language, "--secret", "TOKEN=fetch")
    done = shell("run", *options, "-e", code, environment={"TOKEN": VALUE})
    assert (done.returncode, done.stdout, done.stderr) == (0, '"/me with [secret TOKEN]"\n', "")
    assert (shell.here / "fetched").read_text() == VALUE


def test_secret_is_for_the_tools_it_names_only(shell: Shell) -> None:
    options = ("--secret", "TOKEN=fetch", "-t", "bank", "--json")
    done = shell("run", *options, "-e", "await publish(secret('TOKEN'))", environment={"TOKEN": VALUE})
    made = json.loads(done.stdout)
    assert (done.returncode, made["error"]["code"]) == (5, "PERMISSION_DENIED")
    assert not (shell.here / "published").exists()
    assert VALUE not in done.stdout + done.stderr


def test_value_is_not_in_the_warning_about_a_tool_that_fails(shell: Shell) -> None:
    options = ("--secret", "TOKEN=fetch", "-t", "bank")
    for debug in ("", "1"):
        environment = {"TOKEN": VALUE, "CLOISTER_DEBUG": debug}
        done = shell("run", *options, "-e", "await fetch('bad', secret('TOKEN'))", environment=environment)
        assert done.returncode == 1
        assert "ValueError: cannot fetch with [secret TOKEN]" in done.stderr
        assert VALUE not in done.stdout + done.stderr


def test_value_is_not_in_a_question(shell: Shell) -> None:
    shell.environment["TOKEN"] = VALUE
    code = "await refund('A7', 250, secret('TOKEN'))"
    with shell.terminal("run", "-t", "bank", "--secret", "TOKEN=refund", "-e", code) as terminal:
        terminal.answer("y\n")
        assert terminal.end() == 0
        assert "TOKEN." in terminal.screen
        assert VALUE not in terminal.screen


def test_missing_variable_is_named_with_what_to_do(shell: Shell) -> None:
    shell.environment.pop("TOKEN", None)
    done = shell("run", "-t", "bank", "-e", FETCH, "--secret", "TOKEN=fetch")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "cloister: --secret TOKEN: the environment variable TOKEN is not set",
        "  hint: set it without a trace in the history: read -rs TOKEN && export TOKEN",
    ]


def test_misspelt_tool_of_a_secret_is_refused_before_anything_runs(shell: Shell) -> None:
    options = ("-t", "bank", "--secret", "TOKEN=fech")
    done = shell("run", *options, "-e", "print('ran')", environment={"TOKEN": VALUE})
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'fetch'?" in done.stderr
