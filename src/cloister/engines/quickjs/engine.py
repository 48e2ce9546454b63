"""The TypeScript engine: QuickJS in WebAssembly, in sealed worker processes of our own."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from cloister.core.errors import ConfinementUnavailable, EngineUnavailable, InvalidLimits, SnapshotCorrupt
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.engines.quickjs import module_cache
from cloister.engines.quickjs.checker import Checker
from cloister.engines.quickjs.interpreter import QuickJSInterpreter
from cloister.engines.quickjs.pool import Pool
from cloister.engines.quickjs.process import WorkerLost, WorkerProcess, bury, spawn

_PARTS = ("primordials", "errors", "values", "show", "calls", "tools", "files", "helpers", "globals", "protocol")


def boot_source() -> str:
    """The guest's half of the protocol, as one function of what the host offers it."""
    folder = Path(__file__).with_name("boot")
    body = "".join((folder / f"{part}.js").read_text("utf-8") for part in _PARTS)
    return f'((send, overflow, overspend, consult) => {{\n"use strict";\n{body}}})'


_BOOT = boot_source()
_RELEASE = metadata.version("quickjs-rs")
# The boot image is the same in every process, and dumps are differences to it: whoever changes it (a test tells its new
# digest) ends the life of all that was dumped before.
IMAGE = "aedffc8eb914"

# What a worker's address space and the guest's own stack leave room for.
MAX_MEMORY_MB = 1024
MAX_STACK_DEPTH = 2400

UNSUPPORTED: tuple[str, ...] = (
    "modules: import, export, require, dynamic import()",
    "JSX, decorators, namespaces and `accessor` fields",
    "setInterval; a setTimeout that nothing waits for ends with its cell",
    "fetch, crypto, process, Buffer, structuredClone, TextEncoder, URL, Intl",
    "Map, typed arrays, functions and symbols as values that leave the program",
    "half surrogate pairs in text that leaves the program: each becomes U+FFFD",
    f"more than {MAX_MEMORY_MB} MiB of memory, more than {MAX_STACK_DEPTH} nested calls",
)


class QuickJSEngine:
    language = Language.TYPESCRIPT
    name = "quickjs"
    version = f"quickjs-rs {_RELEASE} {IMAGE}"

    def __init__(
        self, *, capacity: int | None = None, require_confinement: bool = False, cache_dir: Path | None = None
    ) -> None:
        self._capacity = capacity or max(2, os.cpu_count() or 1)
        self._require_confinement = require_confinement
        self._cache_dir = cache_dir
        self._pool: Pool | None = None
        self._checker = Checker(self._spawn)
        self._module: asyncio.Task[bytes] | None = None
        self._layers: Mapping[str, str] = {}
        self._open: set[QuickJSInterpreter] = set()

    @property
    def capacity(self) -> int:
        return self._capacity

    def check_limits(self, limits: SessionLimits) -> None:
        if limits.memory_mb > MAX_MEMORY_MB or limits.max_stack_depth > MAX_STACK_DEPTH:
            raise InvalidLimits(
                f"a TypeScript worker has at most {MAX_MEMORY_MB} MB and {MAX_STACK_DEPTH} nested calls; "
                f"memory_mb={limits.memory_mb}, max_stack_depth={limits.max_stack_depth}"
            )

    async def __aenter__(self) -> "QuickJSEngine":
        self._module = asyncio.get_running_loop().create_task(asyncio.to_thread(module_cache.load, self._cache_dir))
        self._pool = Pool(self._spawn, self._capacity)
        self._checker = Checker(self._spawn)
        self._pool.warm()
        if self._require_confinement:
            try:
                self._pool.release(await self._pool.acquire())
            except BaseException:
                await self.__aexit__()
                raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        pool, self._pool = self._pool, None
        if pool is None or self._module is None:
            return
        try:
            for interpreter in list(self._open):
                interpreter.interrupt()
        finally:
            # Shielded: a host that is being cancelled must not leave processes behind.
            closing = asyncio.gather(pool.close(), self._checker.close())
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:
                await closing
                raise
            finally:
                await asyncio.gather(self._module, return_exceptions=True)
                self._open.clear()

    async def open(self, limits: SessionLimits, state: bytes | None = None, *, seed: int = 0) -> QuickJSInterpreter:
        if self._pool is None:
            raise EngineUnavailable("enter the engine before opening a session")
        self.check_limits(limits)
        worker = await self._pool.acquire()
        interpreter = QuickJSInterpreter(worker, self._checker, self._give_back)
        self._open.add(interpreter)
        words = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
        head = {
            "memory_mb": limits.memory_mb,
            "depth": limits.max_stack_depth,
            "seed": words,
            "restore": state is not None,
        }
        try:
            refusal = await interpreter.open(head, state or b"")
        except WorkerLost as error:
            await interpreter.close()
            raise EngineUnavailable(f"the worker died while it opened a session: {error}") from None
        except BaseException:
            await interpreter.close()
            raise
        if refusal is not None:
            await interpreter.close()
            raise EngineUnavailable(refusal) if state is None else SnapshotCorrupt(refusal)
        return interpreter

    def confinement(self) -> Mapping[str, str]:
        return dict(self._layers)

    def unsupported(self) -> Sequence[str]:
        return UNSUPPORTED

    # -- inside ------------------------------------------------------------------------------------------------

    async def _spawn(self) -> WorkerProcess:
        assert self._module is not None
        worker = await spawn(await asyncio.shield(self._module), _BOOT)
        self._layers = worker.hello["layers"]
        missing = [f"{layer} ({state})" for layer, state in self._layers.items() if state != "active"]
        if self._require_confinement and missing:
            await bury(worker)
            raise ConfinementUnavailable(
                f"a worker cannot be confined: {', '.join(missing)}",
                hint="allow it on this machine, or do not require confinement",
            )
        return worker

    async def _give_back(self, interpreter: QuickJSInterpreter) -> None:
        self._open.discard(interpreter)
        worker = interpreter.worker
        if not await interpreter.leave():
            worker.kill()
        elif self._pool is not None:
            self._pool.release(worker)
