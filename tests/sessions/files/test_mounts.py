"""Real directories among a session's files: read-only, or changed in the session and nowhere else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import FileConflict, FileNotFound, InvalidInput, QuotaExceeded
from cloister.core.file import FileLimits, Mount
from cloister.sessions.files import Files, parse_files, parse_mounts
from tests.sessions.files.clock import HandClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def real(tmp_path: Path) -> Path:
    real = tmp_path / "real"
    (real / "src" / "deep").mkdir(parents=True)
    (real / "readme").write_text("read me")
    (real / "src" / "a.py").write_text("import a")
    (real / "src" / "deep" / "b.py").write_text("import b")
    return real


@pytest.fixture
def files(real: Path) -> Iterator[Files]:
    files = Files(HandClock(), mounts=parse_mounts({"/m/repo": Mount(real, "copy_on_write")}))
    yield files
    files.close()


@pytest.fixture
def fixed(real: Path) -> Iterator[Files]:
    files = Files(HandClock(), mounts=parse_mounts({"/m/repo": Mount(str(real))}))
    yield files
    files.close()


async def _paths(files: Files, path: str = "/") -> list[str]:
    return [entry.path for entry in await files.list(path, recursive=True)]


async def test_mount_is_where_it_was_put(fixed: Files) -> None:
    assert [entry.path for entry in await fixed.list()] == ["/m"]
    assert await _paths(fixed, "m/repo") == [
        "/m/repo/readme",
        "/m/repo/src",
        "/m/repo/src/a.py",
        "/m/repo/src/deep",
        "/m/repo/src/deep/b.py",
    ]
    assert await fixed.read_text("/workspace/m/repo/src/a.py") == "import a"
    info = await fixed.stat("/m/repo/readme")
    assert (info.kind, info.size_bytes, info.read_only) == ("file", 7, True)
    assert info.hash is not None
    assert len(await fixed.grep("import", glob="*.py")) == 2


async def test_what_changes_there_is_seen(fixed: Files, real: Path) -> None:
    (real / "readme").write_text("changed")
    (real / "more").write_text("")
    assert await fixed.read_text("/m/repo/readme") == "changed"
    assert await fixed.exists("/m/repo/more")


async def test_read_only_mount_refuses_every_change_and_says_why(fixed: Files) -> None:
    for change in (
        lambda: fixed.write("/m/repo/readme", "x"),
        lambda: fixed.write("/m/repo/new", "x"),
        lambda: fixed.write_if_match("/m/repo/new", "x", None),
        lambda: fixed.mkdir("/m/repo/dir"),
        lambda: fixed.delete("/m/repo/readme"),
        lambda: fixed.delete("/m/repo/src", recursive=True),
        lambda: fixed.move("/m/repo/readme", "/mine"),
    ):
        with pytest.raises(InvalidInput, match="read-only: it is in the mounted directory '/m/repo'"):
            await change()
    await fixed.copy("/m/repo/src", "/mine")
    await fixed.write("/mine/a.py", "changed")
    await fixed.copy("/mine/a.py", "/m/beside")


async def test_mount_itself_stays_where_it_is(files: Files) -> None:
    for change in (
        lambda: files.delete("/m/repo", recursive=True),
        lambda: files.delete("/m", recursive=True),
        lambda: files.move("/m", "/n"),
        lambda: files.move("/m/repo", "/n"),
    ):
        with pytest.raises(InvalidInput, match="a directory is mounted there"):
            await change()
    with pytest.raises(InvalidInput, match="is a directory"):
        await files.write("/m/repo", "x")


async def test_changes_of_a_copy_on_write_mount_are_the_session_s_own(files: Files, real: Path) -> None:
    await files.write("/m/repo/readme", " again", mode="a")
    await files.write("/m/repo/src/new/c.py", "import c")
    await files.delete("/m/repo/src/a.py")
    await files.move("/m/repo/src/deep", "/m/repo/moved")
    assert await _paths(files, "/m/repo") == [
        "/m/repo/moved",
        "/m/repo/moved/b.py",
        "/m/repo/readme",
        "/m/repo/src",
        "/m/repo/src/new",
        "/m/repo/src/new/c.py",
    ]
    assert await files.read_text("/m/repo/readme") == "read me again"
    assert await files.read_text("/m/repo/moved/b.py") == "import b"
    assert (real / "readme").read_text() == "read me"
    assert sorted(path.name for path in (real / "src").iterdir()) == ["a.py", "deep"]


async def test_deleted_directory_does_not_come_back_with_one_of_its_name(files: Files) -> None:
    await files.delete("/m/repo/src", recursive=True)
    with pytest.raises(FileNotFound):
        await files.read("/m/repo/src/a.py")
    await files.write("/m/repo/src/deep/mine", "x")
    assert await _paths(files, "/m/repo/src") == ["/m/repo/src/deep", "/m/repo/src/deep/mine"]
    await files.delete("/m/repo/src", recursive=True)
    await files.mkdir("/m/repo/src")
    assert await files.list("/m/repo/src") == []
    await files.delete("/m/repo/src")
    await files.write("/m/repo/src", "a file now")
    await files.delete("/m/repo/src")
    assert not await files.exists("/m/repo/src")
    await files.copy("/m/repo/readme", "/m/repo/src/a.py")
    assert await files.read_text("/m/repo/src/a.py") == "read me"
    assert await _paths(files, "/m/repo/src") == ["/m/repo/src/a.py"]


async def test_compare_and_set_works_on_what_is_mounted(files: Files) -> None:
    seen = await files.stat("/m/repo/readme")
    with pytest.raises(FileConflict):
        await files.write_if_match("/m/repo/readme", "x", None)
    await files.write_if_match("/m/repo/readme", "x", seen.hash)
    with pytest.raises(FileConflict):
        await files.write_if_match("/m/repo/readme", "y", seen.hash)


async def test_mount_hides_what_the_session_has_at_its_place(real: Path) -> None:
    before = Files(HandClock())
    await before.write("/m", "a file where the way to the mount is")
    entries, contents = before.entries()
    after = Files(HandClock(), mounts=parse_mounts({"/m/repo": Mount(real)}))
    after.replace(entries, contents)
    assert [entry.kind for entry in await after.list()] == ["directory"]
    assert await after.read_text("/m/repo/readme") == "read me"
    with pytest.raises(InvalidInput, match="is a directory"):
        await after.read("/m")
    after.close()
    with pytest.raises(FileNotFound, match="closed"):
        await after.read("/m/repo/readme")


async def test_only_what_is_changed_counts_against_the_quota(real: Path) -> None:
    (real / "large").write_bytes(b"x" * 100)
    files = Files(
        HandClock(), FileLimits(max_bytes=50, max_files=3), parse_mounts({"/r": Mount(real, "copy_on_write")})
    )
    assert len(await files.read("/r/readme")) == 7
    await files.write("/r/readme", "x" * 40)
    with pytest.raises(QuotaExceeded):
        await files.write("/r/src/a.py", "x" * 20)
    with pytest.raises(QuotaExceeded):
        await files.write("/r/large", "x", mode="a")
    assert await files.read_text("/r/src/a.py") == "import a"
    files.close()


@pytest.mark.parametrize(
    ("mounts", "message"),
    [
        ({"/": Mount("/tmp")}, "at the root"),
        ({"/workspace": Mount("/tmp")}, "at the root"),
        ({"/a/../b": Mount("/tmp")}, "'..' in it"),
        ({"/a": Mount("/tmp"), "/a/b": Mount("/tmp")}, "lie in each other"),
        ({"/a": Mount("/tmp"), "/workspace/a": Mount("/tmp")}, "lie in each other"),
        ({"/a": "/tmp"}, "is a Mount, not str"),
        (["/a"], "a mapping of paths"),
        ({f"/{number}": Mount("/tmp") for number in range(40)}, "at most 32 mounts"),
    ],
)
def test_mounts_that_make_no_sense_are_refused_by_name(mounts: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_mounts(mounts)


def test_what_cannot_be_mounted_is_refused_when_it_is_tried(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "missing", tmp_path / "file", "a\0b"):
        with pytest.raises(InvalidInput, match="cannot be mounted"):
            Files(HandClock(), mounts=parse_mounts({"/a": Mount(path)}))
    with pytest.raises(InvalidInput, match="'read_only' or 'copy_on_write'"):
        Mount("/tmp", "write")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="text or a Path"):
        Mount(5)  # pyright: ignore[reportArgumentType]


def test_initial_files_stay_out_of_mounts(files: Files) -> None:
    for path in ("/m/repo", "/m/repo/x"):
        with pytest.raises(InvalidInput, match="lies in a mounted directory"):
            files.seed(parse_files({path: "x"}))
    with pytest.raises(InvalidInput, match="is a directory"):
        files.seed(parse_files({"/m": "x"}))
    several: list[object] = [[], {"/a": 5}, {"..": "x"}, {"/a": "x", "a": "y"}]
    for wrong in several:
        with pytest.raises(InvalidInput):
            parse_files(wrong)


_NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
_STEPS = st.lists(st.tuples(st.sampled_from(["write", "delete", "mkdir", "move", "copy"]), _NAMES, _NAMES), max_size=20)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    real = tmp_path_factory.mktemp("twins")
    (real / "a" / "b").mkdir(parents=True)
    (real / "a" / "a").write_text("real")
    (real / "a" / "b" / "a").write_text("real")
    (real / "b").write_text("real")
    return real


@given(_STEPS)
async def test_copy_on_write_mount_is_like_a_copy(twins: Path, steps: list[tuple[str, str, str]]) -> None:
    """What was copied in beforehand, and what is mounted, come to the same, whatever is done."""
    clock = HandClock()
    mounted = Files(clock, mounts=parse_mounts({"/r": Mount(twins, "copy_on_write")}))
    copied = Files(clock)
    for path in ("a/a", "a/b/a", "b"):
        await copied.write(f"/r/{path}", "real")
    try:
        for step in steps:
            assert await _take(mounted, step) == await _take(copied, step), step
            assert await _all(mounted) == await _all(copied), step
    finally:
        mounted.close()


async def _take(files: Files, step: tuple[str, str, str]) -> object:
    doing, path, other = (step[0], f"/r/{step[1]}", f"/r/{step[2]}")
    try:
        match doing:
            case "write":
                return await files.write(path, f"to {path}", mode="a")
            case "delete":
                return await files.delete(path, recursive=True)
            case "mkdir":
                return await files.mkdir(path)
            case "move":
                return await files.move(path, other)
            case _:
                return await files.copy(path, other)
    except (InvalidInput, FileNotFound, FileConflict) as refused:
        return type(refused)


async def _all(files: Files) -> list[object]:
    entries = await files.list("/r", recursive=True)
    return [(one.path, await files.read(one.path) if one.kind == "file" else None) for one in entries]
