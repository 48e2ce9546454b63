"""The Python engine: a pool of confined Monty workers, a lane for each interpreter, one checker."""

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
from cloister.engines.monty.interpreter import MontyInterpreter, Traffic
from cloister.engines.monty.lane import Lane
from cloister.engines.warden import Warden

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
        self._lanes: list[Lane] = []
        self._checker: Checker | None = None
        self._checker_lane: Lane | None = None
        self._open: set[MontyInterpreter] = set()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._launcher: Path | None = None
        self._binary = monty_binary()
        self._traffic = Traffic()

    @property
    def capacity(self) -> int:
        return self._capacity

    async def __aenter__(self) -> "MontyEngine":
        self._scratch = tempfile.TemporaryDirectory(prefix="cloister-")
        try:
            self._launcher = await self._confined(Path(self._scratch.name))
        except BaseException:
            self._scratch.cleanup()
            raise
        # One worker beyond the interpreters is for the checker.
        self._pool = monty.Monty(
            binary_path=self._launcher,
            min_processes=1,
            max_processes=self._capacity + 2,
            max_checkouts_per_worker=_CHECKOUTS_PER_WORKER,
            # The warden kills; a second watchdog would only race it.
            feed_duration_limit_grace=None,
            turn_duration_limit_grace=None,
        )
        self._checker_lane = Lane("cloister-monty-check")
        try:
            await self._checker_lane.do(self._pool.__enter__)
        except (monty.MontyError, OSError, RuntimeError) as error:
            self._checker_lane.close()
            self._bury()
            raise EngineUnavailable(f"no Monty worker starts: {error}") from error
        self._checker = Checker(self._pool, self._checker_lane)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._checker is not None
        assert self._checker_lane is not None
        for interpreter in list(self._open):
            interpreter.interrupt()
            await interpreter.close()
        await self._checker.close()
        await self._checker_lane.do(lambda: self._pool.__exit__(None, None, None))
        for lane in [*self._lanes, self._checker_lane]:
            lane.close()
            # A thread that still runs when Python ends may drop Monty's objects without its lock, and abort.
            await asyncio.to_thread(lane.join)
        self._lanes.clear()
        self._bury()

    def _bury(self) -> None:
        """Whatever is left of the workers ends here, also those that the pool lost sight of."""
        if self._launcher is not None:
            discard_launcher(self._launcher)
        if self._scratch is not None:
            self._scratch.cleanup()

    async def open(self, limits: SessionLimits, state: bytes | None = None, *, seed: int = 0) -> MontyInterpreter:
        assert self._checker is not None, "enter the engine first"
        if limits.memory_mb > MAX_MEMORY_MB:
            raise InvalidLimits(f"a Python worker has at most {MAX_MEMORY_MB} MB; memory_mb={limits.memory_mb}")
        lane = self._lanes.pop() if self._lanes else Lane("cloister-monty")
        modules: dict[str, Any] = {}
        session = self._pool.checkout(
            script_name="cell.py",
            limits={
                "max_feed_duration_secs": limits.cpu_ms / 1000,
                "max_memory": limits.memory_mb << 20,
                "max_recursion_depth": limits.max_stack_depth,
                "max_suspensions": 10**9,
            },
            print_flush_interval=0.02,
            os_policy={
                "datetime": "call_host",
                "sleep": "call_host",
                "process_time": "zero",
                "random_start": {"seed": seed},
            },
            external_modules=modules,
        )
        try:
            await lane.do(session.__enter__)
        except (monty.MontyError, OSError, RuntimeError, TimeoutError) as error:
            self._lanes.append(lane)
            raise EngineUnavailable(f"no Monty worker is to be had: {error}") from error

        async def on_close(_lost: bool) -> None:
            self._open.discard(interpreter)
            self._lanes.append(lane)

        interpreter = MontyInterpreter(
            session, limits, lane, Warden(session.worker_pid), self._checker, self._traffic, on_close
        )
        interpreter.bind_modules(modules)
        self._open.add(interpreter)
        if state is not None:
            try:
                await lane.do(lambda: interpreter.load(state))
            except BaseException:
                await interpreter.close()
                raise
        return interpreter

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


def monty_binary() -> Path:
    """The worker that came with the package. Neither PATH nor the environment has a say in what is executed."""
    for file in importlib.metadata.files("pydantic-monty-runtime") or ():
        if file.name in ("monty", "monty.exe"):
            return Path(str(file.locate())).resolve()
    raise EngineUnavailable(
        "the package pydantic-monty-runtime has no worker in it", hint="install it again: pip install pydantic-monty"
    )
