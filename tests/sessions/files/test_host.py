"""`session.files` by itself: what is told of files, quotas, and a model that it must agree with."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import FileConflict, FileNotFound, InvalidInput, InvalidLimits, QuotaExceeded
from cloister.core.file import FileEntry, FileInfo, FileLimits, InitialFile
from cloister.sessions.files import Files
from tests.sessions.files.clock import NOON_MS, HandClock

from .plain_model import DOING, PATHS, Model

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def files(clock: HandClock) -> Files:
    return Files(clock)


async def _tree(files: Files) -> list[str]:
    return [entry.path for entry in await files.list(recursive=True)]


async def test_text_and_bytes_are_the_same_file(files: Files) -> None:
    assert await files.write("a", "é") == 2
    assert await files.read("a") == "é".encode()
    assert await files.write("a", b"!", mode="a") == 3
    assert await files.read_text("a") == "é!"


async def test_stat_tells_kind_size_time_and_hash(files: Files, clock: HandClock) -> None:
    await files.write("/a/b", "é!")
    noon = datetime.fromtimestamp(NOON_MS / 1000, UTC)
    digest = await files.write_if_match("c", "", None)
    clock.ms += 1500
    assert await files.stat("c/") == FileInfo("/c", "file", 0, noon, digest)
    assert await files.stat("a") == FileInfo("/a", "directory", 0, noon)
    await files.write("a/b", "x")
    assert (await files.stat("a/b")).modified_at == datetime.fromtimestamp(clock.ms / 1000, UTC)
    await files.move("a/b", "moved")
    assert (await files.stat("moved")).modified_at == datetime.fromtimestamp(clock.ms / 1000, UTC)


async def test_list_goes_as_deep_as_it_is_told(files: Files) -> None:
    for path in ("b", "a/y", "a/x/1"):
        await files.write(path, path)
    assert await files.list("a") == [FileEntry("x", "/a/x", "directory", 0), FileEntry("y", "/a/y", "file", 3)]
    assert await _tree(files) == ["/a", "/a/x", "/a/x/1", "/a/y", "/b"]
    with pytest.raises(InvalidInput, match="is a file, not a directory"):
        await files.list("b", recursive=True)


async def test_missing_file_is_told_by_name(files: Files) -> None:
    with pytest.raises(FileNotFound, match="no file '/a'") as missing:
        await files.read_text("a")
    assert missing.value.code == "FILE_NOT_FOUND"
    assert isinstance(missing.value, LookupError)
    assert not await files.exists("a")
    with pytest.raises(FileNotFound, match="no directory '/a'"):
        await files.list("a")


async def test_conflict_has_an_error_of_its_own(files: Files) -> None:
    await files.write("a", "one")
    with pytest.raises(FileConflict, match="'/a' is there") as conflict:
        await files.write_if_match("a", "two", None)
    assert conflict.value.code == "FILE_CONFLICT"
    with pytest.raises(FileConflict, match="'/a' has changed"):
        await files.write_if_match("a", "two", "0" * 64)
    with pytest.raises(FileConflict, match="'/b' is not there"):
        await files.write_if_match("b", "two", "0" * 64)
    with pytest.raises(FileConflict):
        await files.mkdir("a")


@pytest.mark.parametrize("content", [None, 5, ["a"], "\ud800"])
async def test_what_is_neither_text_nor_bytes_is_not_written(files: Files, content: str) -> None:
    with pytest.raises(InvalidInput):
        await files.write("a", content)
    assert await files.list() == []
    with pytest.raises(InvalidInput, match="mode is"):
        await files.write("a", "x", mode="r")  # pyright: ignore[reportArgumentType]


# -- quotas -----------------------------------------------------------------------------------------------------------


async def test_one_file_too_many_is_refused_and_changes_nothing(clock: HandClock) -> None:
    files = Files(clock, FileLimits(max_files=3))
    await files.write("d/a", "")
    await files.write("b", "")
    with pytest.raises(QuotaExceeded, match="at most 3 files") as refused:
        await files.write("c", "")
    assert refused.value.code == "QUOTA_EXCEEDED"
    with pytest.raises(QuotaExceeded):
        await files.mkdir("c")
    assert await _tree(files) == ["/b", "/d", "/d/a"]
    await files.move("b", "c")
    await files.delete("c")
    await files.mkdir("e")


async def test_one_byte_too_many_is_refused_and_changes_nothing(clock: HandClock) -> None:
    files = Files(clock, FileLimits(max_bytes=10))
    await files.write("a", "12345")
    await files.write("b", "é")
    with pytest.raises(QuotaExceeded, match="at most 10 bytes together, of which 3 are left"):
        await files.write("a", "123456789")
    with pytest.raises(QuotaExceeded):
        await files.write("new/c", "1234")
    with pytest.raises(QuotaExceeded):
        await files.copy("a", "c")
    with pytest.raises(QuotaExceeded):
        await files.write("a", "6789", mode="a")
    assert await files.read_text("a") == "12345"
    assert await _tree(files) == ["/a", "/b"]
    await files.write("a", "12345678")
    await files.delete("a")
    await files.write("c", "12345678")


async def test_one_file_has_a_bound_of_its_own(clock: HandClock) -> None:
    files = Files(clock, FileLimits(max_file_bytes=4))
    await files.write("a", "1234")
    with pytest.raises(QuotaExceeded, match="'/a' would have 5 bytes: a file has at most 4"):
        await files.write("a", "5", mode="a")
    with pytest.raises(QuotaExceeded, match="a file has at most 4"):
        await files.write("b", "12345")
    assert await files.read_text("a") == "1234"


async def test_directory_that_does_not_fit_twice_is_not_copied_in_part(clock: HandClock) -> None:
    files = Files(clock, FileLimits(max_files=5))
    for name in ("a", "b"):
        await files.write(f"d/{name}", "x")
    with pytest.raises(QuotaExceeded):
        await files.copy("d", "e")
    assert await _tree(files) == ["/d", "/d/a", "/d/b"]


async def test_names_have_a_bound_too(clock: HandClock) -> None:
    files = Files(clock)
    for number in range(2085):
        await files.write("/" + f"{number:04}" + "x" * 1000, "")
    await files.write("/last" + "x" * 900, "")
    with pytest.raises(QuotaExceeded, match="all names"):
        await files.copy("/last" + "x" * 900, "/" + "y" * 1000 + "/" + "z" * 20)


@pytest.mark.parametrize("wrong", [{"max_files": 0}, {"max_bytes": -1}, {"max_file_bytes": "1"}, {"max_files": 10**9}])
async def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidLimits):
        FileLimits(**wrong)


async def test_initial_files_are_there_and_can_be_read_only(files: Files) -> None:
    files.seed({"/a/b": InitialFile("text"), "/c": InitialFile(b"\xff", read_only=True)})
    assert await files.read_text("a/b") == "text"
    assert (await files.stat("c")).read_only
    with pytest.raises(InvalidInput, match="'/c' is read-only"):
        await files.write("c", "")
    with pytest.raises(InvalidInput, match="'/c' is read-only"):
        await files.delete("c")


# -- against a model --------------------------------------------------------------------------------------------------

_STEPS = st.lists(st.tuples(st.sampled_from(DOING), PATHS, PATHS, st.binary(max_size=5)), max_size=25)


async def _do(files: Files, doing: str, path: str, other: str, data: bytes) -> bool | None:
    try:
        match doing:
            case "w" | "a" | "x":
                await files.write(path, data, mode=doing)
            case "mkdir":
                await files.mkdir(path)
            case "move":
                await files.move(path, other)
            case "copy":
                await files.copy(path, other)
            case _:
                return await files.delete(path, recursive=doing == "delete all")
    except (InvalidInput, FileNotFound, FileConflict):
        return None
    return True


@given(_STEPS)
async def test_files_are_what_a_plain_dictionary_says(steps: list[tuple[str, str, str, bytes]]) -> None:
    files, model = Files(HandClock()), Model()
    for step in steps:
        assert await _do(files, *step) == model.take(*step), step
        entries = await files.list(recursive=True)
        assert [entry.path[1:] for entry in entries] == sorted(model.nodes), step
        for entry in entries:
            expected = model.nodes[entry.path[1:]]
            assert entry.kind == ("directory" if expected is None else "file")
            assert expected is None or await files.read(entry.path) == expected
