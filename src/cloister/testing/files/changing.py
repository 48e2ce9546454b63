"""Making, moving and deleting: done whole, or refused with nothing done."""

from cloister.testing.behaviour import Chapter
from cloister.testing.files.asking import names, refused
from cloister.testing.files.door import FileDoor

chapter = Chapter[FileDoor]()


@chapter("a directory that was made is there and empty, and is not made twice unless that is said to be fine")
async def _mkdir(door: FileDoor) -> None:
    await door.mkdir("/d")
    assert await door.list("/d") == []
    await refused("exists", door.mkdir("/d"))
    await door.mkdir("/d", exist_ok=True)
    await door.write("/f", b"")
    await refused("exists", door.mkdir("/f", exist_ok=True))


@chapter("a directory needs the one that it is in, unless all are to be made")
async def _mkdir_parents(door: FileDoor) -> None:
    await refused("not_found", door.mkdir("/a/b"))
    assert "a" not in await names(door, "/")
    await door.mkdir("/a/b/c", parents=True)
    assert await names(door, "/a/b") == ["c"]


@chapter("a deleted file is gone, and deleting what is not there says so")
async def _delete(door: FileDoor) -> None:
    await door.write("/f", b"")
    assert await door.delete("/f") is True
    await refused("not_found", door.read("/f"))
    assert await door.delete("/f") is False
    assert await door.delete("/never/was") is False


@chapter("a directory that is not empty is deleted only with all that is in it")
async def _delete_directory(door: FileDoor) -> None:
    await door.write("/d/e/f", b"")
    assert await door.delete("/d") is False
    assert await door.read("/d/e/f") == b""
    assert await door.delete("/d", recursive=True) is True
    await refused("not_found", door.list("/d"))
    await door.mkdir("/empty")
    assert await door.delete("/empty") is True


@chapter("the root cannot be deleted")
async def _root(door: FileDoor) -> None:
    await refused("invalid", door.delete("/"))
    await refused("invalid", door.delete("/workspace", recursive=True))
    assert await names(door, "/") == ["kept"]


@chapter("a read-only file keeps all that is around it from being deleted or moved")
async def _delete_around_read_only(door: FileDoor) -> None:
    await refused("read_only", door.delete("/kept", recursive=True))
    await refused("read_only", door.move("/kept", "/elsewhere"))
    assert await names(door, "/kept") == ["free.txt", "read-only.txt"]
    assert await door.delete("/kept/free.txt") is True


@chapter("a moved file is there and not here, and takes the place of another")
async def _move(door: FileDoor) -> None:
    await door.write("/a", b"one")
    await door.write("/b", b"two")
    await door.move("/a", "/b")
    assert await door.read("/b") == b"one"
    await refused("not_found", door.read("/a"))
    await door.move("/b", "/new/place/c")
    assert await door.read("/new/place/c") == b"one"
    await door.move("/new/place/c", "/new/place/c")
    assert await door.read("/new/place/c") == b"one"


@chapter("a moved directory takes all along, but not into itself nor over what is there")
async def _move_directory(door: FileDoor) -> None:
    await door.write("/d/e/f", b"deep")
    await door.mkdir("/d/empty")
    await door.write("/other", b"")
    await refused("invalid", door.move("/d", "/d/e/d"))
    await refused("exists", door.move("/d", "/other"))
    await refused("exists", door.move("/d", "/kept"))
    await door.move("/d", "/moved")
    assert await door.read("/moved/e/f") == b"deep"
    assert await names(door, "/moved") == ["e", "empty"]
    await refused("not_found", door.list("/d"))


@chapter("what is not there is neither moved nor copied, and nothing is moved onto a directory")
async def _move_refused(door: FileDoor) -> None:
    await refused("not_found", door.move("/no", "/where"))
    await refused("not_found", door.copy("/no", "/where"))
    await door.write("/f", b"x")
    await refused("is_directory", door.move("/f", "/kept"))
    await refused("is_directory", door.copy("/f", "/kept"))
    await refused("not_directory", door.move("/f", "/kept/free.txt/x"))
    assert await door.read("/f") == b"x"
    assert "where" not in await names(door, "/")


@chapter("a copy is a file of its own")
async def _copy(door: FileDoor) -> None:
    await door.write("/a", b"one")
    await door.copy("/a", "/b/c")
    await door.write("/a", b"two")
    assert [await door.read("/a"), await door.read("/b/c")] == [b"two", b"one"]
    await door.copy("/b", "/d")
    await door.write("/d/c", b"three")
    assert [await door.read("/b/c"), await door.read("/d/c")] == [b"one", b"three"]
