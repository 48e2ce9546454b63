"""A session's files: one namespace, names that are refused, quotas, and what is where."""

import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import FileNotFound, InvalidInput, QuotaExceeded
from cloister.sessions.files import MAX_PATH, FileInfo, Files, normal_path

pytestmark = pytest.mark.anyio

NOON_MS = 1_763_294_400_000


class HandClock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.ms = NOON_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("files do not sleep")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def files(clock: HandClock) -> Files:
    return Files(clock)


async def test_what_was_written_is_read(files: Files) -> None:
    await files.write_text("a/b.txt", "grüße\r\n😀")
    assert await files.read_text("a/b.txt") == "grüße\r\n😀"
    await files.write_text("a/b.txt", "")
    assert await files.read_text("a/b.txt") == ""


@pytest.mark.parametrize(
    "path",
    [
        "/workspace/x",
        "/x",
        "x",
        "x/",
        "/x//",
        "./x",
        "/./x/.",
        "//x",
        "workspace/x",
        "/workspace/workspace/x",
        "/workspace//./x/",
    ],
)
async def test_all_spellings_name_the_same_file(files: Files, path: str) -> None:
    files.put(path, "here")
    assert await files.list() == ["/x"]
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
        ("x" * MAX_PATH, "more than 1024 characters"),
        ("/" + "x" * MAX_PATH, "more than 1024 characters"),
        (5, "a path is text, not int"),
        (None, "a path is text, not NoneType"),
        (b"a", "a path is text, not bytes"),
    ],
)
async def test_path_that_can_name_nothing_is_refused_everywhere(files: Files, path: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        await files.write_text(path, "")
    with pytest.raises(InvalidInput, match=message):
        await files.read_text(path)
    with pytest.raises(InvalidInput, match=message):
        await files.list(path)
    with pytest.raises(InvalidInput, match=message):
        await files.delete(path)
    with pytest.raises(InvalidInput, match=message):
        await files.stat(path)
    assert await files.list() == []


@pytest.mark.parametrize("path", ["...", "a..b", "..a", "/" + "x" * (MAX_PATH - 1), "two words", "a\nb", "漢/字"])
async def test_path_that_only_looks_odd_is_taken(files: Files, path: str) -> None:
    files.put(path, "here")
    assert await files.read_text(path) == "here"


@given(
    st.text(st.sampled_from("ab./") | st.characters(), max_size=12)
    | st.text("./a", max_size=6).map("workspace/{}".format)
)
def test_normal_path_names_itself(path: str) -> None:
    try:
        normal = normal_path(path)
    except InvalidInput:
        return
    assert normal_path(normal) == normal
    assert normal_path("/workspace" + normal) == normal
    assert normal.startswith("/")
    assert not {"", ".", ".."} & set(normal.split("/")[1:]) or normal == "/"


async def test_stat_tells_name_size_and_time(files: Files, clock: HandClock) -> None:
    files.put("/workspace/a/b", "é!")
    clock.ms += 1500
    files.put("c", "")
    noon = datetime.fromtimestamp(NOON_MS / 1000, UTC)
    assert await files.stat("a/b/") == FileInfo("/a/b", 3, noon)
    assert (await files.stat("c")).modified_at.timestamp() == NOON_MS / 1000 + 1.5
    files.put("a/b", "x")
    assert await files.stat("a/b") == FileInfo("/a/b", 1, datetime.fromtimestamp(clock.ms / 1000, UTC))


async def test_list_gives_full_paths_sorted_of_what_lies_below(files: Files) -> None:
    for path in ("b", "a/y", "a/x/1", "a-b", "ab/c", "a/x!"):
        files.put(path, path)
    assert await files.list("a") == ["/a/x!", "/a/x/1", "/a/y"]
    assert await files.list("/workspace/a/x") == ["/a/x/1"]
    assert await files.list() == sorted(["/b", "/a/y", "/a/x/1", "/a-b", "/ab/c", "/a/x!"])
    assert await files.list("/workspace/") == await files.list("/")


async def test_missing_directory_is_not_an_empty_one(files: Files) -> None:
    assert await files.list("/") == []
    with pytest.raises(FileNotFound, match="no directory '/a'"):
        await files.list("a")
    files.put("a/b", "")
    assert await files.list("a") == ["/a/b"]
    await files.delete("a/b")
    with pytest.raises(FileNotFound):
        await files.list("a")


async def test_missing_file_is_told_by_name(files: Files) -> None:
    files.put("other", "")
    for path in ("a", "a/b", "other/b", "oth"):
        with pytest.raises(FileNotFound, match=f"no file '/{path}'") as missing:
            await files.read_text(path)
        assert missing.value.code == "FILE_NOT_FOUND"
        assert isinstance(missing.value, LookupError)
        with pytest.raises(FileNotFound):
            await files.stat(path)
        assert await files.delete(path) is False


async def test_file_is_no_directory(files: Files) -> None:
    files.put("a/b", "kept")
    for path in ("a/b/c", "a/b/c/d"):
        with pytest.raises(InvalidInput, match="'/a/b' is a file: nothing can be below it"):
            files.put(path, "")
    with pytest.raises(InvalidInput, match="is a file, not a directory"):
        await files.list("a/b")
    assert await files.list() == ["/a/b"]


async def test_directory_is_no_file(files: Files) -> None:
    files.put("a/b/c", "kept")
    for path in ("a", "a/b", "/", ".", "/workspace"):
        with pytest.raises(InvalidInput, match="is a directory: a file needs another name"):
            files.put(path, "")
        with pytest.raises(InvalidInput, match="is a directory, not a file"):
            await files.read_text(path)
        with pytest.raises(InvalidInput, match="is a directory, not a file"):
            await files.stat(path)
    assert await files.delete("a") is False
    assert await files.list() == ["/a/b/c"]


async def test_name_of_a_directory_is_free_once_its_last_file_is_gone(files: Files) -> None:
    files.put("a/b", "")
    assert await files.delete("a/b") is True
    files.put("a", "a file now")
    assert await files.read_text("a") == "a file now"


async def test_root_cannot_be_deleted(files: Files) -> None:
    with pytest.raises(InvalidInput, match="root cannot be deleted"):
        await files.delete("/workspace/")


@pytest.mark.parametrize("text", [b"bytes", None, 5, "\ud800"])
async def test_what_is_not_text_is_not_written(files: Files, text: str) -> None:
    with pytest.raises(InvalidInput, match="'/a'"):
        files.put("a", text)
    assert await files.list() == []


async def test_one_file_too_many_is_refused_and_changes_nothing(clock: HandClock) -> None:
    files = Files(clock, max_files=2)
    files.put("a", "")
    files.put("b", "")
    with pytest.raises(QuotaExceeded, match="'/c' is one too many: a session has at most 2 files") as refused:
        files.put("c", "")
    assert refused.value.code == "QUOTA_EXCEEDED"
    assert await files.list() == ["/a", "/b"]
    files.put("a", "again")
    await files.delete("b")
    files.put("c", "")


async def test_one_byte_too_many_is_refused_and_changes_nothing(clock: HandClock) -> None:
    files = Files(clock, max_bytes=10)
    files.put("a", "12345")
    files.put("b", "é")
    with pytest.raises(QuotaExceeded, match="at most 10 bytes together"):
        files.put("a", "123456789")
    with pytest.raises(QuotaExceeded):
        await files.write_text("c", "1234")
    assert await files.read_text("a") == "12345"
    assert await files.list() == ["/a", "/b"]
    files.put("a", "12345678")
    await files.delete("a")
    files.put("c", "12345678")


async def test_session_without_files_pays_for_one_small_object(clock: HandClock) -> None:
    files = Files(clock)
    assert await files.list() == []
    assert not await files.delete("a")
    own = [getattr(files, name) for name in Files.__slots__]
    assert not any(isinstance(part, (dict, list)) for part in own)
    assert sys.getsizeof(files) < 200


_PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
_STEPS = st.lists(st.tuples(st.sampled_from(["put", "delete"]), _PATHS, st.text("xé", max_size=5)), max_size=30)


@given(_STEPS)
async def test_tree_is_what_a_plain_table_of_names_says(steps: list[tuple[str, str, str]]) -> None:
    files = Files(HandClock(), max_files=4, max_bytes=20)
    table: dict[str, str] = {}
    for what, path, text in steps:
        name = "/" + path
        if what == "delete":
            assert await files.delete(path) == (table.pop(name, None) is not None)
        else:
            after = {**table, name: text}
            fits = len(after) <= 4 and sum(len(one.encode()) for one in after.values()) <= 20
            clashes = any(one.startswith(other + "/") for one in after for other in after)
            if clashes or not fits:
                with pytest.raises(InvalidInput if clashes else QuotaExceeded):
                    files.put(path, text)
            else:
                files.put(path, text)
                table = after
        assert await files.list() == sorted(table)
        assert [await files.read_text(one) for one in table] == list(table.values())
