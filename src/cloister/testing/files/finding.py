"""Listing and searching: what is where, in one order, and what is in it."""

from cloister.testing.behaviour import Chapter
from cloister.testing.files.asking import names, refused
from cloister.testing.files.door import FileDoor, Found

chapter = Chapter[FileDoor]()


@chapter("a directory lists what is directly in it, by name, files and directories alike")
async def _list(door: FileDoor) -> None:
    await door.write("/d/b", b"12")
    await door.write("/d/a/deep", b"")
    await door.mkdir("/d/c")
    assert list(await door.list("/d")) == [
        Found("a", "/d/a", "directory", 0),
        Found("b", "/d/b", "file", 2),
        Found("c", "/d/c", "directory", 0),
    ]
    assert await names(door, "/") == ["d", "kept"]


@chapter("listing something missing is an error, and an empty directory is an empty list")
async def _list_missing(door: FileDoor) -> None:
    await refused("not_found", door.list("/nothing"))
    await refused("not_directory", door.list("/kept/free.txt"))
    await door.mkdir("/empty")
    assert await door.list("/empty") == []


@chapter("a directory's stat says that it is one")
async def _stat(door: FileDoor) -> None:
    stat = await door.stat("/kept")
    assert (stat.kind, stat.size_bytes, stat.read_only) == ("directory", 0, False)


@chapter("grep finds lines with their numbers, by path")
async def _grep(door: FileDoor) -> None:
    await door.write("/src/a.py", b"import os\nx = 1\r\nimport re")
    await door.write("/src/b.txt", b"an import\n\n")
    assert list(await door.grep("import", path="/src")) == [
        ("/src/a.py", 1, "import os"),
        ("/src/a.py", 3, "import re"),
        ("/src/b.txt", 1, "an import"),
    ]
    assert list(await door.grep(r"^import \w+$", path="/src/a.py")) == [
        ("/src/a.py", 1, "import os"),
        ("/src/a.py", 3, "import re"),
    ]
    assert list(await door.grep("nowhere")) == []


@chapter("grep takes a text literally if it is told to")
async def _grep_literal(door: FileDoor) -> None:
    await door.write("/f", b"a.c\nabc\n(")
    assert [line for _, line, _ in await door.grep("a.c", path="/f")] == [1, 2]
    assert [line for _, line, _ in await door.grep("a.c", path="/f", literal=True)] == [1]
    assert [line for _, line, _ in await door.grep("(", path="/f", literal=True)] == [3]


@chapter("grep looks only at files that fit its glob")
async def _grep_glob(door: FileDoor) -> None:
    for path in ("/g/a.py", "/g/b.txt", "/g/x/c.py", "/g/x/y/d.py", "/g/[z]"):
        await door.write(path, b"hit")

    async def found(glob: str) -> list[str]:
        return [path for path, _, _ in await door.grep("hit", path="/g", glob=glob)]

    assert await found("*.py") == ["/g/a.py", "/g/x/c.py", "/g/x/y/d.py"]
    assert await found("x/*.py") == ["/g/x/c.py"]
    assert await found("x/**/*.py") == ["/g/x/c.py", "/g/x/y/d.py"]
    assert await found("**/d.py") == ["/g/x/y/d.py"]
    assert await found("?.[pt]*") == ["/g/a.py", "/g/b.txt", "/g/x/c.py", "/g/x/y/d.py"]
    assert await found("[!a].py") == ["/g/x/c.py", "/g/x/y/d.py"]
    assert await found("*z*") == ["/g/[z]"]
    assert await found("*.rs") == []


@chapter("grep passes over what is not text, and stops when it has found enough")
async def _grep_bounds(door: FileDoor) -> None:
    await door.write("/g/binary", b"hit\x00")
    await door.write("/g/latin", b"hit \xe9")
    await door.write("/g/many", b"hit\n" * 20)
    assert [line for _, line, _ in await door.grep("hit", path="/g", limit=3)] == [1, 2, 3]
    assert len(await door.grep("hit", path="/g")) == 20


@chapter("grep refuses a pattern that it cannot use, and a place that is not there")
async def _grep_refused(door: FileDoor) -> None:
    for pattern in ("(", "[", "a{2,1}", "(?=x)", r"(x)\1", "", "x" * 2000):
        await refused("invalid", door.grep(pattern))
    for limit in (0, -1, 1_000_000):
        await refused("invalid", door.grep("x", limit=limit))
    await refused("not_found", door.grep("x", path="/nothing"))


@chapter("a hostile pattern takes no longer than an honest one")
async def _grep_hostile(door: FileDoor) -> None:
    await door.write("/evil", b"a" * 30_000 + b"!\n")
    for pattern in ("(a+)+$", "(a|aa)+$", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$"):
        assert list(await door.grep(pattern, path="/evil")) == [], pattern
    await door.grep("x", path="/evil", glob="*a" * 200 + "b")
