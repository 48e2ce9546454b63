import pytest

from cloister.core.limits import SessionLimits
from cloister.engines.quickjs.engine import IMAGE, QuickJSEngine
from cloister.ports.engine import Finished

from .conftest import Driver

pytestmark = pytest.mark.anyio


async def test_boot_image_is_the_same_in_every_process() -> None:
    digests: set[str] = set()
    for _ in range(2):
        async with QuickJSEngine(capacity=2) as engine:
            opened = [await engine.open(SessionLimits()) for _ in range(2)]
            digests |= {interpreter.worker.hello["digest"] for interpreter in opened}
    # When the boot source changes, so does this: older dumps cannot be read any more, and the version says so.
    assert {digest[:12] for digest in digests} == {IMAGE}
    assert IMAGE in QuickJSEngine.version


async def test_worker_is_confined_by_every_layer_that_it_reports(engine: QuickJSEngine, session: Driver) -> None:
    assert set(engine.confinement()) == {"rlimits", "no_new_privs", "landlock", "seccomp", "namespaces"}


async def test_host_functions_are_out_of_reach(session: Driver) -> None:
    code = "Object.getOwnPropertyNames(globalThis).filter(name => /send|over|host|qjs|boot/i.test(name))"
    step = await session.run(code)
    assert isinstance(step, Finished)
    assert step.value == []


@pytest.mark.parametrize(
    "code",
    [
        "Error.prepareStackTrace = () => 1",
        "Object.defineProperty(Error, 'prepareStackTrace', {value: () => 1})",
        "delete Error.prepareStackTrace",
        "Error.stackTraceLimit = 0",
        "tools.extra = 1",
        "tools.get_order.x = 1",
        "shop.buy = null",
    ],
)
async def test_what_we_rely_on_cannot_be_replaced(session: Driver, code: str) -> None:
    step = await session.run(f"let outcome = 'changed'; try {{ {code} }} catch (e) {{ outcome = e.name }}; outcome")
    assert isinstance(step, Finished)
    assert step.value == "TypeError"


async def test_time_stands_still_within_a_step_and_is_the_hosts(session: Driver) -> None:
    code = """
        const first = Date.now()
        for (let i = 0; i < 1e5; i++) {}
        ;[first, Date.now(), performance.now(), new Date().getTimezoneOffset()]"""
    step = await session.run(code)
    assert isinstance(step, Finished)
    assert step.value == [session.now_ms, session.now_ms, session.now_ms, 0]


@pytest.mark.parametrize("name", ["crypto", "process", "fetch", "require", "setInterval", "WebAssembly", "std", "os"])
async def test_what_programs_must_not_have_is_absent(session: Driver, name: str) -> None:
    step = await session.run(f"typeof {name}")
    assert isinstance(step, Finished)
    assert step.value == "undefined"


async def test_cells_share_what_they_declare_and_may_declare_it_again(session: Driver) -> None:
    await session.run("let a = 1; const b = 2; class C { n = 3 }; function f() { return a } ; enum E { X = 4 }")
    await session.run("let a = 10; const b = 20; class C { n = 30 }; function f() { return -a }")
    step = await session.run("[a, b, new C().n, f(), E.X]")
    assert isinstance(step, Finished)
    assert step.value == [10, 20, 30, -10, 4]


async def test_failed_cell_keeps_what_it_had_assigned(session: Driver) -> None:
    await session.run("let kept = 1; kept = 2; null.x; kept = 3")
    step = await session.run("kept")
    assert isinstance(step, Finished)
    assert step.value == 2


@pytest.mark.parametrize(
    ("code", "value"), [("5", 5), ("let x = 5", None), ("if (true) { 5 }", None), ("", None), ("'a';", "a")]
)
async def test_value_of_a_cell_is_that_of_its_last_expression(session: Driver, code: str, value: object) -> None:
    step = await session.run(code)
    assert isinstance(step, Finished)
    assert step.value == value
