"""The sealed process that runs guests: reads a frame, does what it asks, answers with a frame. One session at a time.

It starts with an empty environment and one socket, is given the compiled module over it, boots, puts on the
operating system's confinement and only then says hello. From there on it opens nothing. Whatever goes wrong in
here in a way that this file does not expect ends the process: the host takes that as a crash of the step.
"""

import json
import os
import socket
import time
from collections.abc import Collection
from typing import Any

from cloister.engines.confinement.seal import enter_namespaces, seal
from cloister.engines.quickjs import diagnosis, frames
from cloister.engines.quickjs.erase import Erased, erase
from cloister.engines.quickjs.guest import (
    BEGIN,
    SEED,
    SETTLE,
    STANDING,
    Boot,
    Budget,
    Guest,
    GuestCrashed,
    Machine,
    Stop,
)
from cloister.engines.quickjs.image import ImageRefused, Images
from cloister.engines.quickjs.line import Line

_SOCKET = 0
# What the process may hold: the largest guest, copies of it while it is dumped, and Python itself.
_DATA_BYTES = 3 << 30
_MOST_MEMORY_MB = 1024
# Linear memory may pass the limit by this much before it cannot grow: the poll that stops the guest comes later.
_SLACK = 2 << 20
_MACHINES = 8
_CODE_BYTES = 1 << 20
_OUTPUT_BYTES = 8 << 20
_FLUSH_BYTES = 16 << 10
_FLUSH_SECONDS = 0.02
_TOO_LARGE = (
    b'{"answer":{"value":null,"refused":"this is more than can be handed over at once","code":"FILE_TOO_LARGE"},'
    b'"bigs":null}'
)


class Outbox:
    """What a cell prints, sent on in pieces that are worth a frame, and dropped past a bound."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._stream = b""
        self._pieces: list[bytes] = []
        self._size = 0
        self._sent_at = 0.0
        self.total = 0
        self.dropped = 0

    def add(self, stream: bytes, text: bytes) -> None:
        if self.total + len(text) > _OUTPUT_BYTES:
            self.dropped += len(text)
            return
        self.total += len(text)
        if stream != self._stream:
            self.flush()
            self._stream = stream
        self._pieces.append(text)
        self._size += len(text)
        if self._size >= _FLUSH_BYTES:
            self.flush()

    def idle(self) -> None:
        if self._pieces and time.monotonic() - self._sent_at > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._pieces:
            self._line.send(frames.pack(frames.OUTPUT, self._stream, *self._pieces))
            self._pieces, self._size = [], 0
        self._sent_at = time.monotonic()

    def consult(self, asked: bytes) -> bytes:
        """The host's answer to a helper. It hears first what was printed before."""
        if len(asked) > (frames.LARGEST[frames.HELP] if frames.is_about_files(asked) else frames.LARGEST_HELP):
            return _TOO_LARGE
        self.flush()
        self._line.send(frames.pack(frames.HELP, asked))
        answer = self._line.receive()
        if answer is None:
            os._exit(0)
        kind, payload = answer
        if kind != frames.HELPED:
            raise GuestCrashed("the host answers something else")
        return payload


class Session:
    """A guest and what the worker knows of it between frames."""

    def __init__(self, machine: Machine, boot: Boot, memory_mb: int, outbox: Outbox) -> None:
        heap = min(memory_mb, _MOST_MEMORY_MB) << 20
        self.memory = boot.stack_pointer + len(boot.live) + heap
        self.guest = Guest(machine, boot, self.memory + _SLACK)
        self.guest.on_output, self.guest.on_idle = outbox.add, outbox.idle
        self.guest.on_consult = outbox.consult
        self.promise = 0
        self.names: frozenset[str] = frozenset()
        self.mark = ""
        self.helpers: frozenset[str] = frozenset()
        self._news = "null"

    def budget(self, head: dict[str, Any]) -> None:
        self.guest.budget = Budget(head["now_ms"], head["cpu_ms"], head["wall_ms"], self.memory)

    def guilty(
        self, suspected: list[diagnosis.Diagnostic], inputs: list[str], *, secret: bool, helpers: Collection[str]
    ) -> list[diagnosis.Diagnostic]:
        def standing(names: list[str]) -> list[int]:
            told = dict(zip(names, json.loads(self.guest.ask(STANDING, json.dumps(names))), strict=True))
            if secret and told.get("secret") == diagnosis.ABSENT:
                # The guest hears of it when the cell begins.
                told["secret"] = diagnosis.OURS
            # A helper, or a variable in its place: either may be called and awaited.
            return [diagnosis.THEIRS if name in inputs or name in helpers else told[name] for name in names]

        return diagnosis.guilty(suspected, standing)

    def learn(self, catalog: dict[str, Any] | None) -> None:
        """Take note of the catalog; None when it is as it was."""
        if catalog is not None:
            self.names, self.mark = frozenset(catalog["names"]), catalog["mark"]
            self.helpers = frozenset(catalog["helpers"])
            lists = {part: _listed(catalog[part]) for part in ("names", "own", "helpers")}
            self._news = json.dumps(lists | {"mark": self.mark})

    def news(self) -> str:
        """The catalog as the guest is told of it, once."""
        news, self._news = self._news, "null"
        return news

    def step(self) -> bytes:
        """Go on until the program ends or cannot."""
        self.guest.drain()
        report, ended = self.guest.report(self.promise)
        if ended:
            self.promise = 0
        if self.guest.memory_bytes > self.memory:
            raise Stop("MEMORY_EXCEEDED")
        return placed(report)


def _listed(names: list[str]) -> str:
    # With spaces on both sides, so that each name is found between two of them.
    return f" {' '.join(names)} " if names else " "


def placed(report: bytes, *, compiling: bool = False) -> bytes:
    """A guest's report, one of an error with its place in the cell's source and with a code."""
    if not report.startswith(b'{"error"'):
        return report
    told = json.loads(report)
    error = told["error"]
    code = error["code"] or ("SYNTAX_ERROR" if compiling and error["name"] == "SyntaxError" else "RUNTIME_ERROR")
    frames_ = error["frames"]
    if compiling:
        # A compile error stands in no function.
        frames_ = "<eval>" + frames_[frames_.find("\t") :] if "\t" in frames_ else ""
    message = error["message"].removeprefix("SyntaxError: ") if code == "SYNTAX_ERROR" else error["message"]
    span = diagnosis.place(frames_, told["meta"], message)
    out = {"code": code, "message": message, "hint": error["hint"] or None, "span": span}
    return json.dumps({"error": out, "calls": told["calls"]}, separators=(",", ":")).encode("utf-8", "replace")


class Worker:
    def __init__(self, line: Line, module: bytes, boot_source: str) -> None:
        self._module = module
        self._machines: dict[int, Machine] = {}
        self._boot = self._boot_image(boot_source)
        self._images = Images(self._boot)
        self._outbox = Outbox(line)
        self._session: Session | None = None
        # Everything is used once before the seal, so that nothing is imported or opened after it.
        guest = Guest(self._machine(256), self._boot, 64 << 20)
        guest.load(self._boot.live, self._boot.stack_pointer)
        self._images.load(guest, self._images.dump(guest, 0), 64 << 20)
        guest.close()
        erase("const warm: number = 1; warm")

    @property
    def digest(self) -> str:
        return self._images.digest.hex()

    def _boot_image(self, source: str) -> Boot:
        guest = Guest(self._machine(256), None, 64 << 20)
        boot = guest.boot(source)
        guest.close()
        return boot

    def _machine(self, depth: int) -> Machine:
        machine = self._machines.pop(depth, None)
        if machine is None:
            machine = Machine(self._module, depth)
            if len(self._machines) >= _MACHINES:
                del self._machines[next(iter(self._machines))]
        self._machines[depth] = machine
        return machine

    def handle(self, kind: int, payload: bytes) -> bytes:
        if kind == frames.OPEN:
            return self._open(*frames.split_head(payload))
        if kind == frames.CLOSE:
            self._drop()
            return frames.pack(frames.CLOSED)
        if kind == frames.CHECK:
            return self._check(*frames.split_head(payload))
        if kind == frames.JUDGE:
            return self._judge(*frames.split_head(payload))
        if kind == frames.DUMP:
            return self._dump()
        head, tail = frames.split_head(payload)
        return self._step(kind, head, tail.decode())

    def _drop(self) -> None:
        if self._session is not None:
            self._session.guest.close()
            self._session = None

    def _open(self, head: dict[str, Any], state: bytes) -> bytes:
        self._drop()
        session = Session(self._machine(head["depth"]), self._boot, head["memory_mb"], self._outbox)
        try:
            if head["restore"]:
                session.promise = self._images.load(session.guest, state, session.memory + _SLACK)
            else:
                session.guest.load(self._boot.live, self._boot.stack_pointer)
                session.guest.ask(SEED, json.dumps(head["seed"]))
        except (ImageRefused, GuestCrashed, Stop) as error:
            session.guest.close()
            return frames.pack(frames.REFUSED, str(error).encode())
        self._session = session
        return frames.pack(frames.OPENED)

    def _dump(self) -> bytes:
        if self._session is None:
            return frames.pack(frames.REFUSED, b"there is no session")
        image = self._images.dump(self._session.guest, self._session.promise)
        if len(image) > frames.LARGEST[frames.IMAGE]:
            return frames.pack(frames.REFUSED, b"the namespace is too large to be kept")
        return frames.pack(frames.IMAGE, image)

    def _check(self, head: dict[str, Any], code: bytes) -> bytes:
        """What is wrong with a program as such, and which of its calls depend on the session: those it must judge."""
        found, erased = _examine(code.decode("utf-8", "surrogatepass"))
        suspected: list[diagnosis.Diagnostic] = []
        if not found and erased is not None:
            suspected = diagnosis.suspects(erased, frozenset(head["names"]))
            found = self._compile(erased.code, diagnosis.remember(erased))
        return _checked(found, suspected)

    def _judge(self, head: dict[str, Any], _: bytes) -> bytes:
        if self._session is None:
            return _checked([], [])
        self._session.budget(head)
        found = self._session.guilty(head["suspects"], head["inputs"], secret=head["secret"], helpers=head["helpers"])
        return _checked(found, [])

    def _compile(self, code: str, meta: str) -> list[diagnosis.Diagnostic]:
        """Whether QuickJS takes the code, tried in a guest of its own that never gets to run it."""
        guest = Guest(self._machine(256), self._boot, 64 << 20)
        try:
            guest.load(self._boot.live, self._boot.stack_pointer)
            guest.ask(BEGIN, _beginning("null", [], "{}", "null", meta, False, 0))
            made = guest.evaluate("await new Promise(() => {});" + diagnosis.PREFIX + code)
            if isinstance(made, int):
                return []
            return [json.loads(placed(made, compiling=True))["error"]]
        except (Stop, GuestCrashed):
            return [{"code": "SYNTAX_ERROR", "message": "the cell is nested too deeply", "hint": "split it up"}]
        finally:
            guest.close()

    def _step(self, kind: int, head: dict[str, Any], tail: str) -> bytes:
        began = time.process_time()
        session = self._session
        self._outbox.dropped = 0
        peak = 0
        if session is None:
            report = b'{"stop":"ENGINE_CRASHED"}'
        else:
            try:
                session.budget(head)
                report = self._start(session, head, tail) if kind == frames.START else _resume(session, head, tail)
                peak = session.guest.memory_bytes
            except Stop as stop:
                report = json.dumps({"stop": stop.code}).encode()
            except GuestCrashed:
                # A guest that is short of memory may trap before it says so.
                short = session.guest.memory_bytes > session.memory // 2
                report = b'{"stop":"MEMORY_EXCEEDED"}' if short else b'{"stop":"ENGINE_CRASHED"}'
            if report.startswith((b'{"stop"', b'{"deadlock"')):
                peak = session.guest.memory_bytes
                self._drop()
        self._outbox.flush()
        spent = (time.process_time() - began) * 1000
        return frames.pack(frames.STEP, frames.STEP_HEAD.pack(spent, peak, self._outbox.dropped), report)

    def _start(self, session: Session, head: dict[str, Any], inputs: str) -> bytes:
        self._outbox.total = 0
        found, erased = _examine(head["code"])
        session.learn(head["catalog"])
        if not found and erased is not None:
            suspected = diagnosis.suspects(erased, session.names)
            found = session.guilty(suspected, head["inputs"], secret=bool(session.mark), helpers=session.helpers)
        if found or erased is None:
            return json.dumps({"rejected": found}).encode("utf-8", "replace")
        meta = diagnosis.remember(erased)
        bigs = json.dumps(head["bigs"])
        mentioned = diagnosis.mentioned(erased.code, session.names)
        begin = _beginning(session.news(), mentioned, inputs, bigs, meta, erased.has_value, head["calls"])
        if refused := session.guest.ask(BEGIN, begin):
            return placed(refused)
        made = session.guest.evaluate(diagnosis.PREFIX + erased.code)
        if isinstance(made, bytes):
            return placed(made, compiling=True)
        session.promise = made
        return session.step()


def _examine(code: str) -> tuple[list[diagnosis.Diagnostic], Erased | None]:
    if len(code) > _CODE_BYTES:
        message = f"the cell has more than {_CODE_BYTES} characters"
        return [{"code": "SYNTAX_ERROR", "message": message, "hint": "pass data as inputs, not as code"}], None
    erased = erase(code)
    return diagnosis.problems(erased), erased


def _checked(found: list[diagnosis.Diagnostic], suspected: list[diagnosis.Diagnostic]) -> bytes:
    told = {"found": found, "suspects": suspected}
    return frames.pack(frames.CHECKED, json.dumps(told).encode("utf-8", "replace"))


def _beginning(catalog: str, mentioned: list[str], inputs: str, bigs: str, meta: str, value: bool, calls: int) -> str:
    """What the guest is told before a cell runs. `inputs` is the host's own JSON, passed on unread."""
    flag, globals_, kept = "true" if value else "false", json.dumps(mentioned), json.dumps(meta)
    return (
        f'{{"catalog":{catalog},"mentioned":{globals_},"inputs":{inputs},"bigs":{bigs},'
        f'"meta":{kept},"value":{flag},"calls":{calls}}}'
    )


def _resume(session: Session, head: dict[str, Any], settled: str) -> bytes:
    if session.promise == 0:
        raise GuestCrashed("nothing is suspended")
    session.learn(head["catalog"])
    catalog, bigs = session.news(), json.dumps(head["bigs"])
    given = f'{{"settled":{settled},"bigs":{bigs},"catalog":{catalog},"calls":{head["calls"]}}}'
    if refused := session.guest.ask(SETTLE, given):
        return placed(refused)
    return session.step()


def main() -> None:
    outcome = enter_namespaces()
    line = Line(socket.socket(fileno=_SOCKET))
    worker: Worker | None = None
    while (asked := line.receive()) is not None:
        kind, payload = asked
        if worker is None:
            head, module = frames.split_head(payload)
            worker = Worker(line, module, head["boot"])
            report = seal(data_bytes=_DATA_BYTES, keep_fds=(0, 1, 2), namespaces_outcome=outcome)
            hello = {"layers": report.layers, "digest": worker.digest}
            line.send(frames.pack(frames.HELLO, json.dumps(hello).encode()))
        else:
            line.send(worker.handle(kind, payload))
    os._exit(0)
