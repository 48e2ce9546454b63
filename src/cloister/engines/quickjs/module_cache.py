"""The compiled guest module, kept on disk between processes. Only the host reads and writes it.

A deserialised module is native code, so a cache that somebody else could have written is not read: the directory
and the file must be ours and writable by nobody else. What is missing, damaged or not to be trusted is compiled anew
in a child process (about half a second), which keeps the event loop free.

    $CLOISTER_CACHE_DIR, else $XDG_CACHE_HOME/cloister, else ~/.cache/cloister, else <temp>/cloister-<uid>
"""

import hashlib
import os
import platform
import stat
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from cloister.core.errors import EngineUnavailable
from cloister.engines.quickjs.launch import command, package_root

_COMPILE = """
import wasmtime
from cloister.engines.quickjs.guest import configuration
with open(arguments[0], "rb") as wasm:
    module = wasmtime.Module(wasmtime.Engine(configuration(256)), wasm.read())
sys.stdout.buffer.write(module.serialize())
"""
# Part of the file's name: what a module compiled with other settings is not mistaken for.
_SETTINGS = 1
_DIGEST_BYTES = 32
_COMPILE_SECONDS = 120


def guest_wasm() -> Path:
    return Path(package_root("quickjs_rs")) / "quickjs_rs" / "_guest.wasm"


def directories(chosen: Path | None = None) -> list[Path]:
    """Where a cache may be, the best place first."""
    if chosen is not None:
        return [chosen]
    if named := os.environ.get("CLOISTER_CACHE_DIR"):
        return [Path(named)]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    temporary = Path(tempfile.gettempdir()) / f"cloister-{os.geteuid()}"
    return [Path(base) / "cloister", temporary] if os.path.isabs(base) else [temporary]


def load(chosen: Path | None = None) -> bytes:
    """The serialised module: from the cache if there is a good one, else compiled and, if possible, kept. Blocks."""
    wasm = guest_wasm()
    name = _file_name(wasm.read_bytes())
    directory = next((directory for directory in directories(chosen) if _prepare(directory)), None)
    if directory is not None and (module := _read(directory / name)) is not None:
        return module
    module = _compile(wasm)
    if directory is not None:
        _write(directory / name, module)
    return module


def _file_name(wasm: bytes) -> str:
    # wasmtime compiles for the processor it finds; a home directory may be shared by several kinds.
    processor = hashlib.sha256(f"{platform.machine()} {_processor_flags()}".encode()).hexdigest()[:8]
    digest = hashlib.sha256(wasm).hexdigest()[:16]
    return f"quickjs-{digest}-wasmtime-{metadata.version('wasmtime')}-{platform.machine()}-{processor}-{_SETTINGS}.bin"


def _processor_flags() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as text:
            return next((line for line in text if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()


def _prepare(directory: Path) -> bool:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _ours(directory.lstat(), stat.S_ISDIR)
    except OSError:
        return False


def _ours(found: os.stat_result, is_kind: object) -> bool:
    kind = is_kind(found.st_mode) if callable(is_kind) else False
    return bool(kind) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _read(path: Path) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with open(handle, "rb") as file:
        if not _ours(os.fstat(handle), stat.S_ISREG):
            return None
        data = file.read()
    module = data[_DIGEST_BYTES:]
    return module if module and hashlib.sha256(module).digest() == data[:_DIGEST_BYTES] else None


def _write(path: Path, module: bytes) -> bool:
    """Atomically, so that a reader sees all of it or nothing."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".module-")
    except OSError:
        return False
    try:
        with open(handle, "wb") as file:
            file.write(hashlib.sha256(module).digest())
            file.write(module)
        os.replace(name, path)
        return True
    except OSError:
        Path(name).unlink(missing_ok=True)
        return False


def _compile(wasm: Path) -> bytes:
    try:
        done = subprocess.run(
            command(_COMPILE, str(wasm)), capture_output=True, timeout=_COMPILE_SECONDS, env={}, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineUnavailable(f"the QuickJS module does not compile: {error}") from error
    return done.stdout
