"""The reading threads: a few connections, each in a thread of its own, so that no read waits for a commit.

A read begins after it was asked for, so it sees all that was acknowledged by then.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw
import zstandard

from cloister.core.errors import CloisterError, InvalidInput
from cloister.stores.sqlite.link import Link
from cloister.stores.sqlite.trouble import damaged, trouble

T = TypeVar("T")


class Readers:
    def __init__(self, links: Sequence[Link], path: str, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._queue: queue.SimpleQueue[tuple[Callable[[Link], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(link,), name=f"cloister-reader {path}", daemon=True)
            for link in links
        ]
        for thread in self._threads:
            thread.start()

    async def read(self, query: Callable[[Link], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((query, future))
        return await future

    def close(self) -> None:
        """Waits until all that was asked is answered."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, link: Link) -> None:
        while (asked := self._queue.get()) is not None:
            query, future = asked
            value, error = self._ask(link, query)
            try:
                self._loop.call_soon_threadsafe(_settle, future, value, error)
            except RuntimeError:
                # The loop is closed: nobody is there who could wait.
                pass
            # Or the last answer would be held until the next question.
            del asked, query, future, value, error
        link.close()

    def _ask(self, link: Link, query: Callable[[Link], Any]) -> tuple[Any, Any]:
        try:
            return query(link), None
        except apsw.Error as error:
            return None, trouble(error, self._path)
        except CloisterError as error:
            return None, error
        except UnicodeEncodeError:
            return None, InvalidInput("a key has half a surrogate pair in it")
        except (ValueError, TypeError, zstandard.ZstdError) as error:
            # SQLite found the row, but what is in it is not what was written: its pages have no checksums.
            return None, damaged(self._path, f"a row cannot be read: {error}")
        except Exception as error:  # noqa: BLE001
            # Told to the caller; the thread goes on for the others.
            return None, error


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
