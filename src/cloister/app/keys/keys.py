"""The keys of one purpose, and where they come from. The first of these that there is:

1. what was given in code: `snapshot_key=`, `secret_key=`;
2. the environment: `CLOISTER_SNAPSHOT_KEY`, `CLOISTER_SECRET_KEY`, or a command in `CLOISTER_SNAPSHOT_KEY_COMMAND`,
   `CLOISTER_SECRET_KEY_COMMAND`; both at once are refused;
3. a file in the data directory, made on first use.

Nothing is looked for before it is needed: a program without snapshots and secrets touches no file.
"""

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from typing import cast

from cloister.app.keys.command import output_of
from cloister.app.keys.directory import data_directory
from cloister.app.keys.ring_file import RingFile
from cloister.app.keys.text import KEY_BYTES, MOST_KEYS, check_different, parse_keys
from cloister.core.errors import InvalidInput
from cloister.ports.keys import Key, KeyRing, Purpose

# A snapshot's MAC takes a key of any length; these few are enough.
_LEAST = {Purpose.SNAPSHOT: 16, Purpose.SECRET: KEY_BYTES}
_MOST = {Purpose.SNAPSHOT: 1024, Purpose.SECRET: KEY_BYTES}


class Keys:
    """May be asked from any thread."""

    def __init__(self, purpose: Purpose, given: object = None) -> None:
        self.purpose = purpose
        self._given = _check_given(purpose, given)
        self._file: RingFile | None = None
        # What a command said, and the command: it is run once.
        self._said: tuple[str, KeyRing] | None = None
        # Or two threads would run it at once.
        self._asking = threading.Lock()

    @property
    def variable(self) -> str:
        return f"CLOISTER_{self.purpose.upper()}_KEY"

    @property
    def origin(self) -> str:
        """One of "argument", "environment", "command", "file"."""
        if self._given is not None:
            return "argument"
        # An empty variable is not set: that is how some tools unset one.
        told, command = bool(os.environ.get(self.variable)), bool(os.environ.get(f"{self.variable}_COMMAND"))
        if told and command:
            raise InvalidInput(
                f"both {self.variable} and {self.variable}_COMMAND are set", hint="unset one: they may differ"
            )
        return "environment" if told else "command" if command else "file"

    @property
    def file(self) -> RingFile:
        """The file that the keys are in, if their origin is a file."""
        path = data_directory() / f"{self.purpose}.key"
        if self._file is None or self._file.path != path:
            self._file = RingFile(path, self.purpose)
        return self._file

    @property
    def where(self) -> str:
        """Where they come from, in words."""
        match self.origin:
            case "argument":
                return f"{self.purpose}_key="
            case "environment":
                return f"the environment variable {self.variable}"
            case "command":
                return f"the command in {self.variable}_COMMAND"
            case _:
                return str(self.file.path)

    async def ring(self, *, make: bool = False) -> KeyRing:
        """The keys as they are now; with `make`, one at least."""
        if self.origin == "command" and self._said is None:
            return await asyncio.to_thread(self.ring_now, make=make)
        return self.ring_now(make=make)

    def ring_now(self, *, make: bool = False) -> KeyRing:
        """The same, blocking."""
        if self._given is not None:
            return self._given
        match self.origin:
            case "environment":
                return self._ring(parse_keys(os.environ[self.variable], self.variable))
            case "command":
                return self._from_command(os.environ[f"{self.variable}_COMMAND"])
            case _:
                ring = self.file.ring()
                if make and not ring.keys:
                    self.file.make(int(time.time() * 1000))
                    ring = self.file.ring()
                return ring

    def _from_command(self, command: str) -> KeyRing:
        with self._asking:
            if self._said is None or self._said[0] != command:
                where = f"{self.variable}_COMMAND"
                self._said = (command, self._ring(parse_keys(output_of(command, where), f"the output of {where}")))
            return self._said[1]

    def _ring(self, materials: Sequence[bytes]) -> KeyRing:
        return KeyRing(tuple(Key.of(self.purpose, material) for material in materials))


def _check_given(purpose: Purpose, given: object) -> KeyRing | None:
    """One key as bytes, or several, the newest first."""
    if given is None:
        return None
    several = isinstance(given, (list, tuple))
    keys = tuple(cast("Sequence[object]", given)) if several else (given,)
    if not 0 < len(keys) <= MOST_KEYS:
        raise InvalidInput(f"{purpose}_key= takes a key, or up to {MOST_KEYS} of them, not {len(keys)}")
    least, most = _LEAST[purpose], _MOST[purpose]
    made: list[bytes] = []
    for key in keys:
        if not isinstance(key, bytes):
            raise InvalidInput(
                f"a {purpose} key is bytes, not {type(key).__name__}", hint="make one with secrets.token_bytes(32)"
            )
        if not least <= len(key) <= most:
            bound = f"{least} bytes" if least == most else f"at least {least} bytes and at most {most}"
            raise InvalidInput(
                f"a {purpose} key has {bound}, not {len(key)}", hint="make one with secrets.token_bytes(32)"
            )
        made.append(key)
    check_different(tuple(made), f"{purpose}_key=")
    return KeyRing(tuple(Key.of(purpose, key) for key in made))
