"""QuickJS in its WebAssembly box, driven by the exports of quickjs-rs's guest module. Runs in the worker.

A `Machine` is the compiled module with a stack of a given size; a `Guest` is one instance of it, one session's
namespace. The guest gets no WASI: its clock is the step's, its chance is fixed, and it has no files, no
environment and no exit. What it can reach of us are four functions: one prints some text, one asks
the host something, two end the program.

Invariant: between two steps everything a session is lies in linear memory and the stack pointer.
"""

import ctypes
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import wasmtime

from cloister.engines.quickjs.exports import Export, bind

_PAGE = 65536
_SCRATCH = 32768
_OUT = 64
_OK, _JS_ERROR = 0, 1

# Of the native stack, measured: what a simple JavaScript call takes, and what lies below the first one.
_FRAME_BYTES = 864
_BASE_BYTES = 4900
# wasmtime gives no stack beyond 2 MiB.
_DEEPEST = 2400

SEED, BEGIN, SETTLE, WAITING, FINISHED, FAILED, STANDING = range(7)

# What the guest says of itself, and the limit that is hit then.
_STOPS = {"overflow": "MEMORY_EXCEEDED", "overspend": "EXTERNAL_CALLS_EXCEEDED"}

_I32, _I64 = wasmtime.ValType.i32, wasmtime.ValType.i64
_BADF = 8


class Stop(BaseException):
    """A limit was hit. Raised through the guest's frames as a trap, so that no program can catch it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class GuestCrashed(Exception):
    """The instance broke in a way that is no limit; nothing in it can be trusted."""


class Boot(NamedTuple):
    """The image every session starts from, and where its parts are."""

    # Linear memory from the stack pointer up: at rest, nothing lives below it.
    live: bytes
    stack_pointer: int
    scratch: int
    functions: tuple[int, ...]
    undefined: int


class Budget:
    """What one step may use, and what time it is in there."""

    __slots__ = ("cpu_ends", "memory", "now_ns", "wall_ends")

    def __init__(self, now_ms: float, cpu_ms: float, wall_ms: float, memory: int) -> None:
        self.now_ns = int(now_ms * 1_000_000)
        self.cpu_ends = time.process_time() + cpu_ms / 1000
        self.wall_ends = time.monotonic() + wall_ms / 1000
        self.memory = memory


def configuration(depth: int) -> wasmtime.Config:
    """How the module is compiled and run; only the stack may differ between the two."""
    config = wasmtime.Config()
    config.max_wasm_stack = _BASE_BYTES + _FRAME_BYTES * min(depth, _DEEPEST)
    # The bits of a NaN would otherwise depend on the processor, and a program can look at them.
    config.cranelift_nan_canonicalization = True
    # Fresh memory is overwritten with the boot image anyway, and a sealed worker keeps no descriptor for a copy of it.
    config.memory_init_cow = False
    return config


class Machine:
    """The module, ready to be instantiated, with a stack for `depth` nested calls."""

    def __init__(self, serialized: bytes, depth: int) -> None:
        self.engine = wasmtime.Engine(configuration(depth))
        self.module = wasmtime.Module.deserialize(self.engine, serialized)
        # Host functions are shared by all instances; the one that runs is the one they serve.
        self.active: Guest | None = None
        self.linker = wasmtime.Linker(self.engine)
        self._define()

    def _define(self) -> None:
        def guest() -> "Guest":
            assert self.active is not None
            return self.active

        def call(name: int, name_size: int, this: int, count: int, given: int) -> int:
            return guest().on_call(name, name_size, this, count, given)

        def clock(_which: int, _precision: int, out: int) -> int:
            guest().write(struct.pack("<Q", guest().budget.now_ns), out)
            return 0

        def random(out: int, size: int) -> int:
            guest().write(bytes(size), out)
            return 0

        def no_environment(count: int, size: int) -> int:
            guest().write(bytes(4), count)
            guest().write(bytes(4), size)
            return 0

        def leave(_status: int) -> None:
            raise GuestCrashed("the guest tried to exit")

        def refuse(*_: int) -> int:
            return _BADF

        def nothing(*_: int) -> int:
            return 0

        wasi = "wasi_snapshot_preview1"
        i32, i64 = _I32(), _I64()
        imports: list[tuple[str, str, list[wasmtime.ValType], list[wasmtime.ValType], Callable[..., Any]]] = [
            ("env", "host_call", [i32] * 5, [i32], call),
            ("env", "host_interrupt", [], [i32], lambda: guest().on_poll()),
            ("env", "host_module_normalize", [i32] * 5, [i32], nothing),
            ("env", "host_module_load", [i32] * 3, [i32], nothing),
            (wasi, "clock_time_get", [i32, i64, i32], [i32], clock),
            (wasi, "random_get", [i32, i32], [i32], random),
            (wasi, "environ_get", [i32, i32], [i32], nothing),
            (wasi, "environ_sizes_get", [i32, i32], [i32], no_environment),
            (wasi, "fd_close", [i32], [i32], refuse),
            (wasi, "fd_fdstat_get", [i32, i32], [i32], refuse),
            (wasi, "fd_seek", [i32, i64, i32, i32], [i32], refuse),
            (wasi, "fd_write", [i32] * 4, [i32], refuse),
            (wasi, "proc_exit", [i32], [], leave),
        ]
        for module, name, parameters, results, function in imports:
            self.linker.define_func(module, name, wasmtime.FuncType(parameters, results), function)


class Guest:
    """One instance. `on_output(stream, text)` hears what the program prints on b"o" or b"e", `on_idle()` every poll."""

    def __init__(self, machine: Machine, boot: Boot | None, memory_bytes: int) -> None:
        self._machine = machine
        self._store = wasmtime.Store(machine.engine)
        self._store.set_limits(memory_size=memory_bytes)
        self._most = memory_bytes
        # Something large is being handed in: if that traps, it was for want of memory.
        self._large = False
        machine.active = self
        instance = machine.linker.instantiate(self._store, machine.module)
        exports = instance.exports(self._store)
        self._memory: Any = exports["memory"]
        self._stack: Any = exports["__stack_pointer"]
        self._exports: Any = exports
        self._functions: dict[str, Export] = {}
        self.budget = Budget(0, 1e9, 1e9, memory_bytes)
        self.on_output: Callable[[bytes, bytes], None] = lambda _stream, _text: None
        self.on_idle: Callable[[], None] = lambda: None
        self.on_consult: Callable[[bytes], bytes] = _nobody
        if boot is not None:
            self._boot = boot

    def close(self) -> None:
        if self._machine.active is self:
            self._machine.active = None
        self._store.close()

    # -- memory ------------------------------------------------------------------------------------------------

    @property
    def memory_bytes(self) -> int:
        return self._memory.data_len(self._store)

    def write(self, data: bytes, at: int) -> None:
        self._memory.write(self._store, data, at)

    def read(self, at: int, size: int) -> bytes:
        at &= 0xFFFFFFFF
        if size < 0 or at + size > self.memory_bytes:
            raise GuestCrashed("the guest points outside its memory")
        return bytes(self._memory.read(self._store, at, at + size)) if size else b""

    def load(self, live: bytes, stack_pointer: int) -> None:
        """Become the instance that `live` was saved from. Must come first: below the stack all is zero still."""
        missing = stack_pointer + len(live) - self.memory_bytes
        if missing > 0:
            self._memory.grow(self._store, -(-missing // _PAGE))
        target = self._memory.get_buffer_ptr(self._store, len(live), stack_pointer)
        ctypes.memmove(target, live, len(live))
        self._stack.set_value(self._store, stack_pointer)

    def save(self) -> tuple[bytes, int]:
        """Linear memory from the stack pointer up, and that pointer."""
        pointer = int(self._stack.value(self._store))
        # What was handed in is no part of the guest's state, and would only make images larger and less alike.
        self.write(bytes(_SCRATCH), self._boot.scratch)
        return bytes(self._memory.read(self._store, pointer, None)), pointer

    # -- boot --------------------------------------------------------------------------------------------------

    def boot(self, source: str) -> Boot:
        """Evaluate the boot source in this fresh instance and take its image."""
        self._boot = Boot(b"", 0, self._call("qjs_alloc", _SCRATCH), (), 0)
        self.write(bytes(_SCRATCH), self._boot.scratch)
        undefined = self._call("new_undefined")
        # Through the guest's own eval, whose frames carry another file name than a cell's.
        evaluate = self._expect(self._evaluate("eval_code", "eval"))
        made = self._expect(self._apply(evaluate, undefined, [self._new_text(source.encode())]))
        given = [self._host_function(name) for name in ("send", *_STOPS, "consult")]
        api = self._expect(self._apply(made, undefined, given))
        functions: list[int] = []
        for index in range(STANDING + 1):
            self._call("get_index", api, index, self._out)
            functions.append(self._read_i32(self._out))
        self._boot = Boot(b"", 0, self._boot.scratch, tuple(functions), undefined)
        self._call("run_gc")
        live, pointer = self.save()
        self._boot = Boot(live, pointer, self._boot.scratch, tuple(functions), undefined)
        return self._boot

    def _host_function(self, name: str) -> int:
        data = name.encode()
        self.write(data, self._boot.scratch + _OUT)
        return self._call("new_function", self._boot.scratch + _OUT, len(data))

    def _expect(self, made: "int | Thrown") -> int:
        if not isinstance(made, Thrown):
            return made
        name = b"message"
        self.write(name, self._boot.scratch + _OUT)
        self._call("get_prop", made.handle, self._boot.scratch + _OUT, len(name), self._out)
        raise GuestCrashed(f"the boot source failed: {self._text(self._read_i32(self._out)).decode()}")

    # -- the protocol -------------------------------------------------------------------------------------------

    def ask(self, which: int, given: str) -> bytes:
        """Call one of the boot functions with a text; its answer is a text."""
        argument = self._new_text(given.encode("utf-8", "replace"))
        answer = self._answer(which, argument)
        self._call("free_value", argument)
        return answer

    def evaluate(self, code: str) -> "int | bytes":
        """Start a cell. The handle of its promise, or the report of why it does not compile."""
        made = self._evaluate("eval_async", code)
        if isinstance(made, Thrown):
            return self._answer(FAILED, made.handle)
        return made

    def drain(self) -> None:
        """Run jobs until none is left."""
        while self._call("execute_pending_jobs") > 0:
            pass

    def report(self, promise: int) -> tuple[bytes, bool]:
        """How the cell behind `promise` stands, and whether it has ended; then the promise is gone."""
        self._call("promise_state", promise, self._out)
        state = self._read_i32(self._out)
        if state == 0:
            answer = self._answer(WAITING, self._boot.undefined)
            over = not answer.startswith(b'{"wait"')
            if over:
                # It left, or failed outside of what it awaits: nothing will ever settle this.
                self._call("free_value", promise)
            return answer, over
        self._call("promise_result", promise, self._out)
        result = self._read_i32(self._out)
        answer = self._answer(FINISHED if state == 1 else FAILED, result)
        self._call("free_value", result)
        self._call("free_value", promise)
        return answer, True

    # -- what the guest calls -----------------------------------------------------------------------------------

    def on_call(self, name: int, name_size: int, _this: int, count: int, given: int) -> int:
        asked = self.read(name, name_size).decode("utf-8", "replace")
        if asked in _STOPS:
            raise Stop(_STOPS[asked])
        if asked not in ("send", "consult") or count != 1:
            raise GuestCrashed("an unknown host call")
        text = self._text(self._read_i32(given))
        if asked == "consult":
            # Apart: the scratch space may hold what the call under way was given.
            return self._new_text(self.on_consult(text), apart=True)
        self.on_output(text[:1], text[1:])
        return self._call("new_undefined")

    def on_poll(self) -> int:
        budget = self.budget
        if time.process_time() > budget.cpu_ends:
            raise Stop("TIMEOUT_CPU")
        if time.monotonic() > budget.wall_ends:
            raise Stop("TIMEOUT_WALL")
        if self.memory_bytes > budget.memory:
            raise Stop("MEMORY_EXCEEDED")
        self.on_idle()
        return 0

    # -- exports -----------------------------------------------------------------------------------------------

    @property
    def _out(self) -> int:
        return self._boot.scratch

    def _call(self, name: str, *given: int) -> int:
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = bind(self._store, self._exports[name])
        self._machine.active = self
        try:
            return function(*given)
        except wasmtime.Trap as trap:
            if trap.trap_code == wasmtime.TrapCode.STACK_OVERFLOW:
                raise Stop("STACK_OVERFLOW") from None
            if trap.trap_code == wasmtime.TrapCode.MEMORY_OUT_OF_BOUNDS:
                # The shadow stack lies at the bottom of memory: below it there is nothing.
                raise Stop("STACK_OVERFLOW") from None
            if self.memory_bytes > self._most // 2 or self._large:
                # Rust's own allocator gives up with a trap where QuickJS would have thrown.
                raise Stop("MEMORY_EXCEEDED") from None
            raise GuestCrashed(f"the guest trapped: {trap.trap_code}") from None
        except wasmtime.WasmtimeError as error:
            raise GuestCrashed(str(error)) from None

    def _read_i32(self, at: int) -> int:
        return struct.unpack("<i", self.read(at, 4))[0]

    def _place(self, data: bytes, *, apart: bool = False) -> tuple[int, bool]:
        """Put bytes where the guest can read them; True if that place must be freed."""
        if len(data) <= _SCRATCH - _OUT and not apart:
            at = self._boot.scratch + _OUT
            self.write(data, at)
            return at, False
        self._large = len(data) > _PAGE
        at = self._call("qjs_alloc", len(data))
        if at == 0:
            raise Stop("MEMORY_EXCEEDED")
        self.write(data, at & 0xFFFFFFFF)
        return at, True

    def _new_text(self, data: bytes, *, apart: bool = False) -> int:
        at, owned = self._place(data, apart=apart)
        handle = self._call("new_string", at, len(data))
        if owned:
            self._call("qjs_free", at, len(data))
        self._large = False
        if handle == 0:
            raise Stop("MEMORY_EXCEEDED")
        return handle

    def _text(self, handle: int) -> bytes:
        if self._call("get_string", handle) != _OK:
            raise GuestCrashed("the guest's answer is not text")
        size = self._call("qjs_last_len")
        data = self.read(self._call("qjs_last_ptr"), size)
        self._call("qjs_result_free")
        return data

    def _evaluate(self, export: str, code: str) -> "int | Thrown":
        data = code.encode()
        at, owned = self._place(data)
        self._large = False
        status = self._call(export, at, len(data), self._out)
        result = self._read_i32(self._out)
        if owned:
            self._call("qjs_free", at, len(data))
        return self._result(status, result)

    def _apply(self, function: int, this: int, given: list[int]) -> "int | Thrown":
        arguments = self._boot.scratch + 16
        self.write(struct.pack(f"<{len(given)}i", *given), arguments)
        status = self._call("call_function", function, this, arguments, len(given), self._out)
        return self._result(status, self._read_i32(self._out))

    def _result(self, status: int, result: int) -> "int | Thrown":
        if status == _OK:
            return result
        if status != _JS_ERROR or self._call("last_exception", self._out) != _OK:
            raise GuestCrashed(f"the guest answered with status {status}")
        return Thrown(self._read_i32(self._out))

    def _answer(self, which: int, argument: int) -> bytes:
        made = self._apply(self._boot.functions[which], self._boot.undefined, [argument])
        if isinstance(made, Thrown):
            if which == FAILED:
                raise GuestCrashed("the guest cannot say what went wrong")
            return self._answer(FAILED, made.handle)
        text = self._text(made)
        self._call("free_value", made)
        return text


def _nobody(_asked: bytes) -> bytes:
    raise GuestCrashed("nobody is there to be asked")


class Thrown(NamedTuple):
    """The handle of something that JavaScript threw."""

    handle: int
