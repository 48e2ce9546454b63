"""What `doctor` finds out, as plain data: languages, layers, directories."""

import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from cloister.core.errors import CloisterError
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.ports.engine import Engine, Finished, Program, Turn

# The first start on a machine compiles WebAssembly, which takes seconds where a later one takes none.
_PATIENCE_MS = 30_000.0

log = logging.getLogger("cloister.cli")


@dataclass(frozen=True, slots=True)
class LanguageCheck:
    runs: bool
    engine: str | None = None
    version: str | None = None
    start_ms: float | None = None
    run_ms: float | None = None
    error: str | None = None
    # The layers of the operating system around its workers: name -> "active" or why not.
    confinement: dict[str, str] = field(default_factory=dict[str, str])
    unsupported: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Directory:
    path: str
    writable: bool
    variable: str


@dataclass(frozen=True, slots=True)
class KeyCheck:
    # "file", "environment" or "command"; None if that cannot be told.
    origin: str | None
    where: str
    # The newest first; none yet if it is empty.
    ids: list[str] = field(default_factory=list[str])
    error: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Checkup:
    languages: dict[str, LanguageCheck]
    directories: dict[str, Directory]
    keys: dict[str, KeyCheck]


async def examine() -> Checkup:
    """Try everything. Takes about a second; several when an engine starts for the first time on a machine."""
    languages = {language.value: await _try_language(language) for language in Language}
    return Checkup(languages, _directories(), await _keys())


async def _try_language(language: Language) -> LanguageCheck:
    from cloister.app.engines import make_engine

    engine: Engine | None = None
    try:
        engine = make_engine(language, workers=1, require_confinement=False)
        return await _one_plus_one(engine)
    # Containment: a broken installation may fail in any way, and saying how is what this command is for.
    except Exception as error:
        log.debug("the engine of %s does not run", language, exc_info=True)
        why = error.message if isinstance(error, CloisterError) else f"{type(error).__name__}: {error}"
        if engine is None:
            return LanguageCheck(False, error=why)
        return LanguageCheck(False, engine.name, engine.version, error=why)


async def _one_plus_one(engine: Engine) -> LanguageCheck:
    began = time.monotonic()
    async with engine:
        interpreter = await engine.open(SessionLimits())
        try:
            started = time.monotonic()
            turn = Turn(int(time.time() * 1000), _PATIENCE_MS, _PATIENCE_MS, lambda _stream, _text: None)
            step = await interpreter.start(Program("1 + 1"), turn)
            ended = time.monotonic()
        finally:
            await interpreter.close()
        match step:
            case Finished(value=2):
                error = None
            case _:
                error = f"1 + 1 gave {step!r}"
        return LanguageCheck(
            runs=error is None,
            engine=engine.name,
            version=engine.version,
            start_ms=round((started - began) * 1000, 1),
            run_ms=round((ended - started) * 1000, 3),
            error=error,
            confinement=dict(engine.confinement()),
            unsupported=list(engine.unsupported()),
        )


async def _keys() -> dict[str, KeyCheck]:
    """Where they come from. Makes none."""
    from cloister.app.keys import Keys
    from cloister.ports.keys import Purpose

    found: dict[str, KeyCheck] = {}
    for purpose in Purpose:
        keys = Keys(purpose)
        origin, where = None, keys.variable
        try:
            origin, where = keys.origin, keys.where
            found[purpose] = KeyCheck(origin, where, [key.id.hex() for key in (await keys.ring()).keys])
        except CloisterError as error:
            found[purpose] = KeyCheck(origin, where, [], error.message, error.hint)
    return found


def _directories() -> dict[str, Directory]:
    from cloister.app.keys import data_directory
    from cloister.engines.quickjs.module_cache import directories

    # The second place for the cache is used when the first cannot be written.
    caches = directories()
    cache = next((place for place in caches if _can_be_written(place)), caches[0])
    data = data_directory()
    return {
        "data": Directory(str(data), _can_be_written(data), "CLOISTER_DATA_DIR"),
        "cache": Directory(str(cache), _can_be_written(cache), "CLOISTER_CACHE_DIR"),
    }


def _can_be_written(path: Path) -> bool:
    """Whether files can be made in a directory, which itself may still have to be made."""
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
