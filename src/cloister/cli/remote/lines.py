"""Lines of standard input, as they come: from a pipe, a file, or typed while a turn goes on, with no prompt."""

import asyncio
import codecs
import os

from cloister.cli.failures import UsageError


class Lines:
    """A reader that is cancelled loses nothing: the next one goes on."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""

    async def next(self) -> str | None:
        """The next line, None at the end; at a terminal there may be more after that."""
        ended = False
        while "\n" not in self._text and not ended:
            data = await self._more()
            ended = not data
            try:
                self._text += self._decoder.decode(data, final=ended)
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
        try:
            return os.read(self._fd, 65536)
        except OSError:  # the terminal is gone
            return b""
