"""Both ways into an instance: through wasmtime's bindings, and through its public `Func` where those are different."""

from typing import Any

import pytest
import wasmtime

from cloister.engines.quickjs.exports import bind

MODULE = """(module
  (import "env" "host" (func $host))
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "call")  (call $host))
  (func (export "deep") (call 3))
  (func (export "trap") unreachable))"""


class Ours(BaseException):
    pass


def instance() -> tuple[wasmtime.Store, Any]:
    engine = wasmtime.Engine()
    linker = wasmtime.Linker(engine)

    def host() -> None:
        raise Ours

    linker.define_func("env", "host", wasmtime.FuncType([], []), host)
    store = wasmtime.Store(engine)
    return store, linker.instantiate(store, wasmtime.Module(engine, MODULE)).exports(store)


@pytest.mark.parametrize("slow", [False, True])
def test_call_gives_what_the_function_gives(slow: bool) -> None:
    store, exports = instance()
    add = bind(store, exports["add"], None) if slow else bind(store, exports["add"])
    assert [add(1, 2), add(-5, 3), add(2**31 - 1, 1)] == [3, -2, -(2**31)]


@pytest.mark.parametrize("slow", [False, True])
def test_trap_and_exception_of_a_host_function_come_out_as_they_are(slow: bool) -> None:
    store, exports = instance()
    bound = {
        name: bind(store, exports[name], None) if slow else bind(store, exports[name])
        for name in ("call", "deep", "trap")
    }
    with pytest.raises(Ours):
        bound["call"]()
    with pytest.raises(wasmtime.Trap) as trapped:
        bound["trap"]()
    assert trapped.value.trap_code == wasmtime.TrapCode.UNREACHABLE
    with pytest.raises(wasmtime.Trap) as overflowed:
        bound["deep"]()
    assert overflowed.value.trap_code == wasmtime.TrapCode.STACK_OVERFLOW


def test_fast_way_is_the_one_in_use() -> None:
    store, exports = instance()
    assert bind(store, exports["add"]).__name__ == "call"
