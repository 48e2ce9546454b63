"""`cloister demo`: what a program in a cloister can do, shown on real ones in both languages."""

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from cloister.app import Cloister
from cloister.cli.demo.asking import ask_a_person
from cloister.cli.demo.asleep import Woken, sleep_and_wake
from cloister.cli.demo.cells import look_away
from cloister.cli.demo.killed import kill_the_host
from cloister.cli.demo.programs import MISTAKEN, TOGETHER
from cloister.cli.demo.served import kill_the_server
from cloister.cli.demo.shop import CALL_MS, Shop
from cloister.cli.demo.stage import TITLES, Stage, duration, size
from cloister.cli.exits import FAILED, OK
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.source import Source
from cloister.core.language import Language

_WARM_RUNS = 50


def demo() -> int:
    """A short tour: calls at once, an error caught before any effect, programs that sleep, wait and yield."""
    began = time.monotonic()
    stage = Stage()
    finished = run_interruptibly(_tour(stage))
    stage.line(f"The tour took {time.monotonic() - began:.1f} s. See `cloister run --help` for your own programs.")
    return OK if finished else FAILED


async def _tour(stage: Stage) -> bool:
    """Whether every act went as it should."""
    went_well = [await _together(stage), await _mistaken(stage)]
    stage.heading("3. A program sleeps in the middle of a call, and its worker is killed")
    woken: dict[Language, Woken] = {}
    with tempfile.TemporaryDirectory(prefix="cloister-demo-") as scratch:
        for language in Language:
            woken[language] = await sleep_and_wake(stage, language, Path(scratch))
        went_well += [act.finished for act in woken.values()]
        stage.heading("4. A person is asked, and the program sleeps until the answer")
        went_well.append(await ask_a_person(stage))
        stage.heading("5. The whole host is killed meanwhile; nothing is lost, nothing done twice")
        went_well += [await kill_the_host(stage, language, Path(scratch)) for language in Language]
    stage.heading("6. A cell goes on while nobody looks")
    went_well.append(await look_away(stage))
    await _figures(stage, woken)
    stage.heading("8. A model at a server, which is killed while a person is asked")
    with tempfile.TemporaryDirectory(prefix="cloister-demo-") as scratch:
        went_well.append(await kill_the_server(stage, Path(scratch)))
    return all(went_well)


async def _together(stage: Stage) -> bool:
    stage.heading("1. One program, many calls at once")
    went_well = True
    async with Cloister(tools=Shop().tools()) as cloister:
        for language, code in TOGETHER.items():
            session = await cloister.open_session(language.value, language=language)
            stage.program(source := Source("cell", code, language))
            # The first cell of a session waits for its worker; the tour is about the calls.
            await session.run("1 + 1")
            result = await session.run(code)
            calls = len(result.external_calls)
            stage.line(f"-> {json.dumps(result.result)}")
            stage.line(f"   {calls} calls of {CALL_MS} ms each, {result.metrics.duration_ms:.0f} ms in all")
            stage.findings(result, source)
            went_well = went_well and result.ok and calls == 5
    return went_well


async def _mistaken(stage: Stage) -> bool:
    stage.heading("2. A mistake is found before anything happens")
    went_well = True
    for language, code in MISTAKEN.items():
        shop = Shop()
        async with Cloister(tools=shop.tools(), type_check="strict") as cloister:
            session = await cloister.open_session(language=language)
            stage.program(source := Source("cell", code, language))
            result = await session.run(code)
            stage.findings(result, source)
            stage.line(f"   calls made: get_price {shop.calls['get_price']}, refund {shop.calls['refund']}")
            went_well = went_well and not result.ok and not shop.calls
    return went_well


async def _figures(stage: Stage, woken: dict[Language, Woken]) -> None:
    stage.heading("7. What it costs")
    rows: list[tuple[str, ...]] = []
    async with Cloister() as cloister:
        for language, act in woken.items():
            session = await cloister.open_session(language.value, language=language)
            await session.run("1 + 1")
            warm: list[float] = []
            for _ in range(_WARM_RUNS):
                warm.append((await session.run("1 + 1")).metrics.duration_ms)
                await asyncio.sleep(0)
            name = TITLES[language]
            rows += [
                (f"{name}: a program asleep in mid-call", size(act.snapshot_bytes), duration(act.snapshot_ms)),
                (f"{name}: wake it elsewhere and finish", "", duration(act.wake_ms)),
                (f"{name}: 1 + 1, warm", "", duration(statistics.median(warm))),
            ]
    stage.table(("what", "size", "time"), rows)
