"""Keys from a command, such as a vault's: it is run without a shell, in bounded time, and what it says is bounded too.

What it prints is never passed on, whether it works or fails: a broken one may print the key, to stderr as well.
"""

import os
import selectors
import shlex
import signal
import subprocess
import time
from contextlib import suppress

from cloister.core.errors import InvalidInput

TIMEOUT_S = 15.0
MAX_OUTPUT = 16 << 10


def output_of(command: str, where: str, timeout_s: float = TIMEOUT_S) -> str:
    """What it prints. Raises `InvalidInput` that names `where` the command came from, and never what it printed."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"{where} cannot be read as a command: {error}", hint="mind its quotes") from None
    if not words:
        raise InvalidInput(f"{where} is empty", hint="unset it, or write a command that prints a key")
    name = os.path.basename(words[0])
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # With its children: one of them may hold the pipe open.
            start_new_session=True,
        )
    except OSError as error:
        raise InvalidInput(f"{where} cannot be run: {name!r}: {error.strerror}", hint="give its full path") from None
    try:
        said = _read(process, time.monotonic() + timeout_s)
        too_much = said is not None and len(said) > MAX_OUTPUT
        code = process.wait(1) if said is not None and not too_much else None
    except subprocess.TimeoutExpired:
        said, code, too_much = None, None, False
    finally:
        _end(process)
    if said is None:
        raise InvalidInput(f"{where} ({name!r}) has not ended after {timeout_s:g} s", hint="run it by hand to see why")
    if too_much:
        raise InvalidInput(f"{where} ({name!r}) printed more than {MAX_OUTPUT} bytes", hint="let it print the key only")
    if code != 0:
        raise InvalidInput(f"{where} ({name!r}) failed with exit code {code}", hint="run it by hand to see why")
    try:
        return said.decode("ascii")
    except UnicodeDecodeError:
        raise InvalidInput(f"what {where} ({name!r}) printed is not text", hint="let it print base64 or hex") from None


def _read(process: "subprocess.Popen[bytes]", until: float) -> bytes | None:
    """Up to its end, or a little more than it may print; None when time is up."""
    assert process.stdout is not None
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(said) <= MAX_OUTPUT:
            left = until - time.monotonic()
            if left <= 0 or not selector.select(left):
                return None
            chunk = os.read(process.stdout.fileno(), 4096)
            if not chunk:
                break
            said += chunk
    return bytes(said)


def _end(process: "subprocess.Popen[bytes]") -> None:
    # Once it was waited for, its number may be another's.
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
