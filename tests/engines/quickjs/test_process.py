"""A worker is an enemy: whatever it answers, the host ends the step as a crash, kills it, and goes on."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cloister.core.codes import Code
from cloister.core.errors import ConfinementUnavailable, EngineUnavailable
from cloister.core.limits import SessionLimits
from cloister.core.value import Json
from cloister.engines.quickjs import frames, process
from cloister.engines.quickjs.engine import QuickJSEngine
from cloister.ports.engine import Catalog, Failed, Program, Turn

pytestmark = pytest.mark.anyio

# Says hello, opens sessions, and answers everything else with the bytes in a file.
FAKE = """
import socket, struct
wire = socket.socket(fileno=0)
hello, answer = open({hello!r}, "rb").read(), open({answer!r}, "rb").read()
def take(size):
    data = b""
    while len(data) < size:
        piece = wire.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise SystemExit
        data += piece
    return data
while True:
    size, kind = struct.unpack(">IB", take(5))
    take(size)
    if kind == 1:
        wire.sendall(hello)
    elif kind == 2:
        wire.sendall(struct.pack(">IB", 0, 17))
    else:
        wire.sendall(answer)
        if not answer:
            raise SystemExit
"""
HELLO = frames.pack(frames.HELLO, json.dumps({"layers": {"seccomp": "active"}, "digest": "00"}).encode())


def step(report: bytes, cpu_ms: float = 1.0) -> bytes:
    return frames.pack(frames.STEP, frames.STEP_HEAD.pack(cpu_ms, 0, 0), report)


def call(**fields: Any) -> bytes:
    item: dict[str, Any] = {"number": 1, "name": "f", "size": 2, "args": [1], **fields}
    return step(json.dumps({"wait": [1], "calls": [item]}).encode())


def ask(question: bytes) -> bytes:
    return frames.pack(frames.HELP, question)


LARGE = ask(json.dumps({"name": "text", "args": ["x" * 1_000_000]}).encode())

HOSTILE: dict[str, bytes] = {
    "nothing, and hangs up": b"",
    "garbage": b"\xff" * 64,
    "a frame of a kind that hosts send": frames.pack(frames.START, b"{}"),
    "an answer to another question": frames.pack(frames.IMAGE, b"image"),
    "a frame larger than any": frames.HEADER.pack(0xFFFFFFFF, frames.STEP),
    "a report without its head": frames.pack(frames.STEP, b"short"),
    "a report that is not JSON": step(b"nope"),
    "a report in no encoding": step(b'{"done":"\xff","calls":[]}'),
    "a report that is a list": step(b"[]"),
    "a report of nothing known": step(b'{"won":1,"calls":[]}'),
    "a report with more in it": step(b'{"done":1,"wait":[1],"calls":[]}'),
    "a report that is nested without end": step(b'{"done":' + b"[" * 200_000 + b"]" * 200_000 + b',"calls":[]}'),
    "a value that is nested too deeply": step(b'{"done":' + b"[" * 200 + b"]" * 200 + b',"calls":[]}'),
    "a number that is none": step(b'{"done":NaN,"calls":[]}'),
    "a number of ten thousand digits": step(b'{"done":' + b"9" * 10_000 + b',"calls":[]}'),
    "half of a surrogate pair": step(b'{"done":"\\ud800","calls":[]}'),
    "calls that are no list": step(b'{"done":1,"calls":{}}'),
    "a call that is no object": step(b'{"wait":[1],"calls":[1]}'),
    "a call with a number that is text": call(number="1"),
    "a call with a negative number": call(number=-1),
    "a call with true for a number": call(number=True),
    "a call with more in it": call(sudo=True),
    "a call with a name that is none": call(name=None),
    "a call with arguments that are none": call(args="x"),
    "a timer of negative time": step(b'{"wait":[1],"calls":[{"number":1,"name":"sleep","kind":"timer","args":[-1]}]}'),
    "waiting for text": step(b'{"wait":["1"],"calls":[]}'),
    "an error without a code": step(b'{"error":{"message":"m","hint":null,"span":null},"calls":[]}'),
    "an error with an endless message": step(
        json.dumps({"error": {"code": "X", "message": "m" * 100_000, "hint": None, "span": None}, "calls": []}).encode()
    ),
    "an error at no place": step(b'{"error":{"code":"X","message":"m","hint":null,"span":[0,0]},"calls":[]}'),
    "a limit that does not exist": step(b'{"stop":"LUNCH"}'),
    "no diagnostics": step(b'{"rejected":[]}'),
    "impossible processor time": step(b'{"done":1,"calls":[]}', float("nan")),
    "output on a third stream": frames.pack(frames.OUTPUT, b"xtext"),
    "output in no encoding": frames.pack(frames.OUTPUT, b"o\xff\xff"),
    "endless output": frames.pack(frames.OUTPUT, b"o" + b"x" * 3_000_000) * 7,
    "a question without a shape": ask(b"[]"),
    "a question that is not JSON": ask(b"nope"),
    "a question with more in it": ask(b'{"name":"text","args":["a"],"sudo":1}'),
    "a question to nobody": ask(b'{"name":"eval","args":["a"]}'),
    "a question to a helper that it has not": ask(b'{"name":"image","args":["a"]}'),
    "a question that ends the program": ask(b'{"name":"exit","args":[]}'),
    "a question with too few arguments": ask(b'{"name":"text","args":[]}'),
    "a question with too many arguments": ask(b'{"name":"text","args":["a","b"]}'),
    "a question with something else than text": ask(b'{"name":"text","args":[["a"]]}'),
    "a question with a key that is no text": ask(b'{"name":"store","args":[1,1]}'),
    "a question with a value that is nested too deeply": ask(
        b'{"name":"store","args":["k",' + b"[" * 200 + b"]" * 200 + b"]}"
    ),
    "a question larger than any": frames.HEADER.pack(25 << 20, frames.HELP),
    "a question larger than any that is not about files": ask(b'{"name":"text","args":["' + b"x" * (9 << 20) + b'"]}'),
    "a large question without a shape": ask(b" " * 100_000 + b"[]"),
    "an answer in the middle of a large question": LARGE + step(b'{"done":1,"calls":[]}'),
    "two large questions at once": LARGE * 2,
    "a question after the answer": step(b'{"done":1,"calls":[]}') + ask(b'{"name":"text","args":["a"]}'),
    "questions whose answers nobody reads": ask(b'{"name":"load","args":["large"]}') * 10,
    "two answers": step(b'{"done":1,"calls":[]}') * 2,
}


def ignore(_stream: str, _text: str) -> None:
    pass


def help_with(name: str, _given: tuple[Json, ...]) -> Json:
    return "x" * 3_000_000 if name == "load" else None


CATALOG = Catalog(helpers=frozenset({"text", "store", "load", "exit"}))
TURN = Turn(now_ms=0, wall_ms=20_000, cpu_ms=10_000, sink=ignore, catalog=CATALOG, helper=help_with)


class Pretend:
    """Makes the next workers fakes that answer as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch, self._folder = monkeypatch, folder

    def __call__(self, answer: bytes, hello: bytes = HELLO) -> None:
        (self._folder / "answer").write_bytes(answer)
        (self._folder / "hello").write_bytes(hello)
        script = FAKE.format(hello=str(self._folder / "hello"), answer=str(self._folder / "answer"))
        self._monkeypatch.setattr(process, "_WORK", script)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pretend:
    return Pretend(monkeypatch, tmp_path)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_answer_ends_the_step_and_the_worker(pretend: Pretend, answer: bytes) -> None:
    pretend(answer)
    async with QuickJSEngine(capacity=1) as engine:
        interpreter = await engine.open(SessionLimits())
        worker = interpreter.worker
        first = await interpreter.start(Program("1"), TURN)
        second = await interpreter.start(Program("1"), TURN)
        crashed = first if isinstance(first, Failed) else second
        assert isinstance(crashed, Failed)
        assert crashed.fatal
        assert crashed.error.code == Code.ENGINE_CRASHED
        await worker.ended
        assert is_gone(worker.pid)
        assert interpreter.pid is None
        await interpreter.close()


async def test_worker_that_does_not_say_hello_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_WORK", "raise SystemExit")
    async with QuickJSEngine() as engine:
        with pytest.raises(EngineUnavailable, match="no TypeScript worker starts"):
            await engine.open(SessionLimits())


@pytest.mark.parametrize("hello", [b"[]", b'{"layers":3,"digest":""}', b"{", b'{"layers":{}}'])
async def test_worker_with_a_strange_hello_is_unavailable(pretend: Pretend, hello: bytes) -> None:
    pretend(b"", frames.pack(frames.HELLO, hello))
    async with QuickJSEngine() as engine:
        with pytest.raises(EngineUnavailable):
            await engine.open(SessionLimits())


async def test_missing_layer_is_named_when_confinement_is_required(pretend: Pretend) -> None:
    layers = {"layers": {"landlock": "unavailable: too old", "seccomp": "active"}, "digest": ""}
    pretend(b"", frames.pack(frames.HELLO, json.dumps(layers).encode()))
    engine = QuickJSEngine(require_confinement=True)
    with pytest.raises(ConfinementUnavailable, match="landlock \\(unavailable: too old\\)"):
        await engine.__aenter__()


async def test_missing_layer_is_reported_when_confinement_is_not_required(pretend: Pretend) -> None:
    layers = {"layers": {"landlock": "unavailable: too old"}, "digest": ""}
    pretend(b"", frames.pack(frames.HELLO, json.dumps(layers).encode()))
    async with QuickJSEngine() as engine:
        await engine.open(SessionLimits())
        assert engine.confinement() == {"landlock": "unavailable: too old"}
