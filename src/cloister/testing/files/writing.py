"""Reading and writing: what is written is read, byte for byte, or nothing was written."""

import hashlib

from cloister.testing.behaviour import Chapter
from cloister.testing.files.asking import names, refused
from cloister.testing.files.door import FileDoor

chapter = Chapter[FileDoor]()
_ODD = bytes(range(256)) * 3 + b"\r\n\x00"


def _hash(data: bytes) -> str:
    return hashlib.sha3_256(data).hexdigest()


@chapter("what was written is read, byte for byte, and an empty file is a file")
async def _round(door: FileDoor) -> None:
    await door.write("/a.bin", _ODD)
    await door.write("/empty", b"")
    assert await door.read("/a.bin") == _ODD
    assert await door.read("/empty") == b""
    assert (await door.stat("/a.bin")).size_bytes == len(_ODD)


@chapter("text is UTF-8 and keeps its line ends; what is not UTF-8 is not read as text")
async def _text(door: FileDoor) -> None:
    await door.write("/t", "grüße\r\n😀\n".encode())
    assert await door.read_text("/t") == "grüße\r\n😀\n"
    await door.write("/b", b"\xff\xfe")
    await refused("not_text", door.read_text("/b"))
    assert await door.read("/b") == b"\xff\xfe"


@chapter("writing over a file leaves nothing of what was there")
async def _over(door: FileDoor) -> None:
    await door.write("/f", b"a long first version")
    await door.write("/f", b"short")
    assert await door.read("/f") == b"short"
    assert (await door.stat("/f")).size_bytes == 5


@chapter("appending adds to the end and makes a file that is not there")
async def _append(door: FileDoor) -> None:
    await door.write("/log", b"one\n", "a")
    await door.write("/log", b"two\n", "a")
    await door.write("/log", b"", "a")
    assert await door.read("/log") == b"one\ntwo\n"


@chapter("a file that must be new is refused where there is one, which stays as it was")
async def _new(door: FileDoor) -> None:
    await door.write("/f", b"first", "x")
    await refused("exists", door.write("/f", b"second", "x"))
    assert await door.read("/f") == b"first"


@chapter("directories on the way to a file are made and stay when it goes")
async def _parents(door: FileDoor) -> None:
    await door.write("/a/b/c.txt", b"")
    assert (await door.stat("/a/b")).kind == "directory"
    assert await door.delete("/a/b/c.txt") is True
    assert await door.list("/a/b") == []


@chapter("nothing can be below a file, and a refused write makes no directories")
async def _below_file(door: FileDoor) -> None:
    await door.write("/f", b"file")
    await refused("not_directory", door.write("/f/x", b""))
    await refused("not_directory", door.write("/f/x/y", b""))
    await refused("not_directory", door.mkdir("/f/d", parents=True))
    assert await door.read("/f") == b"file"
    assert sorted(await names(door, "/")) == ["f", "kept"]


@chapter("a directory is neither read nor written as a file")
async def _directory(door: FileDoor) -> None:
    await door.mkdir("/d")
    for path in ("/d", "/"):
        await refused("is_directory", door.read(path))
        await refused("is_directory", door.write(path, b""))
        await refused("is_directory", door.write(path, b"", "a"))


@chapter("what is not there is not read")
async def _missing(door: FileDoor) -> None:
    await refused("not_found", door.read("/nothing"))
    await refused("not_found", door.read("/nothing/below"))
    await refused("not_found", door.stat("/nothing"))


@chapter("the hash of a file is the SHA3-256 of its content")
async def _hashes(door: FileDoor) -> None:
    await door.write("/f", _ODD)
    assert (await door.stat("/f")).hash == _hash(_ODD)
    await door.write("/f", b"x", "a")
    assert (await door.stat("/f")).hash == _hash(_ODD + b"x")
    assert (await door.stat("/")).hash is None


@chapter("write_if_match writes what is as it was when it was read, and nothing else")
async def _match(door: FileDoor) -> None:
    first = await door.write_if_match("/f", b"one", None)
    assert first == _hash(b"one")
    await refused("conflict", door.write_if_match("/f", b"two", None))
    await refused("conflict", door.write_if_match("/f", b"two", _hash(b"other")))
    assert await door.read("/f") == b"one"
    second = await door.write_if_match("/f", b"two", first)
    assert second == _hash(b"two")
    await refused("conflict", door.write_if_match("/f", b"three", first))
    assert await door.read("/f") == b"two"
    await refused("conflict", door.write_if_match("/other", b"", first))


@chapter("a read-only file is read, and neither written, replaced, moved nor deleted")
async def _read_only(door: FileDoor) -> None:
    path = "/kept/read-only.txt"
    stat = await door.stat(path)
    assert stat.read_only
    assert not (await door.stat("/kept/free.txt")).read_only
    assert stat.hash is not None
    await door.write("/mine", b"mine")
    await refused("read_only", door.write(path, b"x"))
    await refused("read_only", door.write(path, b"x", "a"))
    await refused("read_only", door.write_if_match(path, b"x", stat.hash))
    await refused("read_only", door.delete(path))
    await refused("read_only", door.move(path, "/elsewhere"))
    await refused("read_only", door.move("/mine", path))
    await refused("read_only", door.copy("/mine", path))
    assert await door.read(path) == b"do not touch"
    assert await door.read("/mine") == b"mine"


@chapter("the copy of a read-only file can be written")
async def _copy_of_read_only(door: FileDoor) -> None:
    await door.copy("/kept/read-only.txt", "/mine")
    await door.write("/mine", b" of mine", "a")
    assert await door.read("/mine") == b"do not touch of mine"
