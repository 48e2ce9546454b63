"""Names of files: every spelling of a file is one name, and what can name nothing is refused everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import InvalidInput
from cloister.ports.helping import HelperRefused
from cloister.sessions.files import MAX_PATH, Files, normal_path
from tests.sessions.files.clock import HandClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def files() -> Files:
    return Files(HandClock())


@pytest.mark.parametrize(
    "path",
    ["/workspace/x", "/x", "x", "x/", "/x//", "./x", "/./x/.", "//x", "workspace/x", "/workspace/workspace/x"],
)
async def test_all_spellings_name_the_same_file(files: Files, path: str) -> None:
    await files.write(path, "here")
    assert [entry.path for entry in await files.list()] == ["/x"]
    assert await files.read_text("/workspace/x") == "here"
    assert await files.delete(path)
    assert await files.list() == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "at least one character"),
        ("..", "'..' in it"),
        ("/a/../b", "'..' in it"),
        ("/workspace/../etc/passwd", "'..' in it"),
        ("a\\b", "backslash"),
        ("..\\b", "backslash"),
        ("a\0", "NUL"),
        ("\ud800", "half a surrogate pair"),
        ("x" * MAX_PATH, "more than 1024 bytes"),
        ("/" + "é" * (MAX_PATH // 2), "more than 1024 bytes"),
        (5, "a path is text, not int"),
        (None, "a path is text, not NoneType"),
        (b"a", "a path is text, not bytes"),
    ],
)
async def test_path_that_can_name_nothing_is_refused_everywhere(files: Files, path: str, message: str) -> None:
    asked = [
        lambda: files.write(path, ""),
        lambda: files.write_text(path, ""),
        lambda: files.write_if_match(path, "", None),
        lambda: files.read(path),
        lambda: files.list(path),
        lambda: files.delete(path),
        lambda: files.stat(path),
        lambda: files.exists(path),
        lambda: files.mkdir(path),
        lambda: files.move(path, "/b"),
        lambda: files.copy("/", path),
        lambda: files.grep("x", path=path),
    ]
    for ask in asked:
        with pytest.raises(InvalidInput, match=message):
            await ask()
    assert await files.list() == []


@pytest.mark.parametrize("path", ["...", "a..b", "..a", "/" + "x" * (MAX_PATH - 1), "two words", "a\nb", "漢/字"])
async def test_path_that_only_looks_odd_is_taken(files: Files, path: str) -> None:
    await files.write(path, "here")
    assert await files.read_text(path) == "here"


@given(
    st.text(st.sampled_from("ab./") | st.characters(), max_size=12)
    | st.text("./a", max_size=6).map("workspace/{}".format)
)
def test_normal_path_names_itself(path: str) -> None:
    try:
        normal = normal_path(path)
    except HelperRefused:
        return
    assert normal_path(normal) == normal
    assert normal_path("/workspace" + normal) == normal
    assert normal.startswith("/")
    assert not {"", ".", ".."} & set(normal.split("/")[1:]) or normal == "/"
