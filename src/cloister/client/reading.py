"""What a server answered, as the types of the core. It may be newer than we are: what is not known is kept where its
type has a place for it, and passed over where it has none. What is known and does not fit is refused by name."""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

from cloister.client.answers import Page
from cloister.client.ask import Reply
from cloister.client.errors import AnswerUnreadable
from cloister.core.cell import Completed, Failed, Interrupted, Observation, Terminated, WaitingForApproval, Yielded
from cloister.core.envelope import Envelope
from cloister.core.errors import CloisterError
from cloister.core.item import Item, item_from_json
from cloister.core.run import RunResult
from cloister.core.wire import keep_json

T = TypeVar("T")
_OBSERVED: Mapping[str, type[Any]] = {
    "yielded": Yielded,
    "waiting_for_approval": WaitingForApproval,
    "completed": Completed,
    "failed": Failed,
    "terminated": Terminated,
    "interrupted": Interrupted,
}


def received(kind: type[T], data: Any) -> T:
    """A core type as it came. Raises `AnswerUnreadable`."""
    try:
        return keep_json(kind, _known(kind, data))
    except CloisterError as error:
        raise AnswerUnreadable(f"the server's answer cannot be read: {error.message}") from error


def _known(hint: Any, data: Any) -> Any:
    """The data without what its types neither know nor have a place for, and without what is not theirs to be told."""
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(data, Mapping):
        hints, told = _fields(hint)
        keeps = "extra" in told
        return {
            name: _known(hints[name], part) if name in hints else part
            for name, part in cast("Mapping[str, Any]", data).items()
            if name in told or (keeps and name not in hints)
        }
    for inner in get_args(hint):
        if isinstance(data, list):
            data = [_known(inner, part) for part in cast("list[Any]", data)]
        elif isinstance(inner, type) and is_dataclass(inner):
            data = _known(inner, data)
    return data


@cache
def _fields(kind: type[Any]) -> tuple[Mapping[str, Any], frozenset[str]]:
    """The types of its fields, and which of them it is told when it is made."""
    return get_type_hints(kind), frozenset(one.name for one in fields(kind) if one.init)


def part(data: Any, name: str) -> Any:
    """A field of an object. Raises `AnswerUnreadable` where there is none."""
    if not isinstance(data, Mapping) or name not in data:
        raise AnswerUnreadable(f"the server's answer has no {name!r}")
    return cast("Mapping[str, Any]", data)[name]


def parts(data: Any, name: str) -> list[Any]:
    found = part(data, name)
    if not isinstance(found, list):
        raise AnswerUnreadable(f"{name!r} in the server's answer is no list")
    return cast("list[Any]", found)


def one(kind: type[T]) -> Callable[[Reply], T]:
    """Reads an answer that is one such thing."""
    return lambda reply: received(kind, reply.data)


def many(kind: type[T], name: str) -> Callable[[Reply], tuple[T, ...]]:
    """Reads an answer that has several under a name."""
    return lambda reply: tuple(received(kind, each) for each in parts(reply.data, name))


def page(kind: type[T], name: str) -> Callable[[Reply], Page[T]]:
    def read(reply: Reply) -> Page[T]:
        items = many(kind, name)(reply)
        after = cast("Mapping[str, Any]", reply.data).get("next_after")
        return Page(items, after if isinstance(after, str) else None)

    return read


def nothing(_reply: Reply) -> None:
    return None


def run_result(reply: Reply) -> RunResult:
    data = reply.data
    if isinstance(data, Mapping) and "snapshot" in data:
        said = dict(cast("Mapping[str, Any]", data))
        snapshot = decoded(said.pop("snapshot"))
        return replace(received(RunResult, said), snapshot=snapshot)
    return received(RunResult, data)


def observation(reply: Reply) -> Observation:
    status = part(reply.data, "status")
    kind = _OBSERVED.get(status) if isinstance(status, str) else None
    if kind is None:
        raise AnswerUnreadable(f"a cell's status is not known: {status!r:.80}")
    return received(kind, reply.data)


def item(reply: Reply) -> Item:
    return read_item(reply.data)


def read_item(data: Any) -> Item:
    try:
        return item_from_json(data)
    except CloisterError as error:
        raise AnswerUnreadable(f"the server's answer cannot be read: {error.message}") from error


def envelope(data: Any) -> Envelope:
    if isinstance(data, Mapping):
        said = dict(cast("Mapping[str, Any]", data))
        if said.get("previous_seq") is None and said.get("seq") is not None:
            # The first of its stream comes after none.
            said["previous_seq"] = 0
        return received(Envelope, said)
    raise AnswerUnreadable("an event in the stream is no object")


def decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise AnswerUnreadable("bytes in the server's answer are not base64") from None


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
