"""Calls into a WebAssembly instance, without the price of asking for a function's type each time. Runs in the worker.

wasmtime's `Func` converts arguments by type, which takes 20 µs a call; a step makes twenty. All exports that we
use take and return 32-bit integers, so its generated bindings can be called straight, in 2 µs. Those are not
wasmtime's public API: where they look different, `Func` itself is used and everything works, only slower.
"""

import ctypes
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import wasmtime

Export = Callable[..., int]


class _Bindings(NamedTuple):
    cell: Any
    call: Any
    trap: Any
    raise_ours: Any


def _bindings() -> _Bindings | None:
    try:
        generated: Any = importlib.import_module("wasmtime._bindings")
        functions: Any = importlib.import_module("wasmtime._func")
        return _Bindings(
            generated.wasmtime_val_raw_t,
            generated.wasmtime_func_call_unchecked,
            ctypes.POINTER(generated.wasm_trap_t),
            functions.maybe_raise_last_exn,
        )
    except (ImportError, AttributeError):
        return None


_FAST = _bindings()


def bind(store: wasmtime.Store, function: Any, fast: _Bindings | None = _FAST) -> Export:
    """`function` as a plain callable of integers. It must not be entered again before it has returned."""
    inside, inner = getattr(store, "_context", None), getattr(function, "_func", None)
    if fast is None or inside is None or inner is None:
        return lambda *given: function(store, *given)
    kind = function.type(store)
    size = max(len(kind.params), len(kind.results), 1)
    cells: Any = (fast.cell * size)()
    context, target = inside(), ctypes.byref(inner)
    enter, new_trap, reference = fast.call, fast.trap, ctypes.byref

    def call(*given: int) -> int:
        for index, value in enumerate(given):
            cells[index].i32 = value
        trap = new_trap()
        error = enter(context, target, cells, size, reference(trap))
        if error or trap:
            # An exception of our own host functions comes first: the trap is only how it got here.
            made: Any = wasmtime.Trap if trap else wasmtime.WasmtimeError
            failure = made._from_ptr(trap if trap else error)
            fast.raise_ours()
            raise failure
        return cells[0].i32

    return call
