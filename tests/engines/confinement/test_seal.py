import signal
import subprocess

import pytest

from cloister.engines.confinement import probe
from tests.engines.confinement.child import command, on_linux, run

pytestmark = [
    on_linux,
    pytest.mark.skipif(not probe(foreign=None)["own"].complete, reason="a layer is missing on this machine"),
]

SEAL = """
import os, socket, time
from cloister.engines.confinement import enter_namespaces, seal
"""

WASM = """
(module
  (memory (export "memory") 1)
  (data (i32.const 0) "hello")
  (func $deeper (export "deeper") (param i32) (result i32)
    (i32.add (i32.const 1) (call $deeper (local.get 0))))
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
  (func (export "outside") (result i32) (i32.load (i32.const 100000000))))
"""


def test_every_layer_is_active() -> None:
    assert run(SEAL + "print(seal(data_bytes=1 << 30, namespaces_outcome=enter_namespaces()).missing)") == "[]"


def test_namespaces_are_entered_late_when_nobody_did_early() -> None:
    assert run(SEAL + "print(seal(data_bytes=1 << 30).missing)") == "[]"


def test_outcome_of_the_early_step_is_what_is_reported() -> None:
    out = run(SEAL + "print(seal(data_bytes=1 << 30, namespaces_outcome='unavailable: no').missing)")
    assert out == "['namespaces']"


def test_kernel_agrees_that_the_process_is_sealed() -> None:
    out = run(
        SEAL + "status = os.open('/proc/self/status', os.O_RDONLY)\n"
        "seal(data_bytes=1 << 30, keep_fds=(0, 1, 2, status))\n"
        "print(*[line for line in os.read(status, 9999).decode().splitlines() if line[:5] in ('NoNew', 'Secco')])"
    )
    assert "NoNewPrivs:\t1" in out
    assert "Seccomp:\t2" in out


def test_open_pipes_and_sockets_go_on_working() -> None:
    out = run(
        SEAL + "here, there = socket.socketpair()\n"
        "seal(data_bytes=1 << 30, keep_fds=(0, 1, 2, here.fileno(), there.fileno()))\n"
        "here.setblocking(False); here.setblocking(True); here.sendall(b'frame'); print(there.recv(9))"
    )
    assert out == "b'frame'"


def test_time_and_randomness_go_on_working() -> None:
    out = run(SEAL + "seal(data_bytes=1 << 30); time.sleep(0.001); print(len(os.urandom(8)), time.time() > 0)")
    assert out == "8 True"


def test_process_with_a_second_thread_does_not_claim_landlock() -> None:
    out = run(
        SEAL + "import threading\nend = threading.Event(); threading.Thread(target=end.wait).start()\n"
        "print(seal(data_bytes=1 << 30).layers['landlock']); end.set()"
    )
    assert out == "unavailable: the process has 2 threads by now; seal it before any is started"


def test_abort_still_ends_the_process() -> None:
    child = subprocess.run(command(SEAL + "seal(data_bytes=1 << 30)\nos.abort()"), stderr=subprocess.DEVNULL)
    assert child.returncode == -signal.SIGABRT


def test_wasmtime_loads_runs_and_traps_behind_the_seal() -> None:
    pytest.importorskip("wasmtime")
    out = run(
        SEAL + "entered = enter_namespaces()\nimport wasmtime\nengine = wasmtime.Engine()\n"
        # Compiled in a process of its own in real life: the compiler starts threads.
        f"import subprocess\nimage = subprocess.run([sys.executable, '-c', 'import sys, wasmtime;"
        f" sys.stdout.buffer.write(bytes(wasmtime.Module(wasmtime.Engine(), sys.argv[1]).serialize()))', {WASM!r}],"
        " capture_output=True, check=True).stdout\n"
        "report = seal(data_bytes=512 << 20, namespaces_outcome=entered)\n"
        "module = wasmtime.Module.deserialize(engine, image)\n"
        "store = wasmtime.Store(engine)\n"
        "names = wasmtime.Instance(store, module, []).exports(store)\n"
        "print(report.complete, names['add'](store, 1, 2), bytes(names['memory'].read(store, 0, 5)))\n"
        "for name, arguments in (('deeper', (0,)), ('outside', ())):\n"
        "    try: names[name](store, *arguments)\n"
        "    except wasmtime.Trap as trap: print(name, trap.trap_code.name)\n"
        "print(names['grow'](store, 1000), names['add'](store, 3, 4))\n"
        "print(names['grow'](store, 16000), names['add'](store, 5, 6))"
    )
    assert out.splitlines() == [
        "True 3 b'hello'",
        "deeper STACK_OVERFLOW",
        "outside MEMORY_OUT_OF_BOUNDS",
        "1 7",
        "-1 11",  # past RLIMIT_DATA the guest is told, and lives on
    ]
