"""Files in Python programs: what `open`, `pathlib` and `os` become, where paths lead, and what is not there."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.engines.monty import MontyEngine, files
from cloister.engines.monty.interpreter import MontyInterpreter
from cloister.engines.monty.seat import Desk
from cloister.ports.engine import Failed, Finished, Program, Step, Turn, TypeCheck
from cloister.ports.helping import Helper
from cloister.testing.conformance.disk import Disk
from cloister.tools import Tool, ToolRegistry
from cloister.tools.catalog import render_catalog

pytestmark = pytest.mark.anyio

START = "import os\nfrom pathlib import Path\n"
FILE = "/workspace/a.txt"


async def get_order(order_id: str) -> str:
    return order_id


CATALOG = render_catalog(ToolRegistry([Tool(get_order)]), Language.PYTHON)


class Driver:
    def __init__(self, interpreter: MontyInterpreter) -> None:
        self.interpreter = interpreter
        self.disk = Disk()

    async def run(self, code: str, helper: Helper | None = None) -> Step:
        turn = Turn(0, 20_000, 10_000, lambda _stream, _text: None, CATALOG, helper=helper or self.disk)
        return await self.interpreter.start(Program(START + code), turn)

    async def value(self, code: str) -> Any:
        step = await self.run(code)
        assert isinstance(step, Finished), step
        return step.value

    async def error(self, code: str) -> tuple[str, str | None]:
        step = await self.run(code)
        assert isinstance(step, Failed), step
        return step.error.message, step.error.hint

    @property
    def is_at_a_desk(self) -> bool:
        return isinstance(self.interpreter._seat, Desk)  # pyright: ignore[reportPrivateUsage]

    @property
    def asked(self) -> list[tuple[str, Json]]:
        asked, self.disk.asked = self.disk.asked, []
        return asked


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[MontyEngine]:
    async with MontyEngine(capacity=2) as engine:
        yield engine


@pytest.fixture(params=["desk", "cabin"])
async def session(request: pytest.FixtureRequest, engine: MontyEngine) -> AsyncIterator[Driver]:
    """Either of the two ways to a worker: they must not differ."""
    interpreter = await engine.open(SessionLimits())
    driver = Driver(interpreter)
    if request.param == "cabin":
        await driver.run("if False:\n    await get_order('A')")
    assert driver.is_at_a_desk == (request.param == "desk")
    yield driver
    await interpreter.close()


# -- what is asked ----------------------------------------------------------------------------------------------------


async def test_file_that_is_opened_is_looked_at_and_read_when_it_is_read(session: Driver) -> None:
    session.disk.files["/a.txt"] = b"one\ntwo\n"
    assert await session.value("f = open('a.txt')\nf.name") == "a.txt"
    assert session.asked == [("files.stat", FILE)]
    assert await session.value("[f.readline(), f.readline(), f.readline()]") == ["one\n", "two\n", ""]
    assert session.asked == [("files.stat", FILE), ("files.read", FILE)]


async def test_opening_for_writing_empties_the_file_and_for_appending_makes_it(session: Driver) -> None:
    session.disk.files["/a.txt"] = b"old"
    await session.run("f = open('a.txt', 'a')")
    assert session.disk.files["/a.txt"] == b"old"
    await session.run("f = open('a.txt', 'w')\ng = open('new', 'ab')")
    assert session.disk.files == {"/a.txt": b"", "/new": b""}


async def test_program_that_uses_nothing_but_files_stays_at_its_desk(engine: MontyEngine) -> None:
    driver = Driver(await engine.open(SessionLimits()))
    await driver.run("Path('a').write_text('x')\nwith open('a') as f:\n    f.read()\nos.listdir('.')")
    assert driver.is_at_a_desk
    await driver.interpreter.close()


async def test_json_csv_and_toml_go_through_files(session: Driver) -> None:
    code = """
import csv, json, tomllib
with open('a.json', 'w') as f:
    json.dump({'n': [1, 2]}, f)
with open('a.csv', 'w', newline='') as f:
    rows = csv.writer(f)
    rows.writerow(['x', 'y'])
    rows.writerow([1, 'a,b'])
Path('a.toml').write_text('k = 5')
with open('a.csv', newline='') as f:
    table = [row for row in csv.DictReader(f)]
[json.load(open('a.json')), table, tomllib.load(open('a.toml', 'rb'))]
"""
    assert await session.value(code) == [{"n": [1, 2]}, [{"x": "1", "y": "a,b"}], {"k": 5}]


async def test_line_ends_become_one_where_text_is_opened_and_nowhere_else(session: Driver) -> None:
    session.disk.files["/a"] = b"a\r\nb\rc\n"
    code = "[open('a').read(), open('a', newline='').read(), Path('a').read_text(), open('a').readlines()]"
    assert await session.value(code) == ["a\nb\nc\n", "a\r\nb\rc\n", "a\r\nb\rc\n", ["a\n", "b\n", "c\n"]]
    await session.run("open('b', 'w').write('x\\r\\ny\\n')")
    assert session.disk.files["/b"] == b"x\r\ny\n"


async def test_stat_says_size_time_kind_and_whether_it_may_be_written(session: Driver) -> None:
    session.disk.files |= {"/a": b"12345", "/seal": b""}
    session.disk.read_only.add("/seal")
    session.disk.directories.add("/d")
    code = "[[oct(s.st_mode), s.st_size, s.st_mtime] for s in (Path('a').stat(), os.stat('seal'), os.stat('d'))]"
    now = 1_700_000_000
    assert await session.value(code) == [["0o100644", 5, now], ["0o100444", 0, now], ["0o40755", 4096, now]]


async def test_whole_trees_are_walked_and_searched(session: Driver) -> None:
    session.disk.files |= {"/a.py": b"", "/d/b.py": b"", "/d/e/c.txt": b""}
    session.disk.directories |= {"/d", "/d/e", "/empty"}
    assert await session.value("[str(p) for p in Path('.').glob('*.py')]") == ["a.py"]
    assert sorted(await session.value("[str(p) for p in Path('.').rglob('*.py')]")) == ["a.py", "d/b.py"]
    assert await session.value("[r for r, _, _ in os.walk('/d')]") == ["/d", "/d/e"]
    assert await session.value("[[e.name, e.is_dir()] for e in os.scandir('d')]") == [["b.py", False], ["e", True]]
    assert await session.value("list(Path('nowhere').glob('*'))") == []


async def test_tree_with_too_many_entries_is_not_walked_to_its_end(
    session: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_ENTRIES", 10)
    session.disk.files |= {f"/d/{n}": b"" for n in range(10)}
    session.disk.directories.add("/d")
    message, _ = await session.error("list(Path('d').rglob('*'))")
    assert message == "RuntimeError: more than 10 entries below '/workspace/d': go through it in parts"


async def test_missing_file_may_be_removed_if_that_is_said(session: Driver) -> None:
    assert await session.value("Path('a').unlink(missing_ok=True)") is None
    message, _ = await session.error("Path('a').unlink()")
    assert message == "FileNotFoundError: [Errno 2] No such file or directory: '/workspace/a'"


async def test_directory_is_not_removed_as_a_file(session: Driver) -> None:
    session.disk.directories.add("/d")
    message, _ = await session.error("os.remove('d')")
    assert message == "IsADirectoryError: [Errno 21] Is a directory: '/workspace/d'"
    assert "/d" in session.disk.directories


async def test_refusal_says_of_both_paths_of_a_move(session: Driver) -> None:
    message, _ = await session.error("os.rename('a', 'b')")
    assert message == ("FileNotFoundError: [Errno 2] No such file or directory: '/workspace/a' -> '/workspace/b'")


# -- where paths lead -------------------------------------------------------------------------------------------------


async def test_programs_begin_in_the_workspace_and_stay_where_they_went(engine: MontyEngine, session: Driver) -> None:
    session.disk.files |= {"/d/x": b"in d", "/x": b"above"}
    session.disk.directories.add("/d")
    assert await session.value("[os.getcwd(), str(Path.cwd())]") == ["/workspace", "/workspace"]
    await session.run("os.chdir('d')")
    assert await session.value("[os.getcwd(), open('x').read(), open('../x').read()]") == [
        "/workspace/d",
        "in d",
        "above",
    ]
    woken = Driver(await engine.open(SessionLimits(), await session.interpreter.dump()))
    woken.disk = session.disk
    assert await woken.value("[os.getcwd(), open('x').read(), str(Path('x').resolve())]") == [
        "/workspace/d",
        "in d",
        "/workspace/d/x",
    ]
    await woken.interpreter.close()


async def test_first_program_begins_in_the_workspace_even_if_it_is_no_program(session: Driver) -> None:
    assert isinstance(await session.run("x = = 1"), Failed)
    assert await session.value("os.getcwd()") == "/workspace"


async def test_dots_are_applied_by_the_path_and_lead_nowhere_else(session: Driver) -> None:
    session.disk.files["/etc/passwd"] = b"the session's own"
    assert await session.value("open('../../../../etc/passwd').read()") == "the session's own"
    assert session.asked[-1] == ("files.read", "/etc/passwd")


async def test_nobody_goes_to_a_directory_that_is_not_there(session: Driver) -> None:
    message, _ = await session.error("os.chdir('nowhere')")
    assert message == "FileNotFoundError: [Errno 2] No such file or directory: '/workspace/nowhere'"


@pytest.mark.parametrize("code", ["open('')", "open('', 'w')", "Path('').read_text()", "os.listdir('')"])
async def test_empty_path_is_no_file(session: Driver, code: str) -> None:
    message, _ = await session.error(code)
    assert message == "FileNotFoundError: [Errno 2] No such file or directory: ''"
    assert session.disk.files == {}


# -- what is not there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "says", "hint"),
    [
        ("open('a', 'x')", "exclusive creation mode is not supported", "Path(path).exists()"),
        ("open('a', 'r+')", "update modes ('+') are not yet supported", "mode 'w'"),
        ("open('a', encoding='latin-1')", "'encoding' argument is not yet supported", "mode 'rb'"),
        ("open('a', buffering=1)", "'buffering' argument is not yet supported", "leave it out"),
        ("Path('a').read_text(encoding='utf-8')", "read_text() takes no keyword arguments", "always UTF-8"),
        ("Path('a').write_text('x', encoding='utf-8')", "write_text() takes exactly one argument", "always UTF-8"),
        ("Path('a').touch()", "has no attribute 'touch'", "open(path, 'a').close()"),
        ("open('a', 'w').writelines(['a'])", "has no attribute 'writelines'", "join(lines)"),
        ("print('x', file=open('a', 'w'))", "print() 'file' argument", "f.write"),
        ("os.environ['HOME']", "'os.environ' is not supported", "as inputs"),
        ("os.getenv('HOME')", "'os.getenv' is not supported", "as inputs"),
        ("files.read('a')", "name 'files' is not defined", "open(), pathlib and os"),
    ],
)
async def test_what_is_not_there_is_refused_by_name_with_another_way(
    session: Driver, code: str, says: str, hint: str
) -> None:
    session.disk.files["/a"] = b""
    message, advice = await session.error(code)
    assert says in message
    assert advice is not None
    assert hint in advice


@pytest.mark.parametrize(
    "code", ["import shutil", "import glob", "import tempfile", "from pathlib import PurePosixPath"]
)
async def test_modules_that_are_not_there_are_refused_before_anything_runs(session: Driver, code: str) -> None:
    turn = Turn(0, 20_000, 10_000, lambda _stream, _text: None, CATALOG)
    found = await session.interpreter.check(Program(code), TypeCheck.WARN, turn, starting=False)
    assert [diagnostic.code for diagnostic in found.diagnostics] == ["UNSUPPORTED_FEATURE"]
    assert found.diagnostics[0].hint


@pytest.mark.parametrize("code", ["os.walk('.')", "os.scandir('.')", "list(Path('.').rglob('*'))"])
async def test_what_is_there_passes_the_strictest_check(session: Driver, code: str) -> None:
    turn = Turn(0, 20_000, 10_000, lambda _stream, _text: None, CATALOG)
    found = await session.interpreter.check(Program(START + code), TypeCheck.STRICT, turn, starting=False)
    assert found.diagnostics == ()


async def test_part_of_a_module_that_is_not_there_is_still_found(session: Driver) -> None:
    turn = Turn(0, 20_000, 10_000, lambda _stream, _text: None, CATALOG)
    found = await session.interpreter.check(Program(f"{START}os.fork()"), TypeCheck.STRICT, turn, starting=False)
    assert [diagnostic.message for diagnostic in found.diagnostics] == ["Module `os` has no member `fork`"]


# -- a host that breaks, a worker that lies ---------------------------------------------------------------------------


async def test_what_breaks_in_the_host_is_not_told_to_the_program(session: Driver) -> None:
    said: list[Json] = []

    def broken(name: str, given: tuple[Json, ...]) -> Json:
        if name == "text":
            said.append(given[0])
            return None
        raise LookupError("postgres://user:password@host")

    with pytest.raises(LookupError):
        await session.run("try:\n    open('a')\nexcept Exception as e:\n    seen = str(e)\nseen", broken)
    assert said == []
    # What the program made of it, if it got that far, does not have it either.
    step = await session.run("seen")
    assert isinstance(step, Failed) or (isinstance(step, Finished) and step.value == "the host could not answer")


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.lists(st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


@given(
    st.sampled_from(sorted(files.FUNCTIONS)),
    st.lists(HOSTILE, max_size=4),
    st.dictionaries(st.sampled_from(["parents", "exist_ok", "max_depth", "pattern", "sudo"]), HOSTILE, max_size=3),
)
async def test_whatever_a_worker_sends_is_answered_or_refused(
    name: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    answer = files.settled(name, args, kwargs, Disk(), lambda: False)
    if "exc_type" in answer:
        assert isinstance(files.as_exception(answer), Exception)
    else:
        assert set(answer) == {"return_value"}


def test_walk_for_a_program_that_is_gone_ends() -> None:
    disk = Disk()
    disk.directories |= {f"/{n}" for n in range(100)}
    answer = files.settled("Path.scan", ["/"], {}, disk, lambda: True)
    assert answer["exc_type"] == "RuntimeError"
    assert len(disk.asked) == 1
