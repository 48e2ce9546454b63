import pytest

from cloister.core.errors import SnapshotCorrupt
from cloister.core.limits import SessionLimits
from cloister.engines.quickjs.engine import QuickJSEngine
from cloister.ports.engine import Failed, Finished, Returned, Suspended

from .conftest import Opener

pytestmark = pytest.mark.anyio

PROGRAM = """
interface Order { id: string; total: number }
const rates = new Map([['EUR', 1.1]])
async function total(ids: string[]): Promise<number> {
  const orders: Order[] = await Promise.all(ids.map(id => get_order({id})))
  return orders.reduce((sum, order) => sum + order.total * rates.get('EUR')!, 0)
}
const sum = await total(['A', 'B', 'C'])
Math.round(sum)
"""


async def test_suspended_program_goes_on_in_another_process(open_session: Opener) -> None:
    first = await open_session()
    assert isinstance(await first.run(PROGRAM), Suspended)
    assert isinstance(await first.settle(Returned(2, {"id": "B", "total": 10})), Suspended)
    image = await first.interpreter.dump()
    async with QuickJSEngine(capacity=1) as other:
        second = await Opener(other)(state=image)
        step = await second.settle(Returned(1, {"id": "A", "total": 10}), Returned(3, {"id": "C", "total": 10}))
        assert isinstance(step, Finished)
        assert step.value == 33
        step = await second.run("rates.get('EUR')")
        assert isinstance(step, Finished)
        assert step.value == 1.1


async def test_interpreter_goes_on_after_its_dump(open_session: Opener) -> None:
    session = await open_session()
    await session.run(PROGRAM)
    assert await session.interpreter.dump() == await session.interpreter.dump()
    answers = [Returned(number, {"total": 1}) for number in (1, 2, 3)]
    assert isinstance(await session.settle(*answers), Finished)


async def test_small_suspended_program_is_small(open_session: Opener) -> None:
    session = await open_session()
    await session.run(PROGRAM)
    assert len(await session.interpreter.dump()) < 16 << 10


async def test_same_steps_give_the_same_bytes_in_any_process(open_session: Opener) -> None:
    async def live(opener: Opener) -> bytes:
        session = await opener(seed=7)
        await session.run("const rolls = [Math.random(), Date.now()]; console.log(rolls)")
        await session.run(PROGRAM)
        return await session.interpreter.dump()

    here = await live(open_session)
    async with QuickJSEngine(capacity=1) as other:
        assert await live(Opener(other)) == here


async def test_chance_goes_on_where_it_was(open_session: Opener) -> None:
    whole, first = await open_session(seed=42), await open_session(seed=42)
    assert isinstance(expected := await whole.run("[Math.random(), Math.random()]"), Finished)
    assert isinstance(head := await first.run("Math.random()"), Finished)
    second = await open_session(state=await first.interpreter.dump())
    assert isinstance(tail := await second.run("Math.random()"), Finished)
    assert [head.value, tail.value] == expected.value


async def test_seeds_differ_in_all_their_bits(open_session: Opener) -> None:
    seen: list[object] = []
    for seed in (0, 1, 1 << 40, -1):
        session = await open_session(seed=seed)
        step = await session.run("const roll = Math.random(); [roll >= 0 && roll < 1, roll]")
        assert isinstance(step, Finished)
        assert isinstance(step.value, list)
        assert step.value[0] is True
        seen.append(step.value[1])
        await session.interpreter.close()
    assert len(set(seen)) == 4


async def test_damaged_bytes_are_refused(open_session: Opener) -> None:
    session = await open_session()
    await session.run("const kept = 'x'.repeat(1000)")
    image = await session.interpreter.dump()
    await session.interpreter.close()
    damaged = [b"x", image[:20], image[:-1], image + b"x", b"XXXX" + image[4:], image[:4] + b"\0" * 16 + image[20:]]
    for at in range(24, len(image), max(1, len(image) // 40)):
        damaged.append(image[:at] + bytes([image[at] ^ 0x10]) + image[at + 1 :])
    for state in damaged:
        try:
            other = await open_session(state=state)
        except SnapshotCorrupt:
            continue
        # Bits of the promise's handle are not covered: the program is at rest and nobody looks at it.
        step = await other.run("kept.length")
        assert isinstance(step, (Finished, Failed))
        await other.interpreter.close()


async def test_bomb_is_not_decompressed(open_session: Opener) -> None:
    session = await open_session(SessionLimits(memory_mb=128))
    session.cpu_ms = 20_000
    await session.run("const zeros = new Uint8Array(100 << 20)")
    image = await session.interpreter.dump()
    assert len(image) < 64 << 10
    with pytest.raises(SnapshotCorrupt, match="memory_mb"):
        await open_session(SessionLimits(memory_mb=16), image)
    assert isinstance(await (await open_session(SessionLimits(memory_mb=128), image)).run("zeros.length"), Finished)


async def test_resuming_what_is_not_suspended_is_a_crash_not_a_hang(open_session: Opener) -> None:
    session = await open_session()
    step = await session.settle(Returned(1, None))
    assert isinstance(step, Failed)
    assert step.fatal
