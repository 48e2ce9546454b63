"""Mounted directories under attack: nothing in them, and nothing done to them meanwhile, leads out of them."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloister.core.errors import CloisterError, FileNotFound, InvalidInput, QuotaExceeded
from cloister.core.file import FileLimits, Mount
from cloister.ports.clock import SystemClock
from cloister.sessions.files import Files, parse_mounts

pytestmark = pytest.mark.anyio
SECRET = "the host's own secret"


class Place:
    """A directory that is mounted, and one beside it that must not be reached."""

    def __init__(self, root: Path) -> None:
        self.inside = root / "inside"
        self.outside = root / "outside"
        for directory in (self.inside, self.outside, self.inside / "sub"):
            directory.mkdir()
        (self.outside / "secret.txt").write_text(SECRET)
        (self.inside / "a.txt").write_text("a")
        (self.inside / "sub" / "b.txt").write_text("b")
        self.made: list[Files] = []

    def mounted(self, mode: str = "copy_on_write", **options: bool) -> Files:
        mount = Mount(self.inside, mode, **options)  # pyright: ignore[reportArgumentType]
        files = Files(SystemClock(), FileLimits(max_bytes=1 << 20), parse_mounts({"/repo": mount}))
        self.made.append(files)
        return files


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for files in place.made:
        files.close()


async def _everything(files: Files) -> list[str]:
    return [entry.path for entry in await files.list("/repo", recursive=True)]


@pytest.mark.parametrize("mode", ["read_only", "copy_on_write"])
@pytest.mark.parametrize("target", ["../outside/secret.txt", "{outside}/secret.txt", "a.txt", "/proc/self/environ"])
async def test_symbolic_link_to_a_file_is_neither_listed_nor_read(place: Place, mode: str, target: str) -> None:
    (place.inside / "link").symlink_to(target.format(outside=place.outside))
    files = place.mounted(mode)
    with pytest.raises(InvalidInput, match="symbolic link, which is not followed"):
        await files.read("/repo/link")
    with pytest.raises(InvalidInput, match="symbolic link"):
        await files.copy("/repo/link", "/copy")
    assert await _everything(files) == ["/repo/a.txt", "/repo/sub", "/repo/sub/b.txt"]
    assert [found.path for found in await files.grep(".")] == ["/repo/a.txt", "/repo/sub/b.txt"]
    assert not await files.exists("/repo/link")


@pytest.mark.parametrize("target", ["../outside", "{outside}", "sub", "/", "/proc/self", "."])
async def test_symbolic_link_to_a_directory_is_not_walked_through(place: Place, target: str) -> None:
    (place.inside / "link").symlink_to(target.format(outside=place.outside))
    files = place.mounted()
    for path in ("/repo/link/secret.txt", "/repo/link/b.txt", "/repo/link/environ", "/repo/link/etc/passwd"):
        with pytest.raises(InvalidInput, match="symbolic link"):
            await files.read(path)
        with pytest.raises(InvalidInput):
            await files.write(path, "x")
    with pytest.raises(CloisterError):
        await files.list("/repo/link")
    assert "/repo/link" not in await _everything(files)


async def test_what_is_written_over_a_link_stays_in_the_session(place: Place) -> None:
    (place.inside / "link").symlink_to(place.outside / "secret.txt")
    files = place.mounted()
    await files.write("/repo/link", "mine")
    assert await files.read_text("/repo/link") == "mine"
    assert (place.outside / "secret.txt").read_text() == SECRET
    assert (place.inside / "link").is_symlink()


async def test_file_with_another_hard_link_is_refused_unless_that_is_fine(place: Place) -> None:
    os.link(place.outside / "secret.txt", place.inside / "innocent.txt")
    files = place.mounted()
    with pytest.raises(InvalidInput, match="more than one hard link"):
        await files.read("/repo/innocent.txt")
    assert "/repo/innocent.txt" not in await _everything(files)
    assert await place.mounted(hard_links=True).read_text("/repo/innocent.txt") == SECRET


async def test_special_files_are_refused_and_nothing_waits_for_them(place: Place) -> None:
    os.mkfifo(place.inside / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.inside / "socket"))
        files = place.mounted()
        for name in ("pipe", "socket"):
            with pytest.raises(InvalidInput, match="neither a regular file nor a directory"):
                await files.read(f"/repo/{name}")
        assert await _everything(files) == ["/repo/a.txt", "/repo/sub", "/repo/sub/b.txt"]


@pytest.mark.parametrize("path", ["/repo/../outside/secret.txt", "/repo/sub/../../outside/secret.txt", "/repo/..\\x"])
async def test_dots_lead_nowhere(place: Place, path: str) -> None:
    files = place.mounted()
    with pytest.raises(InvalidInput):
        await files.read(path)
    with pytest.raises(InvalidInput):
        await files.write(path, "x")
    assert (place.outside / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("what", ["file", "directory"])
async def test_race_between_looking_and_opening_is_lost_by_whoever_tries(place: Place, what: str) -> None:
    """Somebody exchanges a name for a link to the outside and back, all the time."""
    files = place.mounted()
    good, evil, name = place.inside / "good", place.inside / "evil", place.inside / "name"
    if what == "file":
        good.write_text("good")
        evil.symlink_to(place.outside / "secret.txt")
        path = "/repo/name"
    else:
        good.mkdir()
        (good / "secret.txt").write_text("good")
        evil.symlink_to(place.outside)
        path = "/repo/name/secret.txt"
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():
            for kind in (good, evil):
                kind.rename(name)
                name.rename(kind)

    attacker = threading.Thread(target=exchange)
    attacker.start()
    read = refused = 0
    try:
        for _ in range(1500):
            try:
                assert await files.read_text(path) == "good"
                read += 1
            except (FileNotFound, InvalidInput):
                refused += 1
    finally:
        done.set()
        attacker.join()
    assert read + refused == 1500
    assert refused > 0


async def test_directory_that_is_moved_away_does_not_take_the_walk_along(place: Place) -> None:
    files = place.mounted()
    assert await files.read_text("/repo/sub/b.txt") == "b"
    (place.inside / "sub").rename(place.outside / "sub")
    (place.inside / "sub").symlink_to(place.outside)
    with pytest.raises(InvalidInput, match="symbolic link"):
        await files.read("/repo/sub/secret.txt")


async def test_mount_whose_own_name_is_exchanged_stays_where_it_was(place: Place) -> None:
    files = place.mounted()
    place.inside.rename(place.inside.with_name("elsewhere"))
    place.inside.symlink_to(place.outside)
    assert await _everything(files) == ["/repo/a.txt", "/repo/sub", "/repo/sub/b.txt"]
    with pytest.raises(FileNotFound):
        await files.read("/repo/secret.txt")


async def test_file_that_is_too_large_is_refused_and_not_read_into_memory(place: Place) -> None:
    with (place.inside / "huge").open("wb") as huge:
        huge.truncate(1 << 40)
    files = place.mounted()
    assert (await files.list("/repo"))[1].size_bytes == 1 << 40
    with pytest.raises(QuotaExceeded, match="/repo/huge"):
        await files.read("/repo/huge")
    with pytest.raises(QuotaExceeded):
        await files.copy("/repo", "/all")
    with pytest.raises(QuotaExceeded):
        await files.move("/repo/huge", "/huge")
    assert not await files.exists("/all")
    assert [found.path for found in await files.grep("a")] == ["/repo/a.txt"]


async def test_names_that_no_path_can_have_are_left_out(place: Place) -> None:
    (place.inside / "back\\slash").write_text("x")
    (Path(os.fsdecode(os.fsencode(place.inside) + b"/\xff"))).write_text("x")
    assert await _everything(place.mounted()) == ["/repo/a.txt", "/repo/sub", "/repo/sub/b.txt"]


async def test_what_may_not_be_read_is_refused_without_the_host_s_own_paths(place: Place) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (place.inside / "closed").mkdir(0)
    with pytest.raises(InvalidInput) as refused:
        await place.mounted().read("/repo/closed/x")
    assert str(place.inside) not in str(refused.value)


@pytest.mark.parametrize("mode", ["read_only", "copy_on_write"])
async def test_nothing_is_ever_written_to_what_is_mounted(place: Place, mode: str) -> None:
    files = place.mounted(mode)
    doing = [
        files.write("/repo/a.txt", "x"),
        files.write("/repo/a.txt", "x", mode="a"),
        files.write("/repo/new/file", "x"),
        files.mkdir("/repo/dir"),
        files.move("/repo/a.txt", "/repo/moved"),
        files.copy("/repo/sub", "/repo/copy"),
        files.delete("/repo/sub", recursive=True),
        files.move("/repo", "/else"),
        files.delete("/repo", recursive=True),
    ]
    for one in doing:
        with contextlib.suppress(CloisterError):
            await one
    found = sorted(str(path.relative_to(place.inside)) for path in place.inside.rglob("*"))
    assert found == ["a.txt", "sub", "sub/b.txt"]
    assert [(place.inside / "a.txt").read_text(), (place.inside / "sub/b.txt").read_text()] == ["a", "b"]
