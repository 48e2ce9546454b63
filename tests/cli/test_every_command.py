"""Every command of the tree, as a user types it: in a pipe, with --json, and at a terminal. A command without a line in
`lines` fails here."""

import inspect
import json
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cloister.cli.main import every_command
from cloister.client import Client
from cloister.threads.models import ModelRegistry
from tests.cli.lines import LINES, Line
from tests.cli.remote.conftest import SCRIPT
from tests.cli.shell import Shell
from tests.server.lab import ADMIN, Running, get_order, refund, running
from tests.tools.sources.small_server import SERVER

if TYPE_CHECKING:
    from cyclopts import App

# Whoever comes first prepares all of it.
pytestmark = pytest.mark.timeout(300)
DOORS = ("pipe", "json", "terminal")
CONFIG = f"""\
[mcp.small]
command = {json.dumps(sys.executable)}
args = ["-S", "small.py"]
"""
ASKS = "import asyncio\nawait asyncio.gather(*[refund('A7', 250 + n) for n in range(3)])"
LEAVES = "for n in ('a', 'gone'): open(n + '.txt', 'w').write('one\\n')\nstore('total', 42)\nstore('gone', 1)"
# What is there beside the threads: sessions, questions, keys, files.
PREPARED = (
    ("run", "--session", "s", "--tools", "bank", "-e", LEAVES),
    ("run", "--session", "r", "-e", "1 + 1"),
    ("run", "--session", "gone", "-e", "1"),
    ("run", "--session", "q", "--tools", "bank", "--approve", "later", "-e", ASKS),
    ("store", "export", "there.cloister"),
    # The first is new already.
    ("keys", "rotate", "snapshot"),
    ("keys", "rotate", "snapshot"),
    ("session", "snapshot", "r", "-o", "there.snapshot"),
)


def commands(app: "App", path: tuple[str, ...] = ()) -> "Iterator[tuple[str, App]]":
    """All that can be typed and does something."""
    for name in app:
        if name.startswith("-") or not app[name].show:
            continue
        if app[name].default_command is not None:
            yield " ".join((*path, name)), app[name]
        yield from commands(app[name], (*path, name))


def has_json(app: "App") -> bool:
    assert app.default_command is not None
    return "as_json" in inspect.signature(app.default_command).parameters


def test_every_command_has_a_line_and_none_is_of_a_command_that_is_gone() -> None:
    assert {name for name, _ in commands(every_command())} == set(LINES)


def test_commands_without_json_are_those_that_talk_or_write_something_else() -> None:
    assert {name: has_json(app) for name, app in commands(every_command())} == {
        name: line.has_json for name, line in LINES.items()
    }


def test_help_of_every_command_has_an_example_and_its_exit_codes() -> None:
    lacking: dict[str, list[str]] = {}
    for name, app in commands(every_command()):
        epilogue = app.help_epilogue or ""
        parts = [part for part in (f"  cloister {name}", "Exit codes:") if part not in epilogue]
        if parts:
            lacking[name] = parts
    assert lacking == {}


# -- what is there ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    place = tmp_path_factory.mktemp("server")
    (place / "script.yaml").write_text(SCRIPT)
    store, model = f"sqlite:///{place}/cloister.db?synchronous=normal", f"scripted:{place}/script.yaml"
    with running(store, tools=(get_order, refund), models=ModelRegistry(), model=model) as made:
        yield made


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with something of everything, to be copied."""
    shell = Shell(tmp_path_factory.mktemp("prepared"))
    for words in PREPARED:
        done = shell(*words)
        assert done.returncode in (0, 5), done.stderr
    for name in ("TOKEN", "GONE"):
        done = shell("secrets", "set", "s", name, "--allow", "fetch", stdin="hunter2-hunter2")
        assert done.returncode == 0, done.stderr
    (shell.here / "small.toml").write_text(CONFIG)
    (shell.here / "small.py").write_text(SERVER)
    (shell.here / "ready.yaml").write_text("answers:\n  - text: ready\n")
    return shell.here.parent


class Place:
    """A shell in a copy of it, and the names of what is there."""

    def __init__(self, directory: Path, prepared: Path, server: Running) -> None:
        self.shell = Shell(directory)
        shutil.copytree(prepared, directory, dirs_exist_ok=True)
        self.shell.environment |= {"CLOISTER_URL": server.url, "CLOISTER_TOKEN": ADMIN}
        self.names = {"here": str(self.shell.here), **self._kept(), **_threads(server)}

    def _kept(self) -> dict[str, str]:
        questions = [one["id"] for one in self._json("approvals", "list")["approvals"]]
        [cell] = self._json("session", "show", "r")["session"]["history"]
        [old] = [one["id"] for one in self._json("keys", "list")["keys"] if one["state"] == "accepted"]
        return {**dict(zip(("question", "allowed", "denied"), questions, strict=True)), "cell": cell["id"], "key": old}

    def _json(self, *words: str) -> Any:
        done = self.shell(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def _threads(server: Running) -> dict[str, str]:
    made: dict[str, str] = {}
    with Client(server.url, ADMIN) as client:
        for name in ("thread", "fresh", "steered", "interrupted", "compacted", "archived", "asked"):
            thread = made[name] = client.threads.create().id
            if name in ("thread", "compacted"):
                client.end_of(thread, client.threads.turn(thread, "hello").turn.id)
            elif name in ("steered", "interrupted"):
                # Its program waits for a person: it goes on.
                client.threads.turn(thread, "refund")
        client.threads.turn(made["asked"], "refund")
        with client.events(thread_id=made["asked"]) as events:
            made["asked"] = next(one.payload["id"] for one in events if one.event == "approval.required")
    return made


@pytest.fixture(scope="module")
def places(prepared: Path, server: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    return {door: Place(tmp_path_factory.mktemp(door), prepared, server) for door in DOORS}


# -- what is typed ----------------------------------------------------------------------------------------------------


def words_of(command: str, line: Line, names: dict[str, str], *more: str) -> list[str]:
    """With its names, and where the line has `--` what is added before that."""
    words = [word.format_map(names) if "{" in word else word for word in line.words.split()]
    place = words.index("--") if "--" in words else len(words)
    return [*command.split(), *words[:place], *more, *words[place:]]


SLOW = {"demo": pytest.mark.slow}
EACH = [pytest.param(name, marks=[SLOW[name]] if name in SLOW else []) for name in LINES]


@pytest.mark.parametrize("command", EACH)
def test_command_in_a_pipe_says_what_it_did(command: str, places: dict[str, Place]) -> None:
    line, place = LINES[command], places["pipe"]
    words = words_of(command, line, place.names, *line.piped.split())
    code, out, err = in_a_pipe(place.shell, line, words)
    assert (code, err if code == 0 else "") == (line.code, ""), err
    assert line.said.format_map(place.names) in out
    assert "\x1b" not in out


@pytest.mark.parametrize("command", [name for name, line in LINES.items() if line.has_json])
def test_command_with_json_writes_objects_and_nothing_else(command: str, places: dict[str, Place]) -> None:
    line, place = LINES[command], places["json"]
    words = words_of(command, line, place.names, *line.piped.split(), "--json")
    code, out, err = in_a_pipe(place.shell, line, words)
    assert code == line.code, err
    told = [json.loads(one) for one in out.splitlines()]
    # A stream has one on each line.
    assert len(told) == 1 or command in ("approvals watch", "threads events")
    assert all(isinstance(one, dict) for one in told)


@pytest.mark.parametrize("command", EACH)
def test_command_at_a_terminal_says_what_it_did(command: str, places: dict[str, Place]) -> None:
    line, place = LINES[command], places["terminal"]
    with place.shell.terminal(*words_of(command, line, place.names)) as terminal:
        for seen, typed in line.typed:
            terminal.until(seen)
            terminal.type(typed)
        if line.stopped_at is not None:
            terminal.until(line.stopped_at)
            terminal.type("\x03")
        assert terminal.end() == line.code, terminal.screen
        assert line.said.format_map(place.names) in terminal.screen
        assert "Traceback" not in terminal.screen


def in_a_pipe(shell: Shell, line: Line, words: list[str]) -> tuple[int, str, str]:
    if line.stopped_at is None:
        done = shell(*words, stdin=line.stdin)
        return done.returncode, done.stdout, done.stderr
    with shell.at_work(*words) as (work, out):
        said = ""
        while line.stopped_at not in said:
            said += out.readline()
        os.kill(work.pid, signal.SIGTERM)
        return work.wait(60), said + out.read(), ""
