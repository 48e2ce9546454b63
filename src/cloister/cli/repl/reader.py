"""Where cells come from when nobody types: lines of a pipe or a file, put together by the same rules."""

import asyncio
import codecs
import os
from typing import Protocol

from cloister.cli.failures import UsageError
from cloister.cli.repl.input import is_complete
from cloister.core.language import Language


class Cleared(Exception):
    """Whoever types has given up the line."""


class Reader(Protocol):
    async def read(self, session_id: str) -> str | None:
        """The next cell or command, None at the end. Raises `Cleared`."""
        ...

    def clear(self) -> bool:
        """Give up what is being typed; False if nothing is."""
        ...


class LineReader:
    """No prompt and no echo. What is left at the end is a cell, complete or not."""

    def __init__(self, fd: int, language: Language) -> None:
        self._fd = fd
        self._language = language
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._ended = False

    async def read(self, session_id: str) -> str | None:
        lines: list[str] = []
        while (line := await self._line()) is not None:
            lines.append(line)
            text = "\n".join(lines)
            if not text.strip():
                lines.clear()
            elif is_complete(text, self._language):
                return text.rstrip()
        return "\n".join(lines) or None

    def clear(self) -> bool:
        return False

    async def _line(self) -> str | None:
        while "\n" not in self._text and not self._ended:
            data = await self._more()
            self._ended = not data
            try:
                self._text += self._decoder.decode(data, final=self._ended)
            except UnicodeDecodeError:
                raise UsageError("standard input is not UTF-8 text") from None
        if not self._text:
            return None
        line, _, self._text = self._text.partition("\n")
        return line.removesuffix("\r")

    async def _more(self) -> bytes:
        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        try:
            # Not in a thread: one that waits for a line cannot be stopped.
            loop.add_reader(self._fd, there.set)
        except PermissionError:
            # A file, or /dev/null: reading it never waits.
            return os.read(self._fd, 65536)
        try:
            await there.wait()
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, 65536)
