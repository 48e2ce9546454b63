"""Environments: directories of the host that turns work in, and what their programs make of relative paths."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, Mount, tool
from cloister.core.answer import Answer, FinishReason, Piece
from cloister.core.capability import SideEffect
from cloister.core.errors import InvalidInput
from cloister.core.language import Language
from cloister.core.message import AssistantMessage, OutputText
from cloister.core.thread import DriverKind, ThreadParams
from cloister.core.turn import Status, TurnEnvironmentParams, TurnParams
from cloister.ports.model import Asked, Model, ModelCapabilities
from cloister.threads import Threads
from tests.threads.lab import ends, follow, host, run_code, say

pytestmark = pytest.mark.anyio

REPO = TurnEnvironmentParams("repo", "/src")
LIVE = TurnEnvironmentParams("live")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "machine-room" / "repo"
    (repo / "src" / "deep").mkdir(parents=True)
    (repo / "README").write_text("of the repo")
    (repo / "src" / "a.txt").write_text("of src")
    (repo / "src" / "deep" / "b.txt").write_text("deep down")
    (tmp_path / "machine-room" / "secret.txt").write_text("not yours")
    return repo


def _host(path: Path, repo: Path, **options: Any) -> Cloister:
    environments = {"repo": Mount(repo, "copy_on_write"), "live": Mount(repo)}
    return host(path / "c.db", run_code, environments=environments, **options)


async def _answer(threads: Threads, thread_id: str, code: str, environment_id: str | None = None) -> Any:
    """What a program made in a turn; the turn completed."""
    turn_id = await say(threads, thread_id, code, environment_id=environment_id)
    await follow(threads, thread_id, ends(turn_id))
    turn = await threads.get_turn(thread_id, turn_id)
    assert turn.status is Status.COMPLETED, turn.error
    return turn.answer["result"]


_PYTHON = """\
import os
from pathlib import Path
found = [os.getcwd(), sorted(os.listdir()), open("a.txt").read()]
found += [Path("deep/b.txt").read_text(), Path("/own.txt").exists()]
Path("new.txt").write_text("made here")
found.append(Path("/environments/repo/src/new.txt").read_text())
os.chdir("/")
found
"""
_TYPESCRIPT = """\
const names = files.list().map((entry) => entry.name);
files.write("new.txt", "made here");
files.move("new.txt", "newer.txt");
[names, files.read("a.txt"), files.read("./deep/b.txt"), files.exists("/own.txt"),
 files.read("/environments/repo/src/newer.txt"), files.grep("deep").map((found) => found.path),
 files.stat("a.txt").path]
"""


async def test_relative_paths_of_a_turns_python_begin_in_its_environment(tmp_path: Path, repo: Path) -> None:
    async with _host(tmp_path, repo) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(environments=(REPO, LIVE)))
        await cloister.session(thread.session_id).files.write("/own.txt", "the session's")
        expected = ["/environments/repo/src", ["a.txt", "deep"], "of src", "deep down", True, "made here"]
        assert await _answer(threads, thread.id, _PYTHON, "repo") == expected
        # Where a program went is not where the next one begins; and a turn without a word about it is in `local`.
        where = "import os\nos.getcwd()"
        assert await _answer(threads, thread.id, where, "repo") == "/environments/repo/src"
        assert await _answer(threads, thread.id, where) == "/workspace"
        read_only = "try:\n    open('src/x', 'w')\nexcept PermissionError as error:\n    said = str(error)\nsaid"
        assert "read-only" in await _answer(threads, thread.id, read_only, "live")
        assert sorted(path.name for path in (repo / "src").iterdir()) == ["a.txt", "deep"]


async def test_relative_paths_of_a_turns_typescript_begin_in_its_environment(tmp_path: Path, repo: Path) -> None:
    async with _host(tmp_path, repo) as cloister:
        threads = cloister.threads
        params = ThreadParams(environments=(REPO,), language=Language.TYPESCRIPT)
        thread = await threads.create(params)
        await cloister.session(thread.session_id).files.write("/own.txt", "the session's")
        assert await _answer(threads, thread.id, _TYPESCRIPT, "repo") == [
            ["a.txt", "deep"],
            "of src",
            "deep down",
            True,
            "made here",
            ["/environments/repo/src/deep/b.txt"],
            "/environments/repo/src/a.txt",
        ]
        # An environment has its own meaning for `..`: none.
        climb = "let said = ''; try { files.read('../README') } catch (error) { said = error.code } said"
        assert await _answer(threads, thread.id, climb, "repo") == "FILE_INVALID_PATH"
        assert await _answer(threads, thread.id, "files.list().map((entry) => entry.name)") == [
            "environments",
            "own.txt",
        ]


async def test_no_path_of_a_program_leads_out_of_the_session(tmp_path: Path, repo: Path) -> None:
    (repo / "src" / "link").symlink_to(repo.parent / "secret.txt")
    climb = """\
from pathlib import Path
said = []
hidden = ["../../../../secret.txt", "../../secret.txt", "../../../machine-room/secret.txt"]
for path in [*hidden, "link", "../../../../etc/passwd"]:
    try:
        said.append(Path(path).read_text())
    except Exception as error:
        said.append(type(error).__name__)
said
"""
    async with _host(tmp_path, repo) as cloister:
        thread = await cloister.threads.create(ThreadParams(environments=(REPO,)))
        said = await _answer(cloister.threads, thread.id, climb, "repo")
        assert said == ["FileNotFoundError"] * 3 + ["ValueError", "FileNotFoundError"]


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (TurnEnvironmentParams("nowhere"), "no environment 'nowhere'"),
        (TurnEnvironmentParams("repo", "/absent"), "environment 'repo'"),
        (TurnEnvironmentParams("repo", "/README"), "environment 'repo'"),
        (TurnEnvironmentParams("repo", "/src/../.."), "'..'"),
        (TurnEnvironmentParams("repo", "src\\deep"), "backslash"),
        (TurnEnvironmentParams("repo", "src\0"), "NUL"),
        (TurnEnvironmentParams("local", "/docs"), "environment 'local'"),
    ],
)
async def test_what_is_no_directory_of_an_environment_is_refused_before_there_is_a_thread(
    tmp_path: Path, repo: Path, environment: TurnEnvironmentParams, named: str
) -> None:
    async with _host(tmp_path, repo) as cloister:
        joined = await cloister.open_session("joined")
        for params in (
            ThreadParams(environments=(environment,)),
            ThreadParams(environments=(environment,), session_id="joined"),
        ):
            with pytest.raises(InvalidInput) as refused:
                await cloister.threads.create(params)
            assert named in refused.value.message
            assert str(repo.parent) not in f"{refused.value.message} {refused.value.hint}"
        assert (await cloister.threads.list()).threads == ()
        assert [meta.id for meta in await cloister.list_sessions()] == [joined.id]


async def test_environment_that_is_not_the_threads_is_refused_when_a_turn_is_begun(tmp_path: Path, repo: Path) -> None:
    async with _host(tmp_path, repo) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(environments=(REPO,)))
        for unknown in ("live", "nowhere", "../repo", ""):
            with pytest.raises(InvalidInput, match="no environment"):
                await threads.turn(thread.id, TurnParams("1", environment_id=unknown))
        # What a program has taken away is missed by name.
        gone = (
            "import os\nos.unlink('deep/b.txt')\nos.rmdir('deep')\nos.unlink('a.txt')\n"
            "os.chdir('/')\nos.rmdir('/environments/repo/src')"
        )
        await _answer(threads, thread.id, gone, "repo")
        with pytest.raises(InvalidInput, match="environment 'repo'"):
            await threads.turn(thread.id, TurnParams("1", environment_id="repo"))
        assert await _answer(threads, thread.id, "1 + 1") == 2
        assert (repo / "src" / "a.txt").exists()


async def test_native_driver_has_no_use_for_an_environment_and_says_so(tmp_path: Path, repo: Path) -> None:
    async with _host(tmp_path, repo) as cloister:
        with pytest.raises(InvalidInput, match="native"):
            await cloister.threads.create(ThreadParams(environments=(REPO,), driver=DriverKind.NATIVE))


async def test_joined_session_gets_the_environment_or_what_stands_in_its_way_is_named(
    tmp_path: Path, repo: Path
) -> None:
    async with _host(tmp_path, repo) as cloister:
        own = await cloister.open_session("own", files={"/docs/plan.txt": "of the session"})
        params = ThreadParams(session_id="own", environments=(REPO, TurnEnvironmentParams("local", "docs")))
        thread = await cloister.threads.create(params)
        assert own.environments == ("repo",)
        assert await _answer(cloister.threads, thread.id, "open('a.txt').read()", "repo") == "of src"
        assert await _answer(cloister.threads, thread.id, "open('plan.txt').read()", "local") == "of the session"
        with pytest.raises(InvalidInput, match="environments"):
            await cloister.open_session("mine", mounts={"/environments/repo": Mount(repo)})


async def test_sleeping_program_wakes_in_the_same_directory_after_a_restart(tmp_path: Path, repo: Path) -> None:
    @tool(side_effect=SideEffect.WRITE, approval_policy="manual")
    async def deploy(what: str) -> str:
        """Deploy it."""
        return what

    code = {
        Language.PYTHON: "open('made.txt', 'w').write('before')\ndone = await deploy(what='x')\n"
        "import os\n[os.getcwd(), open('a.txt').read(), open('made.txt').read(), done]",
        Language.TYPESCRIPT: "files.write('made.txt', 'before'); const done = await tools.deploy({what: 'x'});\n"
        "['/environments/repo/src', files.read('a.txt'), files.read('made.txt'), done]",
    }
    asked: dict[Language, tuple[str, str]] = {}
    async with _host(tmp_path, repo, tools=[deploy]) as cloister:
        for language in code:
            thread = await cloister.threads.create(ThreadParams(environments=(REPO,), language=language))
            turn_id = await say(cloister.threads, thread.id, code[language], environment_id="repo")
            await follow(cloister.threads, thread.id, lambda seen: seen.event == "approval.required")
            asked[language] = thread.id, turn_id
        # No event and no row says where the directory lies.
        store = (tmp_path / "c.db").read_bytes() + (tmp_path / "c.db-wal").read_bytes()
        assert str(repo.parent).encode() not in store

    # A host without it leaves the programs as they are, and says why.
    async with host(tmp_path / "c.db", run_code, tools=[deploy]) as other:
        held = [cell for cell in (await other.recovery_report()).cells if cell.outcome == "held"]
        assert len(held) == 2
        assert all("repo" in (cell.reason or "") for cell in held)

    async with _host(tmp_path, repo, tools=[deploy]) as cloister:
        for approval in await cloister.approvals():
            await cloister.decide(approval.id, "allow")
        for thread_id, turn_id in asked.values():
            await follow(cloister.threads, thread_id, ends(turn_id))
            turn = await cloister.threads.get_turn(thread_id, turn_id)
            assert turn.answer["result"] == ["/environments/repo/src", "of src", "before", "x"]
        [thread_id, _] = asked[Language.PYTHON]
        # The next turn finds what the session has changed there.
        assert await _answer(cloister.threads, thread_id, "open('made.txt').read()", "repo") == "before"
        assert not (repo / "src" / "made.txt").exists()


async def test_fork_of_a_thread_works_in_the_same_environment(tmp_path: Path, repo: Path) -> None:
    async with _host(tmp_path, repo) as cloister:
        threads = cloister.threads
        thread = await threads.create(ThreadParams(environments=(REPO,)))
        early = await threads.fork(thread.id)
        await _answer(threads, thread.id, "open('a.txt', 'w').write('changed')", "repo")
        fork = await threads.fork(thread.id)
        await _answer(threads, thread.id, "open('a.txt', 'w').write('changed again')", "repo")
        assert await _answer(threads, fork.id, "open('a.txt').read()", "repo") == "changed"
        assert await _answer(threads, early.id, "open('a.txt').read()", "repo") == "of src"


async def test_snapshot_of_a_session_knows_nothing_of_the_directory(tmp_path: Path, repo: Path) -> None:
    async with _host(tmp_path, repo) as cloister:
        thread = await cloister.threads.create(ThreadParams(environments=(REPO,)))
        await _answer(cloister.threads, thread.id, "open('made.txt', 'w').write('kept')", "repo")
        snapshot = await cloister.session(thread.session_id).snapshot()
        copy = await cloister.restore_session(snapshot, session_id="copy")
        # What the session made there is its own; the rest is the host's.
        assert await copy.files.read_text("/environments/repo/src/made.txt") == "kept"
        assert not await copy.files.exists("/environments/repo/src/a.txt")
        assert copy.environments == ()
        thread = await cloister.threads.create(ThreadParams(session_id="copy", environments=(REPO,)))
        both = "[open('made.txt').read(), open('a.txt').read()]"
        assert await _answer(cloister.threads, thread.id, both, "repo") == ["kept", "of src"]


class _Listening:
    """A model that only listens."""

    provider = name = "listening"
    capabilities = ModelCapabilities()

    def __init__(self) -> None:
        self.told: list[str] = []

    def get(self, name: str) -> Model:
        return self

    @asynccontextmanager
    async def request(self, asked: Asked) -> AsyncGenerator[AsyncIterator[Piece], None]:
        self.told.append(asked.instructions)
        yield self._pieces()

    async def _pieces(self) -> AsyncIterator[Piece]:
        yield Answer(AssistantMessage((OutputText("yes"),)), FinishReason.STOP)


async def test_model_is_told_where_its_programs_begin(tmp_path: Path, repo: Path) -> None:
    model = _Listening()
    environments = {"repo": Mount(repo)}
    store = f"sqlite://{tmp_path / 'c.db'}?synchronous=normal"
    async with Cloister(store=store, models=model, model="listening", environments=environments) as cloister:
        thread = await cloister.threads.create(ThreadParams(environments=(REPO,)))
        for environment_id in (None, "repo"):
            turn_id = await say(cloister.threads, thread.id, "go", environment_id=environment_id)
            await follow(cloister.threads, thread.id, ends(turn_id))
    local, there = model.told
    assert there.startswith(local)
    assert "/environments/repo/src" in there.removeprefix(local)
    assert str(repo) not in there


@pytest.mark.parametrize(
    "wrong", [{"local": Mount(".")}, {"a b": Mount(".")}, {"x": "/srv"}, {"x": Mount("/absent/from/here")}, []]
)
def test_environments_that_cannot_be_are_refused_when_the_host_is_made(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        Cloister(environments=wrong)
