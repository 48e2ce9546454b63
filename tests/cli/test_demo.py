import os
import re
import subprocess

import pytest

from tests.cli.shell import Shell


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Shell]:
    """The demo, given once. Its temporary files are in `tmp`, and it has a cache of its own."""
    directory = tmp_path_factory.mktemp("demo")
    shell = Shell(directory)
    (directory / "tmp").mkdir()
    environment = {"TMPDIR": str(directory / "tmp"), "CLOISTER_CACHE_DIR": str(directory / "cache")}
    return shell("demo", environment=environment), shell


Told = tuple[subprocess.CompletedProcess[str], Shell]


def test_demo_tells_its_story_in_both_languages(told: Told) -> None:
    done, _ = told
    said = done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert said.count('-> {"items": 5, "total": 2260}') == 2
    assert said.count("calls made: get_price 0, refund 0") == 2
    assert "error[TYPE_ERROR]" in said
    assert "did you mean `refund`?" in said
    assert said.count("runtime_error, ENGINE_CRASHED") == 2
    assert said.count("-> A7: yes, of course, 1250 cents") == 2


def test_program_of_the_demo_waits_for_a_person_without_a_worker(told: Told) -> None:
    said = told[0].stdout
    sizes = re.findall(r"the program holds no worker, it is ([\d,]+) bytes; the answer: (allow|deny)", said)
    assert [answer for _, answer in sizes] == ["allow", "deny"] * 2
    assert all(500 < int(count.replace(",", "")) < 50_000 for count, _ in sizes)
    assert said.count("`refund` was not allowed: ask the bank first") == 2
    assert said.count('-> ["A7: 1250 cents, by the right of [secret BANK_TOKEN]"]') == 2
    assert said.count("refunds made: 1; the bank got tok_4f9a2c71d0, the program never saw it") == 2


def test_cell_of_the_demo_goes_on_while_nobody_looks(told: Told) -> None:
    said = told[0].stdout
    for line in ('so far: {"tea": 3}', 'so far: {"tea":3}', 'the rest: {"in all": 7}', 'the rest: {"in all":7}'):
        assert said.count(line) == 1, line
    assert said.count("20 more beside each other on 2 workers; one that never ends: terminated") == 2


def test_demo_says_how_long_five_calls_took_together(told: Told) -> None:
    totals = re.findall(r"5 calls of 100 ms each, (\d+) ms in all", told[0].stdout)
    # How much less than 500 it is depends on the machine.
    assert len(totals) == 2
    assert all(int(total) >= 100 for total in totals)


def test_program_of_the_demo_wakes_in_another_process(told: Told) -> None:
    pids = re.findall(r"^  process (\d+): (it waits|woke)", told[0].stdout, re.MULTILINE)
    assert [what for _, what in pids] == ["it waits", "woke", "it waits", "woke"]
    assert len({pid for pid, what in pids if what == "it waits"}) == 1
    assert len({pid for pid, _ in pids}) == 3


def test_program_of_the_demo_outlives_its_killed_host_and_each_effect_happens_once(told: Told) -> None:
    said = told[0].stdout
    found = re.findall(
        r"^  process (\d+): its program waits for a person\n"
        r"^     kill -9 \1; done so far: charge A7\n"
        r"^  process (\d+): opens its store, and the question is there\n"
        r'^     refund\(order_id="A7", cents=1250\)\? The answer: allow\n'
        r'^  -> \["charged 1250 cents", "gave 1250 cents back"\]\n'
        r"^     done in all, each once: charge A7, refund A7$",
        said,
        re.MULTILINE,
    )
    assert len(found) == 2
    killed, opened = zip(*found, strict=True)
    assert len({*killed, *opened}) == 3
    assert len(set(opened)) == 1


def test_turn_of_the_demo_outlives_its_killed_server_and_the_client_misses_nothing(told: Told) -> None:
    found = re.search(
        r"^  process (\d+): cloister serve, on a free port of this machine\n"
        r"^     said to the model: Take the money for order A7, and give it back.\n"
        r"^     the model says: I charge the order, and ask for the refund.\n"
        r"(?:.*\n)*"
        r'^  a person is asked: refund\(order_id="A7", cents=1250\)\n'
        r"^     kill -9 \1; done so far: charge A7\n"
        r"^  process (\d+): cloister serve, on the same store; the answer: allow\n"
        r"^     the model says: Order A7 was charged, and the money is back.\n"
        r"^  -> completed, after 2 requests to the model\n"
        r"^     the client saw (\d+) events, each once, over (\d+) connections\n"
        r"^     done in all, each once: charge A7, refund A7$",
        told[0].stdout,
        re.MULTILINE,
    )
    assert found is not None
    killed, second, events, connections = map(int, found.groups())
    assert killed != second
    assert events > 10
    assert connections > 1


def test_demo_fits_a_pipe_of_80_columns(told: Told) -> None:
    assert "\x1b" not in told[0].stdout
    assert [line for line in told[0].stdout.splitlines() if len(line) > 80] == []


def test_demo_leaves_nothing_behind(told: Told) -> None:
    shell = told[1]
    assert os.listdir(shell.here.parent / "tmp") == []
    assert not shell.data.exists()
