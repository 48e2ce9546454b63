"""The configuration as a user has it: which value counts, who said it, and what is said of a broken one."""

import os
import re
from pathlib import Path

import pytest

from cloister.app.config import load_config
from cloister.core.errors import InvalidConfig
from cloister.core.file import Mount
from cloister.core.inside import CompleteOptions, SpawnOptions
from tests.cli.typing import Typist


def settings(typed: Typist, *more: str) -> dict[str, tuple[object, str]]:
    told = typed("config show --json", *more).json["settings"]
    return {one["key"]: (one["value"], one["layer"]) for one in told}


def test_nearest_layer_counts(typed: Typist, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(typed)["limits.memory_mb"] == (64, "default")
    typed.data.mkdir()
    (typed.data / "cloister.toml").write_text("workers = 2\n[limits]\nmemory_mb = 70\ncpu_ms = 900\n")
    assert settings(typed)["limits.memory_mb"] == (70, "user")
    typed.write("cloister.toml", "[limits]\nmemory_mb = 80\n")
    assert settings(typed)["limits.memory_mb"] == (80, "project")
    assert settings(typed)["limits.cpu_ms"] == (900, "user")
    assert settings(typed)["workers"] == (2, "user")
    typed.write("other.toml", "[limits]\nmemory_mb = 90\n")
    assert settings(typed, "--config", "other.toml")["limits.memory_mb"] == (90, "project")
    monkeypatch.setenv("CLOISTER_LIMITS_MEMORY_MB", "100")
    assert settings(typed)["limits.memory_mb"] == (100, "environment")
    assert "CLOISTER_LIMITS_MEMORY_MB" in typed("config show").out


def test_environment_of_the_configuration_is_a_directory_beside_it(typed: Typist) -> None:
    here = typed.write("cloister.toml", '[environments.repo]\npath = "work"\nmode = "copy_on_write"\n').parent
    assert load_config(here=here).environments() == {"repo": Mount(here / "work", "copy_on_write")}
    for wrong, named in {
        "path = 1": "environments.repo.path",
        'path = "x"\nmode = "rw"': "environments.repo.mode",
        'path = "x"\nhard_links = 1': "environments.repo.hard_links",
        'path = "x"\nwritable = true': "environments.repo.writable",
    }.items():
        typed.write("cloister.toml", f"[environments.repo]\n{wrong}\n")
        with pytest.raises(InvalidConfig, match=named):
            load_config(here=here).environments()


def test_what_programs_may_do_is_off_until_it_is_switched_on(typed: Typist) -> None:
    here = typed.write("cloister.toml", "[complete]\nmax_calls = 3\n").parent
    assert (load_config(here=here).complete(), load_config(here=here).spawn()) == (None, None)
    typed.write("cloister.toml", '[complete]\nenabled = true\nmodel = "m"\nmax_calls = 3\n[spawn]\nenabled = true\n')
    assert load_config(here=here).complete() == CompleteOptions("m", max_calls=3)
    assert load_config(here=here).spawn() == SpawnOptions()
    typed.write("cloister.toml", "[spawn]\nmax_depth = 0\n")
    with pytest.raises(InvalidConfig, match=r"spawn\.max_depth"):
        load_config(here=here)


def test_limits_and_tools_of_the_configuration_hold_until_a_flag_says_otherwise(typed: Typist) -> None:
    typed.write("cloister.toml", 'tools = ["shop:get_order"]\n[limits]\nmax_external_calls = 1\n')
    twice = "await get_order('A7')\nawait get_order('A8')"
    assert typed("run -e", twice).code == 4
    assert typed("run --max-external-calls 2 -e", twice).out == '{\n  "size": 2\n}\n'
    assert typed("run --tools bank -e", twice).code == 3


def test_deny_rules_of_everybody_hold(typed: Typist) -> None:
    typed.data.mkdir()
    (typed.data / "cloister.toml").write_text("deny = ['name == \"get_order\"']\n")
    typed.write("cloister.toml", "deny = ['name == \"add\"']\ntools = ['shop:several']\n")
    assert typed("run -e", "await get_order('A7')").code == 5
    assert typed("run -e", "await add(1)").code == 5
    assert typed("run --deny", "false", "-e", "await get_order('A7')").code == 5


def test_policies_of_the_configuration_tighten(typed: Typist) -> None:
    typed.write("cloister.toml", 'tools = ["shop:get_order"]\n[approvals]\nget_order = "manual"\n')
    assert typed("run -e", "await get_order('A7')").code == 5
    assert typed("run --approve allow -e", "await get_order('A7')").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workers = = 2\n", r"cloister\.toml:1:11: is not TOML"),
        ("a = 1\n[limits\n", r"cloister\.toml:2"),
        ("\n\nwrokers = 2\n", r"cloister\.toml:3: wrokers: is not known\n  hint: did you mean `workers`\?"),
        (
            "[limits]\nmemory = 1\n",
            r"cloister\.toml:2: limits\.memory: is not known\n  hint: did you mean `limits\.memory",
        ),
        ("memory_mb = 1\n", r"cloister\.toml:1: memory_mb: is not known\n  hint: did you mean `limits\.memory_mb`"),
        ('[limits]\nmemory_mb = "much"\n', r"cloister\.toml:2: limits\.memory_mb: is a whole number, not 'much'"),
        ("[limits]\n\nwall_ms = 0\n", r"cloister\.toml:3: limits\.wall_ms: must be between 1 and"),
        ('type_check = "strikt"\n', r"cloister\.toml:1: type_check: is one of.*\n  hint: did you mean 'strict'\?"),
        ("deny = ['name ==']\n", r"cloister\.toml:1: deny:"),
        ('[telemetry]\nendpoint = "localhost:4318"\n', r"cloister\.toml:2: telemetry\.endpoint: must begin with http"),
        (
            "[mcp.git]\ncomand = 'x'\n",
            r"cloister\.toml:2: mcp\.git\.comand: is not known\n  hint: did you mean `command`",
        ),
        ("[mcp.git]\ncommand = 'x'\nargs = [\n  'a',\n  2,\n]\n", r"cloister\.toml:3: mcp\.git\.args\[1\]: is text"),
        ("[openapi.shop]\nhosts = []\n", r"cloister\.toml:1: openapi\.shop: says no `document`"),
        ("mcp = 3\n", r"cloister\.toml:1: mcp: has a table for each name"),
        ("tools = ['shpo']\n", r"cloister\.toml:1: tools shpo: there is no module 'shpo'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line_and_key(typed: Typist, text: str, said: str) -> None:
    typed.write("cloister.toml", text)
    done = typed("run -e 1") if "tools" in text else typed("config show")
    assert done.code == 2
    assert re.search(said, done.err), done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[plugins.web]\nallow = "x"\n', r"cloister\.toml:1: plugins\.web: allow is a list of hosts, not str"),
        ("[plugins.notse]\n", r"cloister\.toml:1: plugins\.notse: there is no plugin.*\n  hint: did you mean 'notes'"),
        ("\n[plugins.notes]\nkeep = 1\n", r"cloister\.toml:2: plugins\.notes: .*'keep'\n  hint: it has no options"),
        ("[plugins]\nnotes = 1\n", r"cloister\.toml:2: plugins\.notes: is a table of its options"),
        ('[approvals]\n"shop.a" = "none"\n"shop.b" = "maybe"\n', r"cloister\.toml:3: approvals\.shop\.b: .*'maybe'"),
        (
            '[approvals]\n"a" = { auto = { rule = "1 +" } }\n',
            r"cloister\.toml:2: approvals\.a: .*'1 \+' cannot be used",
        ),
    ],
)
def test_what_is_wrong_with_what_sessions_are_made_of_is_said_with_its_line_and_key(
    typed: Typist, text: str, said: str
) -> None:
    typed.write("cloister.toml", text)
    done = typed("run -e 1")
    assert done.code == 2
    assert re.search(said, done.err), done.err


def test_what_is_wrong_with_a_json_file_is_said_too(typed: Typist) -> None:
    typed.write("cloister.toml", 'mcp_servers = "servers.json"\n')
    assert re.search(r"cloister\.toml:1: mcp_servers: names .*servers\.json", typed("config show").err)
    typed.write("servers.json", '{"mcpServers": {\n"git": {]\n}}')
    assert re.search(r"servers\.json:2:9: is not JSON", typed("config show").err)
    typed.write("servers.json", '{"mcpServers": {\n"git": {"command": "x",\n"arsg": []}}}')
    assert re.search(r"servers\.json:3: mcpServers\.git\.arsg: is not known", typed("config show").err)
    typed.write("servers.json", '{"mcpserver": {}}')
    assert "did you mean `mcpServers`" in typed("config show").err


def test_variable_that_does_not_fit_is_named(typed: Typist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_WORKERS", "many")
    done = typed("run -e 1")
    assert (done.code, "CLOISTER_WORKERS: is a whole number, not 'many'" in done.err) == (2, True)


def test_secrets_are_masked(typed: Typist) -> None:
    typed.write(
        "cloister.toml",
        """
        store = "postgresql://me:hunter2@host/db"
        [mcp.git]
        command = "x"
        args = ["--token", "hunter2", "--api-key=hunter2", "--verbose"]
        env = { PLAIN = "hunter2", SAFE = "${SAFE}" }
        [mcp.docs]
        url = "https://example.com/mcp?key=hunter2"
        headers = { Authorization = "Bearer hunter2" }
        [openapi.shop]
        document = "https://example.com/api?token=hunter2"
        credentials = { key = "hunter2" }
        """,
    )
    os.environ["SAFE"] = "x"
    try:
        for words in ("config show", "config show --json", "mcp list", "mcp list --json"):
            said = typed(words)
            assert (said.code, said.err) == (0, "")
            assert "hunter2" not in said.out
        assert "${SAFE}" in typed("config show").out
    finally:
        del os.environ["SAFE"]


def test_file_that_was_written_to_begin_with_changes_nothing(typed: Typist) -> None:
    before = settings(typed)
    assert typed("config init").code == 0
    assert settings(typed) == before
    again = typed("config init")
    assert (again.code, "--force" in again.err) == (2, True)
    assert typed("config init --force").code == 0
    # What it shows in comments can be said.
    text = (typed.here / "cloister.toml").read_text()
    said = [line.removeprefix("# ") for line in text.splitlines() if re.match(r"# (\w+|\"[\w.]+\") = |# \[", line)]
    tables = [line for line in text.splitlines() if line.startswith("[")]
    assert (len(said) > 20, len(tables)) == (True, 10)


def test_file_of_this_directory_that_others_can_write_is_refused_unless_it_is_named(typed: Typist) -> None:
    path = typed.write("cloister.toml", "workers = 1\n")
    path.chmod(0o666)
    refused = typed("run -e 1")
    assert (refused.code, "can be written by everybody" in refused.err) == (2, True)
    assert typed("run --config cloister.toml -e 1").code == 0


def test_named_file_must_be_there(typed: Typist) -> None:
    assert "no-such.toml" in typed("run --config no-such.toml -e 1").err
    assert "no-such.toml" in typed("--config no-such.toml session list").err


def test_config_before_the_command_is_for_all_of_them(typed: Typist, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that what the command sets goes with the test.
    monkeypatch.setenv("CLOISTER_CONFIG", "")
    typed.write("other.toml", f'store = "sqlite://{typed.data}/other.db"\n')
    assert typed("--config other.toml run --session s -e 1").code == 0
    assert typed("--config=other.toml store check").code == 0
    assert (typed.data / "other.db").exists()


def test_modules_beside_the_file_are_found(typed: Typist, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (away / "faraway_tools.py").write_text("def far() -> int:\n    return 7\n")
    (away / "cloister.toml").write_text('tools = ["faraway_tools:far"]\n')
    assert typed("run --config", str(away / "cloister.toml"), "-e", "await far()").out == "7\n"
