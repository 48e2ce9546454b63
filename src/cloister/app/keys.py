"""The key that authenticates snapshots: given, or made on first use into a file that only its owner reads."""

import contextlib
import os
import secrets
from pathlib import Path

from cloister.core.errors import InvalidInput

KEY_BYTES = 32


def data_directory() -> Path:
    """Where this installation keeps what lasts: `CLOISTER_DATA_DIR`, or the user's data directory."""
    chosen = os.environ.get("CLOISTER_DATA_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "cloister"


class SnapshotKey:
    """Found when it is first asked for, so that a program without snapshots touches no file."""

    def __init__(self, given: bytes | None = None) -> None:
        if given is not None and len(given) < 16:
            raise InvalidInput("a snapshot key has at least 16 bytes")
        self._key = given

    def __call__(self) -> bytes:
        if self._key is None:
            self._key = _from_file(data_directory() / "snapshot.key")
        return self._key


def _from_file(path: Path) -> bytes:
    try:
        if not path.exists():
            _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the snapshot key cannot be kept at {path}: {error.strerror}",
            hint="set CLOISTER_DATA_DIR to a directory that can be written, or give snapshot_key=",
        ) from error
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"{path} is not a snapshot key: it has {len(key)} bytes instead of {KEY_BYTES}")
    return key


def _make(path: Path) -> None:
    """The file appears whole or not at all: another process may be doing the same, and then theirs is the key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
