"""Names: one file has one name, however it is written, and no name leads anywhere else."""

from cloister.testing.behaviour import Chapter
from cloister.testing.files.asking import names, refused
from cloister.testing.files.door import FileDoor

chapter = Chapter[FileDoor]()


@chapter("a file has one name with and without the root, /workspace, doubled and trailing slashes and dots")
async def _one_name(door: FileDoor) -> None:
    await door.write("/notes/a.txt", b"one")
    for same in ("notes/a.txt", "/workspace/notes/a.txt", "workspace/notes/a.txt", "//notes//a.txt", "./notes/./a.txt"):
        assert await door.read(same) == b"one", same
    await door.write("workspace/notes/a.txt", b"two")
    assert await door.read("/notes/a.txt") == b"two"
    assert (await door.stat("workspace/notes/a.txt")).path == "/notes/a.txt"
    assert await names(door, "/notes/") == ["a.txt"]


@chapter("no name leads out: dots, backslashes, NUL and half a surrogate pair are refused")
async def _refused_names(door: FileDoor) -> None:
    for path in ("..", "/..", "a/../b", "/kept/../kept/free.txt", "../../etc/passwd", "a\\b", "..\\x", "a\0b"):
        await refused("invalid_path", door.write(path, b"x"))
        await refused("invalid_path", door.read(path))
        await refused("invalid_path", door.list(path))
    assert await names(door, "/") == ["kept"]


@chapter("what only looks like a way out is a name")
async def _names(door: FileDoor) -> None:
    for name in ("...", "a..b", "..a", "two words", "漢字", "a\nb", "%2e%2e", "~", "*"):
        await door.write(f"/names/{name}", name.encode())
    assert set(await names(door, "/names")) == {"...", "a..b", "..a", "two words", "漢字", "a\nb", "%2e%2e", "~", "*"}
    assert await door.read("/names/*") == b"*"


@chapter("a name that is too long is refused")
async def _long(door: FileDoor) -> None:
    await refused("invalid_path", door.write("/" + "x" * 1024, b""))
    await refused("invalid_path", door.write("/" + "é" * 600, b""))
    await door.write("/" + "x" * 1000, b"")


@chapter("upper and lower case are different names")
async def _case(door: FileDoor) -> None:
    await door.write("/README", b"upper")
    await door.write("/readme", b"lower")
    assert [await door.read("/README"), await door.read("/readme")] == [b"upper", b"lower"]
