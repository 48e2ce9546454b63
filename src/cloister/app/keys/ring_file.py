"""A key ring in a file that only its owner reads: made on first use, changed as a whole or not at all.

The file is JSON, the newest key first. Before there were rings it was the 32 bytes of one key; such a file is a ring of
that key, and becomes JSON when it is changed. Processes that make it at once share the one that came first; those that
change it wait for each other.
"""

import base64
import binascii
import fcntl
import json
import os
import secrets
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloister.app.keys.text import KEY_BYTES, MOST_KEYS
from cloister.core.errors import CloisterError, InvalidInput
from cloister.ports.keys import Key, KeyRing, Purpose

__all__ = ["KEY_BYTES", "FiledKey", "RingFile"]

_FORMAT = "cloister-keys"
_VERSION = 1
_MAX_FILE = 64 << 10
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class FiledKey:
    """A key, and when it was made; None where nobody wrote that down."""

    material: bytes = field(repr=False)
    made_ms: int | None = None


class RingFile:
    """What is in the file is read again when the file has changed, and not before."""

    def __init__(self, path: Path, purpose: Purpose) -> None:
        self.path = path
        self.purpose = purpose
        self._seen: tuple[object, tuple[FiledKey, ...], KeyRing] | None = None

    def ring(self) -> KeyRing:
        """Empty if there is no file."""
        return self._look()[1]

    def filed(self) -> tuple[FiledKey, ...]:
        """The newest first, with what is known of them."""
        return self._look()[0]

    def make(self, now_ms: int) -> None:
        """A first key, unless somebody was quicker."""
        with self._trouble():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = self._draft([_new(now_ms)])
            try:
                with suppress(FileExistsError):
                    os.link(draft, self.path)
                _flush_directory(self.path.parent)
            finally:
                draft.unlink()

    def rotate(self, now_ms: int) -> Key:
        """A new key before all others."""
        with self._alone():
            keys = self.filed()
            if len(keys) >= MOST_KEYS:
                raise InvalidInput(
                    f"{self.path} has {len(keys)} keys already", hint="retire the oldest: cloister keys retire ID"
                )
            made = _new(now_ms)
            self._replace([made, *keys])
        return Key.of(self.purpose, made.material)

    def retire(self, key_id: bytes) -> None:
        """Nothing that was made with this key is accepted from now on. The newest cannot go."""
        with self._alone():
            keys = self.filed()
            left = [key for key in keys if Key.of(self.purpose, key.material).id != key_id]
            if len(left) == len(keys):
                raise InvalidInput(f"there is no {self.purpose} key {key_id.hex()} in {self.path}")
            if not left or left[0] is not keys[0]:
                raise InvalidInput(
                    f"key {key_id.hex()} is the one in use: it cannot be retired",
                    hint=f"make another first: cloister keys rotate {self.purpose}",
                )
            self._replace(left)

    # -- reading ---------------------------------------------------------------------------------------------

    def _look(self) -> tuple[tuple[FiledKey, ...], KeyRing]:
        with self._trouble():
            try:
                # Whatever stands there must not make us wait: a pipe would.
                fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                return (), KeyRing()
            with os.fdopen(fd, "rb") as file:
                about = os.fstat(fd)
                mark = (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size, about.st_mode)
                if self._seen is None or self._seen[0] != mark:
                    self._check_owned(about)
                    keys = tuple(self._parse(file.read(_MAX_FILE + 1)))
                    ring = KeyRing(tuple(Key.of(self.purpose, key.material) for key in keys))
                    self._seen = (mark, keys, ring)
        return self._seen[1], self._seen[2]

    def _check_owned(self, about: os.stat_result) -> None:
        if not stat.S_ISREG(about.st_mode):
            raise self._no_key("it is no plain file")
        if about.st_mode & _OTHERS:
            raise InvalidInput(
                f"{self.path} can be read or written by others than its owner "
                f"(its mode is {stat.S_IMODE(about.st_mode):04o})",
                hint=f"chmod 600 {self.path}; if somebody may have read it: cloister keys rotate {self.purpose}, and "
                "retire the old key",
            )

    def _parse(self, data: bytes) -> list[FiledKey]:
        if len(data) == KEY_BYTES:
            return [FiledKey(data)]
        if len(data) > _MAX_FILE:
            raise self._no_key(f"it has more than {_MAX_FILE} bytes")
        if not data.startswith(b"{"):
            raise self._no_key(f"it has {len(data)} bytes instead of {KEY_BYTES}")
        try:
            read: Any = json.loads(data)
        except (ValueError, RecursionError):
            raise self._no_key("its JSON is cut off or damaged") from None
        match read:
            case {"format": "cloister-keys", "version": int(version)} if version > _VERSION:
                raise InvalidInput(f"{self.path} has version {version}", hint="use a newer Cloister")
            case {"format": "cloister-keys", "version": 1, "purpose": purpose} if purpose != self.purpose:
                raise self._no_key(f"it has keys for another purpose: {str(purpose)[:40]!r}")
            case {"format": "cloister-keys", "version": 1, "keys": [_, *_]}:
                filed = [self._filed(key) for key in read["keys"]]
            case _:
                raise self._no_key("its JSON is not a key ring's")
        if len({key.material for key in filed}) != len(filed):
            raise self._no_key("it has one key twice")
        return filed

    def _filed(self, key: object) -> FiledKey:
        match key:
            case {"key": str(text), "made_ms": int() | None as made_ms}:
                with suppress(binascii.Error, ValueError):
                    material = base64.b64decode(text, validate=True)
                    if len(material) == KEY_BYTES:
                        return FiledKey(material, made_ms)
            case _:
                pass
        raise self._no_key("one of its keys is damaged")

    def _no_key(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"{self.path} is not a {self.purpose} key: {why}",
            hint="put back the file from a copy; without it what was made with its keys cannot be opened",
        )

    # -- writing ---------------------------------------------------------------------------------------------

    def _replace(self, keys: Sequence[FiledKey]) -> None:
        with self._trouble():
            draft = self._draft(keys)
            try:
                draft.replace(self.path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            _flush_directory(self.path.parent)

    def _draft(self, keys: Sequence[FiledKey]) -> Path:
        """Written whole and safe, under a name of its own."""
        filed = [{"key": base64.b64encode(key.material).decode(), "made_ms": key.made_ms} for key in keys]
        text = json.dumps({"format": _FORMAT, "version": _VERSION, "purpose": self.purpose, "keys": filed}, indent=1)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "w") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(fd)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return draft

    @contextmanager
    def _alone(self) -> Generator[None, None, None]:
        """Two who change the ring at once must not lose a key: the second finds what the first has written."""
        with self._trouble():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                # Waits for somebody who writes one small file.
                fcntl.flock(fd, fcntl.LOCK_EX)
                yield
            finally:
                os.close(fd)

    @contextmanager
    def _trouble(self) -> Generator[None, None, None]:
        try:
            yield
        except CloisterError:
            raise
        except OSError as error:
            raise InvalidInput(
                f"the {self.purpose} key cannot be kept at {self.path}: {error.strerror}",
                hint="set CLOISTER_DATA_DIR to a directory that can be written, or give "
                f"{self.purpose}_key= or CLOISTER_{self.purpose.upper()}_KEY",
            ) from error


def _new(now_ms: int) -> FiledKey:
    return FiledKey(secrets.token_bytes(KEY_BYTES), now_ms)


def _flush_directory(path: Path) -> None:
    """The name of a file is as safe as its content only then."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
