"""`cloister tools`, `mcp` and `completion`."""

import json
import sys
import tomllib

from tests.cli.typing import Typist


def test_tools_are_listed_described_found_and_written_down(typed: Typist) -> None:
    listed = typed("tools list --tools shop:several --json").json["tools"]
    assert [one["name"] for one in listed] == ["add", "get_order"]
    typed.write("cloister.toml", 'tools = ["shop:several"]\n')
    assert typed("tools list").out.splitlines()[2].split()[:2] == ["get_order", "read"]
    assert typed("tools describe get_order --json").json["tool"]["name"] == "get_order"
    assert "order_id" in typed("tools describe get_order").out
    missing = typed("tools describe get_odrer")
    assert (missing.code, "get_order" in missing.err) == (2, True)
    assert typed("tools search order --json").json["tools"][0]["name"] == "get_order"
    assert typed("tools search xyzzy").code == 1
    assert "async def get_order(order_id: str)" in typed("tools stubs").out
    assert "get_order" in typed("tools stubs --language typescript").out


def test_mcp_server_is_added_tried_and_called(typed: Typist) -> None:
    assert typed("mcp add clock -- ", sys.executable, "-m", "mcp_server_time").code == 0
    assert tomllib.loads((typed.here / "cloister.toml").read_text())["mcp"]["clock"]["command"] == sys.executable
    assert typed("mcp add clock -- other").code == 2
    assert typed("mcp list --json").json["servers"][0]["name"] == "clock"
    [tried] = typed("mcp test --json").json["servers"]
    assert "clock.get_current_time" in [one["name"] for one in tried["tools"]]
    called = typed("run -e", "import clock\nr = await clock.get_current_time(timezone='UTC')\nlen(str(r)) > 5")
    assert (called.code, called.err) == (0, "")
    assert "clock.get_current_time" in typed("tools list").out
    unknown = typed("mcp test other")
    assert (unknown.code, "there are clock" in unknown.err) == (2, True)


def test_server_that_does_not_work_is_named_and_everything_else_goes_on(typed: Typist) -> None:
    typed.write("cloister.toml", '[mcp.broken]\ncommand = "/no/such/program"\n')
    tried = typed("mcp test")
    assert (tried.code, "'broken' does not work" in tried.err) == (1, True)
    assert typed("run -e", "1 + 1").out == "2\n"


def test_document_of_ten_megabytes_is_used_and_one_that_is_too_large_is_named(typed: Typist) -> None:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "large", "version": "1", "description": "x" * (10 << 20)},
        "servers": [{"url": "http://127.0.0.1:9/"}],
        "paths": {"/a": {"get": {"operationId": "look", "responses": {"200": {"description": "ok"}}}}},
    }
    (typed.here / "large.json").write_text(json.dumps(document))
    (typed.here / "huge.json").write_bytes(b"{" + b" " * (33 << 20))
    typed.write("cloister.toml", '[openapi.large]\ndocument = "large.json"\n[openapi.huge]\ndocument = "huge.json"\n')
    listed = typed("tools list --json")
    assert (listed.code, [one["name"] for one in listed.json["tools"]]) == (0, ["large.look"])
    assert "source 'huge' is not there: the document of API 'huge' has more than 32 MiB" in listed.err
    ran = typed("run -e", "import large\nlen((await search_tools('look'))) + 1")
    assert (ran.code, ran.out, "'huge'" in ran.err) == (0, "2\n", True)


def test_what_makes_no_server_is_refused_and_nothing_is_written(typed: Typist) -> None:
    for words in (
        "mcp add x",
        "mcp add x https://example.com extra",
        "mcp add x --header A=b -- program",
        "mcp add x --env A -- program",
        "mcp add x ftp://example.com --header A=b",
        "mcp add x --url https://example.com/mcp",
        "mcp add x --transport http https://example.com/mcp",
    ):
        assert typed(words).code == 2, words
    assert not (typed.here / "cloister.toml").exists()
    assert typed("mcp add a.b --env", 'K="x\\y\n\x7f', "--", "prog", "-v").code == 0
    [server] = tomllib.loads((typed.here / "cloister.toml").read_text())["mcp"].values()
    assert server == {"command": "prog", "args": ["-v"], "env": {"K": '"x\\y\n\x7f'}}


def test_completion_knows_the_commands(typed: Typist) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = typed("completion", shell)
        assert (script.code, script.err) == (0, "")
        for word in ("approvals", "snapshot", "retire", "grep"):
            assert word in script.out, (shell, word)
    assert typed("completion csh").code == 2
