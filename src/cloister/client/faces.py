"""A method of a client, made of the function that says what it asks: the same arguments, the answer for the `Ask`.

`Now` returns when it is done, `Later` is awaited. One line for each method is all that the two clients do not share.
"""

from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from cloister.client.ask import Ask

P = ParamSpec("P")
T = TypeVar("T")


class Sends(Protocol):
    def send(self, ask: Ask[T]) -> T: ...


class Posts(Protocol):
    async def send(self, ask: Ask[T]) -> T: ...


class Room:
    """The methods of one noun, for a client that waits."""

    def __init__(self, client: Sends) -> None:
        self._client = client

    def send(self, ask: Ask[T]) -> T:
        return self._client.send(ask)


class AsyncRoom:
    def __init__(self, client: Posts) -> None:
        self._client = client

    async def send(self, ask: Ask[T]) -> T:
        return await self._client.send(ask)


class Now(Generic[P, T]):
    def __init__(self, asks: Callable[P, Ask[T]]) -> None:
        self._asks = asks
        self.__doc__ = asks.__doc__

    def __get__(self, room: Sends, kind: type[Any]) -> Callable[P, T]:
        asks = self._asks

        def done(*args: P.args, **kwargs: P.kwargs) -> T:
            return room.send(asks(*args, **kwargs))

        return update_wrapper(done, asks)


class Later(Generic[P, T]):
    def __init__(self, asks: Callable[P, Ask[T]]) -> None:
        self._asks = asks
        self.__doc__ = asks.__doc__

    def __get__(self, room: Posts, kind: type[Any]) -> Callable[P, Awaitable[T]]:
        asks = self._asks

        async def done(*args: P.args, **kwargs: P.kwargs) -> T:
            return await room.send(asks(*args, **kwargs))

        return update_wrapper(done, asks)
