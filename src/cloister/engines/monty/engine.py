"""The Python engine: a pool of confined Monty workers, a lane for each interpreter, one checker."""

import importlib.metadata
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic_monty as monty

from cloister.core.errors import ConfinementUnavailable, EngineUnavailable
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.engines.monty.checker import Checker
from cloister.engines.monty.features import UNSUPPORTED
from cloister.engines.monty.interpreter import MontyInterpreter
from cloister.engines.monty.lane import Lane
from cloister.engines.warden import Warden

# A worker that served this many sessions is replaced, so that what leaks in it does not last.
_CHECKOUTS_PER_WORKER = 1000
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

    @property
    def capacity(self) -> int:
        return self._capacity

    async def __aenter__(self) -> "MontyEngine":
        self._scratch = tempfile.TemporaryDirectory(prefix="cloister-")
        # One worker beyond the interpreters is for the checker.
        self._pool = monty.Monty(
            binary_path=self._launcher(Path(self._scratch.name)),
            min_processes=1,
            max_processes=self._capacity + 2,
            max_checkouts_per_worker=_CHECKOUTS_PER_WORKER,
        )
        self._checker_lane = Lane("cloister-monty-check")
        try:
            await self._checker_lane.do(self._pool.__enter__)
        except (monty.MontyError, OSError, RuntimeError) as error:
            self._checker_lane.close()
            self._scratch.cleanup()
            raise EngineUnavailable(f"no Monty worker starts: {error}") from error
        self._checker = Checker(self._pool, self._checker_lane)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._checker is not None and self._checker_lane is not None and self._scratch is not None
        for interpreter in list(self._open):
            interpreter.interrupt()
            await interpreter.close()
        await self._checker.close()
        await self._checker_lane.do(lambda: self._pool.__exit__(None, None, None))
        for lane in [*self._lanes, self._checker_lane]:
            lane.close()
        self._lanes.clear()
        self._scratch.cleanup()

    async def open(self, limits: SessionLimits, state: bytes | None = None, *, seed: int = 0) -> MontyInterpreter:
        assert self._checker is not None, "enter the engine first"
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

        interpreter = MontyInterpreter(session, lane, Warden(session.worker_pid), self._checker, on_close)
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
        return {}

    def unsupported(self) -> Sequence[str]:
        return UNSUPPORTED

    def _launcher(self, scratch: Path) -> Path:
        from pydantic_monty._binary import find_monty_binary

        _ = scratch, ConfinementUnavailable
        return Path(find_monty_binary())
