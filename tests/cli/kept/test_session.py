"""`cloister session`, and what is beside the namespace: values, secrets, files."""

import sqlite3

from tests.cli.typing import Typist


def test_session_is_listed_shown_copied_and_removed(typed: Typist) -> None:
    assert typed("session list").code == 2
    assert (
        typed("run --session notes --tools shop:get_order -e", "x = 40\nstore('k', [1])\nawait get_order('A7')").code
        == 0
    )
    assert typed("run --session notes -e", "x += 1").code == 0
    [row] = typed("session list --json").json["sessions"]
    assert (row["id"], row["language"], row["cells"], row["last_cell"]) == ("notes", "python", {}, 2)
    shown = typed("session show notes --json").json["session"]
    first, second = shown["history"]
    assert ([call["name"] for call in first["calls"]], second["code"]) == (["get_order"], "x += 1")
    told = typed("session show notes").out
    assert first["id"] in told
    assert "x += 1" in told

    assert typed("session fork notes --as now").code == 0
    assert typed("session fork notes --as before --at", first["id"]).code == 0
    assert typed("run --session now -e x").out == "41\n"
    assert typed("run --session before -e x").out == "40\n"
    assert typed("values get now k").out == "[\n  1\n]\n"
    assert typed("session fork notes --as now").code != 0

    assert typed("session snapshot notes -o s.bin").code == 0
    assert typed("session snapshot notes -o s.bin").code == 2
    assert typed("session restore s.bin --as copy").code == 0
    # A copy may have less than its original, and no more.
    for made in ("fork notes", "restore s.bin"):
        assert typed(f"session {made} --as small-{made[:4]} --max-stdout-bytes 4 --memory-mb 32").code == 0
        assert typed(f"run --session small-{made[:4]} -e", "print('abcdefgh')").out == "abcd"
        wider = typed(f"session {made} --as big --memory-mb 65")
        assert (wider.code, "memory_mb=65 (session: 64)" in wider.err) == (2, True)
    assert typed("session show big").code == 1
    assert typed("run --session copy -e x").out == "41\n"
    (typed.here / "s.bin").write_bytes(b"no snapshot at all")
    assert "not a snapshot" in typed("session restore s.bin --as other").err

    refused = typed("session destroy copy")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert typed("session destroy copy --yes --json").json["destroyed"] == "copy"
    gone = typed("session show copyy")
    assert (gone.code, "there is no session 'copyy'" in gone.err) == (1, True)
    assert "did you mean 'notes'?" in typed("session show note").err


def test_session_with_tools_is_copied_where_they_are(typed: Typist) -> None:
    assert typed("run --session s --tools shop:get_order -e", "y = 1").code == 0
    refused = typed("session fork s --as t")
    assert (refused.code, "get_order" in refused.err) == (1, True)
    assert typed("session fork s --as t --tools shop:get_order").code == 0
    assert typed("session show t --json").json["session"]["tools"] == ["get_order"]


def test_values_are_set_read_and_removed(typed: Typist) -> None:
    typed("run --session s -e", "store('list', [1, 2])")
    assert typed("values set s total 42").code == 0
    assert typed("values set s name -", stdin='"Ada"').code == 0
    refused = typed("values set s name Ada")
    assert (refused.code, "is not JSON" in refused.err) == (2, True)
    assert typed("values get s total").out == "42\n"
    assert typed("values get s name --json").json["value"] == "Ada"
    assert [one["key"] for one in typed("values list s --json").json["values"]] == ["list", "name", "total"]
    assert '"Ada"' in typed("values list s").out
    assert typed("run --session s -e", "[load('total'), load('list')]").out.split() == "[ 42, [ 1, 2 ] ]".split()
    assert typed("values delete s total").code == 0
    assert typed("values delete s total").code == 1
    assert typed("values get s total").code == 1


def test_secret_is_kept_sealed_and_never_shown(typed: Typist) -> None:
    typed("run --session s --tools bank -e 1")
    unknown = typed("secrets set s TOKEN --allow fetchh", stdin="hunter2-hunter2")
    assert (unknown.code, "did you mean 'fetch'?" in unknown.err) == (2, True)
    assert typed("secrets set s TOKEN --allow fetch", stdin="").code == 2
    assert typed("secrets set s TOKEN --allow fetch", stdin="hunter2-hunter2\n").code == 0
    listed = typed("secrets list s --json")
    assert [(one["name"], one["allowed"]) for one in listed.json["secrets"]] == [("TOKEN", ["fetch"])]
    assert typed("secrets list s").out.splitlines()[1].split()[:2] == ["TOKEN", "fetch"]
    used = typed("run --session s --tools bank --approve allow -e", "await fetch('u', secret('TOKEN'))")
    assert (used.code, (typed.here / "fetched").read_text()) == (0, "hunter2-hunter2")
    for place in typed.data.rglob("*"):
        assert place.is_dir() or b"hunter2" not in place.read_bytes(), place
    assert all("hunter2" not in said.out + said.err for said in (listed, used))
    # A fork has it too, sealed for itself.
    assert typed("session fork s --as t --tools bank").code == 0
    (typed.here / "fetched").unlink()
    assert typed("run --session t --tools bank -e", "await fetch('u', secret('TOKEN'))").code == 0
    assert (typed.here / "fetched").read_text() == "hunter2-hunter2"
    assert typed("secrets delete s TOKEN").code == 0
    assert typed("secrets delete s TOKEN").code == 1


def test_files_go_in_and_out(typed: Typist) -> None:
    typed("run --session s -e", "open('a.txt', 'w').write('one\\ntwo\\n')")
    assert typed("files cat s a.txt").out == "one\ntwo\n"
    assert typed("files put s - b/c.bin", stdin=b"\xff\0").code == 0
    assert [one["path"] for one in typed("files ls s -r --json").json["entries"]] == ["/a.txt", "/b", "/b/c.bin"]
    assert "/b/" in typed("files ls s").out
    assert typed("files get s b/c.bin").code == 0
    assert (typed.here / "c.bin").read_bytes() == b"\xff\0"
    assert typed("files get s b/c.bin").code == 2
    assert typed("files get s b/c.bin --force").code == 0
    assert typed("files get s / out").code == 0
    assert (typed.here / "out" / "b" / "c.bin").read_bytes() == b"\xff\0"
    assert typed("files diff s ./out").code == 0
    assert typed("files put s out in").code == 0
    assert typed("files cat s in/a.txt").out == "one\ntwo\n"
    found = typed("files grep s", "^t.o", "/in")
    assert (found.code, found.out) == (0, "/in/a.txt:2:two\n")
    assert typed("files grep s nothing").code == 1
    assert typed("files rm s in").code == 1
    assert typed("files rm s in -r").code == 0
    assert typed("files rm s in").code == 1
    assert typed("run --session s -e", "open('a.txt').read()").out == '"one\\ntwo\\n"\n'
    missing = typed("files cat s none.txt")
    assert (missing.code, "none.txt" in missing.err) == (1, True)


def test_files_of_two_sessions_are_compared(typed: Typist) -> None:
    typed("run --session s -e", "open('a.txt', 'w').write('one\\n')")
    assert typed("session fork s --as t").code == 0
    assert typed("files diff s t").code == 0
    typed("files put t - a.txt", stdin="two\n")
    typed("files put t - new.txt", stdin="new\n")
    changed = typed("files diff s t")
    assert (changed.code, "-one" in changed.out, "+two" in changed.out) == (1, True, True)
    told = typed("files diff s t --json").json
    assert told["changes"] == [{"path": "/a.txt", "change": "changed"}, {"path": "/new.txt", "change": "added"}]


def test_quota_of_the_configuration_holds_for_files_that_are_put(typed: Typist) -> None:
    typed("run --session s -e 1")
    typed.write("cloister.toml", "[files]\nmax_file_bytes = 3\n")
    refused = typed("files put s - a.txt", stdin="four")
    assert (refused.code, "3" in refused.err) == (1, True)
    assert typed("files ls s --json").json["entries"] == []


def test_links_are_not_followed_into_a_session(typed: Typist) -> None:
    typed("run --session s -e 1")
    (typed.here / "d").mkdir()
    (typed.here / "d" / "plain").write_text("p")
    (typed.here / "d" / "link").symlink_to("/etc/passwd")
    done = typed("files put s d")
    assert (done.code, "link" in done.err) == (0, True)
    assert [one["path"] for one in typed("files ls s d --json").json["entries"]] == ["/d/plain"]


def test_store_of_the_environment_is_the_one_that_is_meant(typed: Typist) -> None:
    typed("run --session s -e 1 --store", f"sqlite://{typed.data}/other.db")
    typed.write("cloister.toml", f'store = "sqlite://{typed.data}/other.db"\n')
    assert [one["id"] for one in typed("session list --json").json["sessions"]] == ["s"]
    assert typed("store check").code == 0
    assert not (typed.data / "cloister.db").exists()
    assert sqlite3.connect(typed.data / "other.db").execute("SELECT count(*) FROM sessions").fetchone() == (1,)
