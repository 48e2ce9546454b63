"""The layout is the architecture: what the folders and file names promise, checked."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "cloister"
TESTS = ROOT / "tests"

MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".js", ".ts", ".sql"})
ROOMS = [path for path in MODULES if path.name == "__init__.py"]
TEST_FOLDERS = sorted(path for path in TESTS.iterdir() if path.is_dir() and any(path.rglob("*.py")))

LONGEST_FILE = 500
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}
TESTS_ACROSS_ROOMS = {"security", "crash", "examples"}
CORE_MAY_IMPORT = {*sys.stdlib_module_names, "pydantic"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def belongs_in_a_room_file(statement: ast.stmt, names: set[str]) -> bool:
    match statement:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in names
        case _:
            return False


def imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case _:
                pass


@pytest.mark.parametrize("path", ROOMS, ids=relative)
def test_room_says_what_lives_in_it(path: Path) -> None:
    assert ast.get_docstring(parse(path)), f"{relative(path)} needs a docstring: what lives here, what it may not know"


@pytest.mark.parametrize("path", ROOMS, ids=relative)
def test_room_file_holds_only_docstring_imports_and_exports(path: Path) -> None:
    allowed = {"__all__", "__version__"} if path.parent == PACKAGE else {"__all__"}
    statements = parse(path).body
    if ast.get_docstring(parse(path)):
        statements = statements[1:]
    others = [
        f"line {statement.lineno}: {ast.unparse(statement).splitlines()[0]}"
        for statement in statements
        if not belongs_in_a_room_file(statement, allowed)
    ]
    assert not others, f"{relative(path)} holds more than imports and __all__: {others}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_file_is_short_enough_to_be_one_thing(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{relative(path)} has {lines} lines: it wants to be two nouns"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_name_says_what_the_thing_is(path: Path) -> None:
    nouns = {part.strip("_") for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert not nouns & NAMES_THAT_SAY_NOTHING, f"{relative(path)} has a name that says nothing"


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=relative)
def test_core_imports_only_the_standard_library_and_pydantic(path: Path) -> None:
    strangers = {
        module
        for module in imported_modules(parse(path))
        if module.split(".")[0] not in CORE_MAY_IMPORT and not module.startswith("cloister.core")
    }
    assert not strangers, f"{relative(path)} imports {sorted(strangers)}"


@pytest.mark.parametrize("folder", TEST_FOLDERS, ids=relative)
def test_test_folder_mirrors_a_room(folder: Path) -> None:
    room = PACKAGE / folder.name
    assert folder.name in TESTS_ACROSS_ROOMS or room.is_dir(), (
        f"{relative(folder)} tests no room: there is no {relative(room)}"
    )
