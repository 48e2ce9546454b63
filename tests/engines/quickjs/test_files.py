"""Files in TypeScript programs: what the object `files` takes, gives and refuses, and that no program breaks it."""

import json
from typing import Any

import pytest

from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.engines.quickjs import frames
from cloister.engines.quickjs.helping import answer
from cloister.ports.engine import Catalog, Failed, Finished, Step, Turn
from cloister.ports.helping import FILES
from cloister.testing.conformance.disk import NOW_MS, Disk

from .conftest import Driver, Opener

pytestmark = pytest.mark.anyio

HELPERS = frozenset({"files", "exit", "text"})


class Filing(Driver):
    disk: Disk

    def turn(self) -> Turn:
        turn = super().turn()
        return Turn(turn.now_ms, turn.wall_ms, turn.cpu_ms, turn.sink, turn.catalog, turn.max_calls, self.ask)

    def ask(self, name: str, given: tuple[Json, ...]) -> Json:
        return self.disk(name, given) if name in FILES else None

    async def value(self, code: str) -> Any:
        step = await self.run(code)
        assert isinstance(step, Finished), step
        return step.value

    async def caught(self, code: str) -> list[Any]:
        """The name, the code and the message of what is thrown."""
        return await self.value(
            f"var got: any; try {{ {code}; got = ['nothing'] }} "
            "catch (e: any) { got = [e.name, e.code, e.message] } got"
        )


def _filing(driver: Driver) -> Filing:
    filing = Filing(driver.interpreter)
    filing.helpers, filing.disk = HELPERS, Disk()
    return filing


@pytest.fixture
def session(session: Driver) -> Filing:
    return _filing(session)


# -- what is given and taken ------------------------------------------------------------------------------------------


async def test_answers_are_plain_values_that_may_be_awaited(session: Filing) -> None:
    code = "const n = await files.write('a/b', 'x'); [n, files.write('a/c', 'yy'), await files.read('a/b')]"
    assert await session.value(code) == [1, 2, "x"]
    assert await session.value("files.list('a')") == [
        {"name": "b", "path": "/a/b", "kind": "file", "size_bytes": 1},
        {"name": "c", "path": "/a/c", "kind": "file", "size_bytes": 2},
    ]
    stat = await session.value("files.stat('a/c')")
    assert (stat.pop("hash") is not None, stat) == (
        True,
        {"path": "/a/c", "kind": "file", "size_bytes": 2, "modified_ms": NOW_MS, "read_only": False},
    )


async def test_what_does_something_gives_nothing_back(session: Filing) -> None:
    code = "files.write('a', ''); [files.mkdir('d'), files.copy('a', 'b'), files.move('a', 'd/c')]"
    assert await session.value(f"{code}.map(v => v === undefined)") == [True] * 3
    assert session.disk.files == {"/b": b"", "/d/c": b""}


async def test_every_byte_travels(session: Filing) -> None:
    await session.run("const all = Uint8Array.from({length: 256}, (_, i) => i); files.write('b', all)")
    code = "files.append('b', all.subarray(1, 3))"
    assert await session.value(
        f"{code}; const got = files.read_bytes('b'); [got instanceof Uint8Array, Array.from(got)]"
    ) == [
        True,
        [*range(256), 1, 2],
    ]


async def test_write_if_match_needs_the_hash_of_what_is_there(session: Filing) -> None:
    assert await session.value("const h = files.write_if_match('a', 'one', null); h === files.stat('a').hash") is True
    assert (await session.caught("files.write_if_match('a', 'two', null)"))[1] == "FILE_CONFLICT"
    await session.value("files.write_if_match('a', 'two', h)")
    assert (await session.caught("files.write_if_match('a', 'three', h)"))[1] == "FILE_CONFLICT"
    assert session.disk.files == {"/a": b"two"}


async def test_grep_takes_options_and_gives_lines(session: Filing) -> None:
    session.disk.files |= {"/a.txt": b"one\ntwo (x)\n", "/d/b.md": b"two\n", "/raw": b"\xff two"}
    assert await session.value("files.grep('^two', {glob: '*.txt'})") == [
        {"path": "/a.txt", "line": 2, "text": "two (x)"}
    ]
    found = await session.value("files.grep('(x)', {literal: true, path: '/', limit: 5, glob: undefined})")
    assert found == [{"path": "/a.txt", "line": 2, "text": "two (x)"}]
    assert (await session.caught("files.grep('(')"))[:2] == ["FileError", "FILE_INVALID"]


async def test_error_has_a_code_a_name_and_the_place_in_the_cell(session: Filing) -> None:
    code = "try { files.read('no.txt') } catch (e: any) { [e instanceof Error, e.name, e.code, e.message, e.stack] }"
    is_error, name, kind, message, stack = await session.value(f"let r: any; {code.replace('[e ', 'r = [e ')}; r")
    assert (is_error, name, kind, message) == (True, "FileError", "FILE_NOT_FOUND", "not found: 'no.txt'")
    assert stack.startswith("FileError: not found: 'no.txt'\n    at ")
    step = await session.run("function look() {\n  return files.read('no.txt');\n}\nlook()")
    assert isinstance(step, Failed)
    assert (step.error.message, step.error.span and step.error.span.line) == ("FileError: not found: 'no.txt'", 2)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("files.read()", "files.read: takes a path"),
        ("files.read('a', 'utf8')", "files.read: takes a path"),
        ("files.read(5)", "files.read: a path is text, not number"),
        ("files.read(null)", "files.read: a path is text, not null"),
        ("files.read(['a'])", "files.read: a path is text, not a list"),
        ("files.write('a')", "files.write: takes a path and the content"),
        ("files.write('a', 5)", "files.write: the content is text or a Uint8Array, not number"),
        ("files.write('a', new Uint16Array(2))", "files.write: the content is text or a Uint8Array, not object"),
        ("files.write('a', new ArrayBuffer(2))", "files.write: the content is text or a Uint8Array, not object"),
        (
            "files.write('a', new Proxy(new Uint8Array(2), {}))",
            "files.write: the content is text or a Uint8Array, not object",
        ),
        ("files.write_if_match('a', 'x')", "files.write_if_match: takes a path, the content, and the hash"),
        ("files.write_if_match('a', 'x', 5)", "files.write_if_match: the hash is text, or null"),
        ("files.delete('a', true)", "files.delete: the options are an object"),
        ("files.delete('a', {force: true})", "files.delete: there is no option `force`: recursive"),
        ("files.delete('a', {recursive: 1})", "files.delete: the option `recursive` is true or false"),
        ("files.mkdir('a', {parents: 'yes'})", "files.mkdir: the option `parents` is true or false"),
        ("files.grep(/x/)", 'files.grep: the pattern is text, like "a+b", not object'),
        ("files.grep('x', {limit: 0.5})", "files.grep: the option `limit` is a whole number above zero"),
        ("files.grep('x', {limit: Infinity})", "files.grep: the option `limit` is a whole number above zero"),
        ("files.grep('x', {path: 5})", "files.grep: the option `path` is text"),
    ],
)
async def test_arguments_that_are_not_those_are_a_type_error_and_ask_nobody(
    session: Filing, code: str, says: str
) -> None:
    name, _, message = await session.caught(code)
    assert name == "TypeError"
    assert message.startswith(says)
    assert session.disk.asked == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("files.read('\\ud800')", "FILE_INVALID_PATH"),
        ("files.grep('x', {path: 'a\\udc00'})", "FILE_INVALID_PATH"),
        ("files.read('x'.repeat(5000))", "FILE_INVALID_PATH"),
        ("files.write('a', 'x\\ud800y')", "FILE_INVALID"),
    ],
)
async def test_half_a_surrogate_pair_and_endless_paths_are_refused_here(session: Filing, code: str, kind: str) -> None:
    name, code, _ = await session.caught(code)
    assert (name, code) == ("FileError", kind)
    assert session.disk.asked == []


async def test_text_that_is_larger_once_written_out_than_a_frame_is_refused(open_session: Opener) -> None:
    session = _filing(await open_session(SessionLimits(memory_mb=256)))
    _, code, message = await session.caught("files.write('a', '\\u0001'.repeat(5 << 20))")
    assert (code, message) == ("FILE_TOO_LARGE", "this is more than can be handed over at once")
    assert await session.value("files.write('a', '\\u0001'.repeat(1 << 20))") == 1 << 20


# -- programs that try ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "poison",
    [
        "JSON.parse = JSON.stringify = () => { throw 1 }",
        "(Uint8Array as any).fromBase64 = () => 1; (Uint8Array.prototype as any).toBase64 = () => '!'",
        "Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), 'length', {get: () => -1})",
        "Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag, {get: () => 'x'})",
        "(Object.prototype as any).recursive = true; (Object.prototype as any).refused = 'x'",
        "(Array.prototype as any).join = () => 'x'; (String.prototype as any).isWellFormed = () => false",
        "Object.defineProperty(Object.prototype, 'answer', {get: () => 1, set: () => { throw 2 }})",
        "(Function.prototype as any).call = (Function.prototype as any).apply = () => 1",
    ],
)
async def test_files_work_in_a_realm_that_was_poisoned(session: Filing, poison: str) -> None:
    await session.run(poison)
    code = "files.write('d/a', new Uint8Array([1, 255])); const b = files.read_bytes('d/a')"
    assert await session.value(f"{code}; [b[0], b[1], files.delete('d')]") == [1, 255, False]


async def test_files_cannot_be_changed_and_can_be_replaced(session: Filing) -> None:
    assert await session.value("'use strict'; try { (files as any).read = 1 } catch {} typeof files.read") == "function"
    assert await session.value("var files = {read: () => 'mine'} as any; files.read()") == "mine"
    assert await session.value("files.read()") == "mine"


async def test_program_that_ends_while_it_is_looked_at_asks_nothing_more(session: Filing) -> None:
    step = await session.run("files.delete('a', {get recursive() { exit(); return true }} as any)")
    assert isinstance(step, Finished)
    assert session.disk.asked == []


async def test_bytes_that_are_gone_are_an_error(session: Filing) -> None:
    code = "const b = new Uint8Array(8); b.buffer.transfer(); files.write('a', b)"
    assert (await session.caught(code))[0] in ("TypeError", "nothing")
    assert session.disk.files in ({}, {"/a": b""})


async def test_program_without_files_has_none(session: Filing) -> None:
    session.helpers = frozenset({"text"})
    assert await session.value("typeof files") == "undefined"
    step = await session.run("files.read('a')")
    assert isinstance(step, Failed)
    assert step.error.message == "ReferenceError: files is not defined"
    session.helpers = HELPERS
    assert await session.value("typeof files") == "object"


# -- a worker that lies -----------------------------------------------------------------------------------------------


def _ask(name: str, *args: Any, helpers: frozenset[str] = HELPERS) -> Step | dict[str, Any]:
    disk = Disk()
    disk.files["/a"] = b"x"
    turn = Turn(0, 1, 1, lambda _stream, _text: None, Catalog(helpers=helpers), helper=disk)
    frame = answer(json.dumps({"name": name, "args": args}, separators=(",", ":")).encode(), turn)
    return json.loads(frame[frames.HEADER.size :])["answer"]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("files.read", ["a"]),
        ("files.read", ["a", "text", "more"]),
        ("files.read", [5, "text"]),
        ("files.delete", ["a", 1]),
        ("files.mkdir", ["a", True, None]),
        ("files.grep", ["a", ["glob"]]),
        ("files.write_if_match", ["a", "b", "text", 5]),
        ("files.format", ["a"]),
        ("files", ["a"]),
    ],
)
def test_question_of_another_shape_is_a_frame_error(name: str, args: list[Any]) -> None:
    with pytest.raises(frames.FrameError):
        _ask(name, *args)


def test_question_about_files_that_the_program_has_not_is_a_frame_error() -> None:
    assert _ask("files.read", "a", "text") == {"value": "x", "refused": None}
    with pytest.raises(frames.FrameError):
        _ask("files.read", "a", "text", helpers=frozenset({"text"}))


def test_worker_that_writes_more_than_may_cross_is_refused() -> None:
    told = _ask("files.write", "a", "A" * (24 << 20), "base64", "w")
    assert isinstance(told, dict)
    assert told["code"] == "FILE_TOO_LARGE"
