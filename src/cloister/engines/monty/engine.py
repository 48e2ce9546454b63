"""The Python engine: a pool of confined Monty workers, and one of them to check programs with."""

import asyncio
import importlib.metadata
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic_monty as monty

from cloister.core.errors import ConfinementUnavailable, EngineUnavailable, InvalidLimits
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.engines.confinement import discard_launcher, probe, write_launcher
from cloister.engines.monty.checker import Checker
from cloister.engines.monty.features import UNSUPPORTED
from cloister.engines.monty.interpreter import MontyInterpreter
from cloister.engines.monty.lane import Lane
from cloister.engines.monty.scratch import scratch
from cloister.engines.monty.seat import Cabin, Desk
from cloister.engines.monty.state import split

# A worker that served this many sessions is replaced, so that what leaks in it does not last.
_CHECKOUTS_PER_WORKER = 1000
# Below the workers' own RLIMIT_DATA of 1 GiB, with room for Monty itself and for its dumps.
MAX_MEMORY_MB = 640
_RELEASE = importlib.metadata.version("pydantic-monty")


class MontyEngine:
    language = Language.PYTHON
    name = "monty"
    version = f"monty {_RELEASE}"

    def __init__(self, *, capacity: int | None = None, require_confinement: bool = False) -> None:
        self._capacity = capacity or max(2, os.cpu_count() or 1)
        self._require_confinement = require_confinement
        self._pool: Any = None
        self._sync_pool: Any = None
        self._lanes: list[Lane] = []
        self._checker: Checker | None = None
        # Two programs that call for the first time must not start the sync pool twice.
        self._starting = asyncio.Lock()
        self._open: set[MontyInterpreter] = set()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._launcher: Path | None = None
        self._binary = monty_binary()

    @property
    def capacity(self) -> int:
        return self._capacity

    def check_limits(self, limits: SessionLimits) -> None:
        if limits.memory_mb > MAX_MEMORY_MB:
            raise InvalidLimits(f"a Python worker has at most {MAX_MEMORY_MB} MB; memory_mb={limits.memory_mb}")

    async def __aenter__(self) -> "MontyEngine":
        self._scratch = scratch()
        try:
            self._launcher = await self._confined(Path(self._scratch.name))
            self._pool = monty.AsyncMonty(**self._pool_options())
            await self._pool.__aenter__()
        except (monty.MontyError, OSError, RuntimeError) as error:
            self._bury()
            raise EngineUnavailable(f"no Monty worker starts: {error}") from error
        except BaseException:
            self._bury()
            raise
        self._checker = Checker(self._pool)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._checker is not None
        try:
            for interpreter in list(self._open):
                interpreter.interrupt()
                await interpreter.close()
            await self._checker.close()
            await self._pool.__aexit__(None, None, None)
            for lane in self._lanes:
                # Whatever it was sent is done by then: the pool has all its workers back.
                await lane.do(int)
            if self._sync_pool is not None:
                await asyncio.to_thread(self._sync_pool.__exit__, None, None, None)
            for lane in self._lanes:
                lane.close()
                # A thread that still runs when Python ends may drop Monty's objects without its lock, and abort.
                await asyncio.to_thread(lane.join)
            self._lanes.clear()
        finally:
            self._bury()

    def _bury(self) -> None:
        """Whatever is left of the workers ends here, also those that the pool lost sight of."""
        if self._launcher is not None:
            discard_launcher(self._launcher)
        if self._scratch is not None:
            self._scratch.cleanup()

    async def open(self, limits: SessionLimits, state: bytes | None = None, *, seed: int = 0) -> MontyInterpreter:
        assert self._checker is not None, "enter the engine first"
        self.check_limits(limits)
        modules: dict[str, Any] = {}
        options = _checkout(limits, seed, modules)

        async def cabin(interpreter: MontyInterpreter) -> Cabin:
            """A cabin, with the namespace that `interpreter` had at its desk."""
            pool, lane = await self._cabins(), self._lane()
            taken: Cabin | None = None
            try:
                taken = await Cabin.take(pool.checkout(**options), lane)
                await interpreter.move_to(taken)
                return taken
            except BaseException:
                # Cancelled or refused half-way: the worker and the lane go back.
                if taken is not None:
                    await asyncio.shield(taken.close())
                self._lanes.append(lane)
                raise

        found = None if state is None else split(state)
        if found is not None and found[0]["calls"]:
            meta, image = found
            printed = _Relay()
            loaded: Any
            pool, lane = await self._cabins(), self._lane()
            try:
                seat, loaded = await Cabin.take_with(
                    pool.checkout(**options),
                    lane,
                    lambda session: (
                        session.load_snapshot(image, print_callback=printed)
                        if "pending" in meta
                        else session.load_session(image)
                    ),
                )
            except BaseException:
                self._lanes.append(lane)
                raise
            interpreter = MontyInterpreter(seat, limits, self._checker, modules, cabin, self._closed)
            self._open.add(interpreter)
            printed.to = interpreter
            interpreter.loaded(meta, loaded)
            return interpreter
        desk = await Desk.take(self._pool.checkout(**options))
        interpreter = MontyInterpreter(desk, limits, self._checker, modules, cabin, self._closed)
        self._open.add(interpreter)
        if found is not None:
            try:
                await interpreter.load(*found)
            except BaseException:
                await interpreter.close()
                raise
        return interpreter

    async def _cabins(self) -> Any:
        """The sync pool, started when the first program calls something."""
        async with self._starting:
            if self._sync_pool is None:
                pool = monty.Monty(**self._pool_options())
                await asyncio.to_thread(pool.__enter__)
                self._sync_pool = pool
        return self._sync_pool

    def _lane(self) -> Lane:
        if not self._lanes:
            return Lane("cloister-monty")
        return self._lanes.pop()

    def _closed(self, interpreter: MontyInterpreter) -> None:
        self._open.discard(interpreter)
        if interpreter.lane is not None:
            self._lanes.append(interpreter.lane)

    def _pool_options(self) -> dict[str, Any]:
        return {
            "binary_path": self._launcher,
            "min_processes": 1,
            # One worker beyond the interpreters is for the checker, and one for its successor.
            "max_processes": self._capacity + 2,
            "max_checkouts_per_worker": _CHECKOUTS_PER_WORKER,
            # The warden kills; a second watchdog would only race it.
            "feed_duration_limit_grace": None,
            "turn_duration_limit_grace": None,
        }

    def confinement(self) -> Mapping[str, str]:
        return probe(foreign=self._binary)["foreign"].layers

    def unsupported(self) -> Sequence[str]:
        return UNSUPPORTED

    async def _confined(self, scratch: Path) -> Path:
        """The launcher that the pool starts in place of Monty's binary."""
        if self._require_confinement:
            report = (await asyncio.to_thread(probe, foreign=self._binary))["foreign"]
            if not report.complete:
                raise ConfinementUnavailable(
                    f"Python workers cannot be confined here: {', '.join(report.missing)}",
                    hint="see `cloister doctor`, or run without require_confinement",
                )
        return write_launcher(scratch, self._binary, required=self._require_confinement)


class _Relay:
    """Hears a program that was loaded before there was anybody to hear it."""

    to: MontyInterpreter | None = None

    def __call__(self, stream: Any, text: str) -> None:
        if self.to is not None:
            self.to.print(stream, text)


def _checkout(limits: SessionLimits, seed: int, modules: dict[str, Any]) -> dict[str, Any]:
    """How a namespace is set up, the same at a desk and in a cabin."""
    return {
        "script_name": "cell.py",
        "limits": {
            "max_feed_duration_secs": limits.cpu_ms / 1000,
            "max_memory": limits.memory_mb << 20,
            "max_recursion_depth": limits.max_stack_depth,
            "max_suspensions": 10**9,
        },
        "print_flush_interval": 0.02,
        "os_policy": {
            "datetime": "call_host",
            "sleep": "call_host",
            "process_time": "zero",
            "random_start": {"seed": seed},
        },
        "external_modules": modules,
    }


def monty_binary() -> Path:
    """The worker that came with the package. Neither PATH nor the environment has a say in what is executed."""
    for file in importlib.metadata.files("pydantic-monty-runtime") or ():
        if file.name in ("monty", "monty.exe"):
            return Path(str(file.locate())).resolve()
    raise EngineUnavailable(
        "the package pydantic-monty-runtime has no worker in it", hint="install it again: pip install pydantic-monty"
    )
