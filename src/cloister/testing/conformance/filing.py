"""Files: what a program does with its session's files, in each language's own way and to the same effect."""

from dataclasses import replace

from cloister.core.codes import Code
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Finished, Program, Suspended, TypeCheck
from cloister.ports.helping import MAX_FILE_BYTES, no_helper
from cloister.testing.behaviour import Chapter
from cloister.testing.conformance.lab import Lab, Text

chapter = Chapter[Lab]()

MIB = 1 << 20
WIDE = SessionLimits(wall_ms=30_000, cpu_ms=20_000, memory_mb=256)
START = "import os\nfrom pathlib import Path\n"


def py(code: str) -> str:
    return START + code


def caught(python: str, typescript: str) -> Text:
    """What a program makes of a refusal: its kind or code, and its message."""
    return Text(
        py(
            f"try:\n    {python}\n    got = ['none', '']\n"
            "except Exception as e:\n    got = [type(e).__name__, str(e)]\ngot"
        ),
        f"let got: any[] = ['none', '']; try {{ {typescript} }} catch (e: any) {{ got = [e.code, e.message] }} got",
    )


async def refused(lab: Lab, python: str, typescript: str, kinds: Text, *, names: str) -> None:
    kind, message = (await lab.run(caught(python, typescript))).value
    assert kind == kinds.of(lab.language), (kind, message)
    assert names in message, message


# -- contents ---------------------------------------------------------------------------------------------------------


@chapter("text that was written is read again as it was")
async def _(lab: Lab) -> None:
    for text in ("", "one\ntwo\n", "äöü € 𝄞", "a\r\nb\tc\0d"):
        seen = await lab.run(
            Text(
                py("p = Path('a.txt')\nn = p.write_text(given)\n[n, p.read_text()]"),
                "[files.write('a.txt', given), files.read('a.txt')]",
            ),
            inputs={"given": text},
        )
        size = len(text) if lab.language is Language.PYTHON else len(text.encode())
        assert seen.value == [size, text]
        assert lab.disk.files["/a.txt"] == text.encode()


@chapter("bytes that were written are read again as they were")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            py(f"n = Path('b').write_bytes({bytes(range(256))!r} * 3)\n[n, list(Path('b').read_bytes())]"),
            "const b = new Uint8Array(768).map((_, i) => i % 256);"
            "[files.write('b', b), Array.from(files.read_bytes('b'))]",
        )
    )
    assert seen.value == [768, list(range(256)) * 3]
    assert lab.disk.files["/b"] == bytes(range(256)) * 3


@chapter("what is appended comes after what was there")
async def _(lab: Lab) -> None:
    await lab.run(
        Text(
            "with open('log', 'a') as f:\n    f.write('one;')\n    f.write('two;')\nopen('log', 'ab').write(b'three;')",
            "files.append('log', 'one;'); files.append('log', 'two;');"
            "files.append('log', new Uint8Array([116, 104, 114, 101, 101, 59]))",
        )
    )
    assert lab.disk.files["/log"] == b"one;two;three;"


@chapter("writing replaces what was there")
async def _(lab: Lab) -> None:
    lab.disk.files["/a"] = b"a long text of before"
    await lab.run(Text("with open('a', 'w') as f:\n    f.write('short')", "files.write('a', 'short')"))
    assert lab.disk.files["/a"] == b"short"


@chapter("a file has three names")
async def _(lab: Lab) -> None:
    for written in ("x/y.txt", "/x/y.txt", "/workspace/x/y.txt"):
        lab.disk.files.clear()
        seen = await lab.run(
            Text(
                f"open('{written}', 'w').write('here')\n"
                "[open(n).read() for n in ('x/y.txt', '/x/y.txt', '/workspace/x/y.txt', './x//y.txt')]",
                f"files.write('{written}', 'here');"
                "['x/y.txt', '/x/y.txt', '/workspace/x/y.txt', './x//y.txt'].map(n => files.read(n))",
            )
        )
        assert seen.value == ["here"] * 4
        assert lab.disk.files == {"/x/y.txt": b"here"}


@chapter("what one cell wrote the next one reads")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("open('a', 'w').write('kept')", "files.write('a', 'kept')"), Text("open('a').read()", "files.read('a')")
    )
    assert seen.value == "kept"


@chapter("a thousand operations of one step keep their order, and are no calls")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "f = open('n', 'w')\nfor i in range(1000):\n    f.write(str(i % 10))",
            "for (let i = 0; i < 1000; i++) files.append('n', '' + i % 10)",
        ),
        limits=SessionLimits(wall_ms=20_000, cpu_ms=10_000, max_external_calls=1),
    )
    assert seen.calls == []
    assert lab.disk.files["/n"] == b"0123456789" * 100


@chapter("what was printed before a file was written is heard before it")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "print(1)\nopen('a', 'w').write('x')\nprint(2)",
            "console.log(1); files.write('a', 'x'); console.log(2)",
        )
    )
    asked = [heard for heard in seen.heard if not heard.startswith("files.")]
    assert asked == ["1\n", "2\n"]
    assert seen.heard.index("1\n") < seen.heard.index("files.write") < seen.heard.index("2\n")


# -- directories ------------------------------------------------------------------------------------------------------


@chapter("a directory is listed by name, with what its entries are")
async def _(lab: Lab) -> None:
    lab.disk.files |= {"/d/b": b"22", "/d/a": b"1"}
    lab.disk.directories |= {"/d", "/d/c"}
    seen = await lab.run(
        Text(
            py("[[p.name, p.is_dir()] for p in Path('d').iterdir()]"),
            "files.list('d').map(e => [e.name, e.kind === 'directory'])",
        )
    )
    assert seen.value == [["a", False], ["b", False], ["c", True]]
    top = await lab.run(
        Text(py("[os.listdir(), os.listdir('/')]"), "[files.list(), files.list('/')].map(l => l.map(e => e.name))")
    )
    assert top.value == [["d"], ["d"]]


@chapter("a directory is made once, with those above it")
async def _(lab: Lab) -> None:
    await lab.run(
        Text(
            py("os.makedirs('a/b/c')\nPath('a/b').mkdir(exist_ok=True)"),
            "files.mkdir('a/b/c', {parents: true}); files.mkdir('a/b', {exist_ok: true})",
        )
    )
    assert lab.disk.directories == {"/", "/a", "/a/b", "/a/b/c"}
    await refused(lab, "os.mkdir('a/b')", "files.mkdir('a/b')", Text("FileExistsError", "FILE_EXISTS"), names="a/b")
    await refused(
        lab,
        "os.mkdir('x/y')",
        "files.mkdir('x/y')",
        Text("FileNotFoundError", "FILE_NOT_FOUND"),
        names="x",
    )


@chapter("a file moves, over another one too, and a directory with what is in it")
async def _(lab: Lab) -> None:
    lab.disk.files |= {"/a": b"a", "/b": b"b", "/d/c": b"c"}
    lab.disk.directories.add("/d")
    await lab.run(Text(py("os.rename('a', 'b')\nPath('d').rename('e')"), "files.move('a', 'b'); files.move('d', 'e')"))
    assert lab.disk.files == {"/b": b"a", "/e/c": b"c"}


@chapter("what is removed is gone, and a directory that is not empty stays")
async def _(lab: Lab) -> None:
    lab.disk.files |= {"/a": b"", "/d/c": b""}
    lab.disk.directories |= {"/d", "/e"}
    seen = await lab.run(
        Text(
            py(
                "os.remove('a')\nos.rmdir('e')\n"
                "try:\n    os.rmdir('d')\n    left = False\nexcept OSError as e:\n    left = True\nleft"
            ),
            "files.delete('a'); files.delete('e'); !files.delete('d')",
        )
    )
    assert seen.value is True
    assert lab.disk.files == {"/d/c": b""}
    assert lab.disk.directories == {"/", "/d"}


@chapter("what there is can be asked without an error")
async def _(lab: Lab) -> None:
    lab.disk.files["/a"] = b"12345"
    lab.disk.directories.add("/d")
    seen = await lab.run(
        Text(
            py("[[os.path.exists(p), os.path.isfile(p), os.path.isdir(p)] for p in ('a', 'd', 'no', 'a/b')]"),
            "['a', 'd', 'no', 'a/b'].map(p => {"
            " const is = (kind: string) => files.exists(p) && files.stat(p).kind === kind;"
            " return [files.exists(p), is('file'), is('directory')] })",
        )
    )
    assert seen.value == [[True, True, False], [True, False, True], [False] * 3, [False] * 3]
    size = await lab.run(
        Text(
            py("[Path('a').stat().st_size, os.path.getmtime('a')]"),
            "const s = files.stat('a'); [s.size_bytes, s.modified_ms / 1000]",
        )
    )
    assert size.value == [5, 1_700_000_000]


# -- refusals ---------------------------------------------------------------------------------------------------------


@chapter("a file that is not there is an error of its own, which names the path")
async def _(lab: Lab) -> None:
    kinds = Text("FileNotFoundError", "FILE_NOT_FOUND")
    for python, typescript in (
        ("open('no/such.txt')", "files.read('no/such.txt')"),
        ("Path('no/such.txt').read_bytes()", "files.read_bytes('no/such.txt')"),
        ("os.listdir('no/such.txt')", "files.list('no/such.txt')"),
        ("os.stat('no/such.txt')", "files.stat('no/such.txt')"),
        ("os.remove('no/such.txt')", "files.read('no/such.txt')"),
        ("os.rename('no/such.txt', 'b')", "files.move('no/such.txt', 'b')"),
    ):
        await refused(lab, python, typescript, kinds, names="no/such.txt")


@chapter("a refusal that nobody catches fails the cell, with the place and the path")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("x = 1\nopen('missing.txt')", "var x = 1;\nfiles.read('missing.txt')"))
    assert seen.error.code == Code.RUNTIME_ERROR
    assert "missing.txt" in seen.error.message
    assert seen.error.span is not None
    assert seen.error.span.line == 2
    assert not seen.fatal


@chapter("a directory is no file, and a file no directory")
async def _(lab: Lab) -> None:
    lab.disk.files["/f"] = b""
    lab.disk.directories.add("/d")
    is_directory = Text("IsADirectoryError", "FILE_IS_DIRECTORY")
    await refused(lab, "open('d')", "files.read('d')", is_directory, names="d")
    await refused(lab, "open('d', 'w')", "files.write('d', '')", is_directory, names="d")
    await refused(
        lab, "os.listdir('f')", "files.list('f')", Text("NotADirectoryError", "FILE_NOT_DIRECTORY"), names="f"
    )
    await refused(
        lab, "open('f/x', 'w')", "files.write('f/x', '')", Text("NotADirectoryError", "FILE_NOT_DIRECTORY"), names="f"
    )


@chapter("a read-only file is neither written nor removed")
async def _(lab: Lab) -> None:
    lab.disk.files["/seal"] = b"old"
    lab.disk.read_only.add("/seal")
    kinds = Text("PermissionError", "FILE_READ_ONLY")
    for python, typescript in (
        ("open('seal', 'w')", "files.write('seal', '')"),
        ("open('seal', 'a')", "files.append('seal', 'x')"),
        ("Path('seal').write_bytes(b'new')", "files.write('seal', new Uint8Array(1))"),
        ("os.remove('seal')", "files.delete('seal')"),
        ("os.rename('seal', 'other')", "files.move('seal', 'other')"),
    ):
        await refused(lab, python, typescript, kinds, names="seal")
    assert lab.disk.files == {"/seal": b"old"}


@chapter("bytes that are no text are not read as text")
async def _(lab: Lab) -> None:
    lab.disk.files["/raw"] = b"\xff\xfe"
    await refused(
        lab, "open('raw').read()", "files.read('raw')", Text("UnicodeDecodeError", "FILE_NOT_TEXT"), names="raw"
    )
    seen = await lab.run(Text("list(open('raw', 'rb').read())", "Array.from(files.read_bytes('raw'))"))
    assert seen.value == [255, 254]


@chapter("a full disk refuses, and what was there is there")
async def _(lab: Lab) -> None:
    lab.disk.most_bytes = 100
    lab.disk.files["/a"] = b"x" * 60
    await refused(
        lab,
        "Path('b').write_text('y' * 41)",
        "files.write('b', 'y'.repeat(41))",
        Text("OSError", "FILE_QUOTA"),
        names="b",
    )
    assert lab.disk.files == {"/a": b"x" * 60}


@chapter("a path that no file can have is refused")
async def _(lab: Lab) -> None:
    kinds = Text("ValueError", "FILE_INVALID_PATH")
    await refused(lab, r"open('a\\b', 'w')", r"files.write('a\\b', '')", kinds, names="a\\\\b")
    # Monty and the disk each have their words for it.
    await refused(lab, r"open('a\0b', 'w')", r"files.write('a\0b', '')", kinds, names="")
    long = Text("OSError", "FILE_INVALID_PATH")
    await refused(lab, "open('a' * 5000, 'w')", "files.write('a'.repeat(5000), '')", long, names="aaa")
    assert lab.disk.files == {}


# -- bounds -----------------------------------------------------------------------------------------------------------


@chapter("as much as may cross at once does, both ways")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            py(
                f"Path('t').write_text('x' * {MAX_FILE_BYTES})\nPath('b').write_bytes(b'x' * {MAX_FILE_BYTES})\n"
                "[len(Path('t').read_text()), len(Path('b').read_bytes())]"
            ),
            f"files.write('t', 'x'.repeat({MAX_FILE_BYTES})); files.write('b', new Uint8Array({MAX_FILE_BYTES}));"
            "[files.read('t').length, files.read_bytes('b').length]",
        ),
        limits=WIDE,
    )
    assert seen.value == [MAX_FILE_BYTES] * 2


@chapter("more than may cross at once is refused before anything is made of it, and the program goes on")
async def _(lab: Lab) -> None:
    size = MAX_FILE_BYTES + 1
    lab.disk.files["/large"] = b"x" * size
    kind = Text("OSError", "FILE_TOO_LARGE").of(lab.language)
    for python, typescript in (
        ("open('large').read()", "files.read('large')"),
        ("Path('large').read_bytes()", "files.read_bytes('large')"),
        (f"Path('a').write_text('x' * {size})", f"files.write('a', 'x'.repeat({size}))"),
        (f"Path('a').write_bytes(b'x' * {size})", f"files.write('a', new Uint8Array({size}))"),
        # Fewer characters than bytes.
        (f"Path('a').write_text('€' * {size // 3 + 1})", f"files.write('a', '€'.repeat({size // 3 + 1}))"),
    ):
        got = (await lab.run(caught(python, typescript), limits=WIDE)).value
        assert got[0] == kind, got
    assert {name for name, _ in lab.disk.asked} == {"files.stat"}


@chapter("a file that the program has no memory for ends it, as any value would")
async def _(lab: Lab) -> None:
    lab.disk.files["/a"] = b"x" * (12 * MIB)
    seen = await lab.run(
        Text("x = [open('a').read() for _ in range(8)]", "var x = [1, 2, 3, 4, 5, 6, 7, 8].map(_ => files.read('a'))"),
        limits=SessionLimits(wall_ms=20_000, cpu_ms=10_000, memory_mb=32),
    )
    assert seen.error.code == Code.MEMORY_EXCEEDED
    assert seen.fatal


@chapter("files without end are over when the time is")
async def _(lab: Lab) -> None:
    endless = Text(
        "while True:\n    try:\n        open('a', 'w').write('x')\n    except Exception:\n        pass",
        "for (;;) { try { files.write('a', 'x') } catch {} }",
    )
    for limits, code in (
        (SessionLimits(wall_ms=400, cpu_ms=10_000), Code.TIMEOUT_WALL),
        (SessionLimits(wall_ms=20_000, cpu_ms=150), Code.TIMEOUT_CPU),
    ):
        seen = await lab.run(endless, limits=limits)
        assert seen.error.code == code
        assert seen.fatal


# -- with the rest ----------------------------------------------------------------------------------------------------


@chapter("files are used between calls, and by calls that are made together")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text(
            "import asyncio\nasync def one(n):\n    open(f'f{n}', 'w').write(str(await echo(n)))\n"
            "    return open(f'f{n}').read()\n"
            "await asyncio.gather(*[one(n) for n in range(5)])",
            "const one = async (n: number) => { files.write('f' + n, '' + await echo(n)); return files.read('f' + n) };"
            "await Promise.all([0, 1, 2, 3, 4].map(one))",
        )
    )
    assert seen.value == ["0", "1", "2", "3", "4"]


@chapter("a program that waits goes on with its files in another process")
async def _(lab: Lab) -> None:
    first = await lab.open()
    seen = await lab.start(
        first,
        Text(
            "f = open('log', 'a')\nf.write('before;')\nr = open('log')\nhead = r.read(3)\nn = await echo(7)\n"
            "f.write(f'after {n};')\n[head, r.read(), open('log').read()]",
            "files.append('log', 'before;'); const head = files.read('log').slice(0, 3); const n = await echo(7);"
            "files.append('log', 'after ' + n + ';'); [head, 'ore;', files.read('log')]",
        ),
    )
    assert isinstance(seen.step, Suspended)
    state = await first.dump()
    await first.close()
    second = await lab.open(state)
    try:
        ended = await lab.finish(second, seen)
        assert ended.value == ["bef", "ore;", "before;after 7;"]
    finally:
        await second.close()


@chapter("functions of earlier cells use files too")
async def _(lab: Lab) -> None:
    seen = await lab.run(
        Text("def note(x):\n    open('n', 'a').write(x)", "function note(x: string) { files.append('n', x) }"),
        Text("note('a')\nnote('b')\n5", "note('a'); note('b'); 5"),
    )
    assert seen.value == 5
    assert lab.disk.files["/n"] == b"ab"


@chapter("a step that nobody gives files is told that there are none")
async def _(lab: Lab) -> None:
    interpreter = await lab.open()
    try:
        turn = replace(lab.turn(), helper=no_helper)
        step = await interpreter.start(Program(caught("open('a')", "files.read('a')").of(lab.language)), turn)
        assert isinstance(step, Finished)
        assert "there are no files here" in str(step.value)
    finally:
        await interpreter.close()


@chapter("a right program with files passes every check")
async def _(lab: Lab) -> None:
    checked = await lab.check(
        Text(
            py(
                "import json\nwith open('a.json', 'w') as f:\n    json.dump({'n': 1}, f)\n"
                "rows = [line.strip() for line in open('a.json')]\nsize: int = Path('a.json').stat().st_size\n"
                "data = json.loads(Path('a.json').read_text())\n"
                "for root, dirs, names in os.walk('.'):\n    print(os.path.join(root, names[0] if names else ''))\n"
                "found = [p for p in Path('.').glob('*.json') if p.is_file()]\nraw: bytes = open('a.json', 'rb').read()"
            ),
            "const rows: string[] = files.read('a').split('\\n'); await files.read('a'); files.list()",
        ),
        types=TypeCheck.STRICT,
    )
    assert checked.diagnostics == (), checked.diagnostics


@chapter("a variable called files is the program's own")
async def _(lab: Lab) -> None:
    seen = await lab.run(Text("files = [1, 2]\nfiles", "let files = [1, 2]; files"))
    assert seen.value == [1, 2]
    again = await lab.run(
        Text("for files in [1]:\n    pass\nfiles + 1", "const f = (files: number) => files + 1; f(1)")
    )
    assert again.value == 2
