"""The journal conformance suite: what every journal does, as sentences, each with a check.

Parametrize a test over `BEHAVIOURS` and call `await behaviour.check(journal)` with an open, empty journal that
forgets nothing as small as these.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from cloister.core.call import CallStatus
from cloister.core.capability import SideEffect
from cloister.core.diagnostic import ErrorObject, Span
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.ports.journal import Entry, Intent, Journal, Settled, call_key
from cloister.testing.behaviour import Chapter

_behaviour = Chapter[Journal]()
# Filled in below.
BEHAVIOURS = _behaviour.behaviours


def make_intent(number: int = 1, cell_id: str = "cel_a", *, idempotent: bool = True, arguments: Json = None) -> Intent:
    """An intent to try a journal with."""
    return Intent(
        key=call_key(cell_id, number),
        call_id=f"cal_{number}",
        session_id="ses_a",
        cell_id=cell_id,
        number=number,
        name="shop.refund",
        side_effect=SideEffect.WRITE,
        idempotent=idempotent,
        arguments=arguments,
        request_digest=f"{number:064x}",
        at_ms=1_000 + number,
    )


def make_settled(number: int = 1, cell_id: str = "cel_a", value: Json = None) -> Settled:
    """The settlement of `make_intent` with the same number and cell."""
    return Settled(call_key(cell_id, number), CallStatus.OK, 2_000 + number, value=value, response_digest="d" * 64)


_HARD: list[Json] = [
    {"b": 1, "a": [None, True, False, 0.1, -0.0, 1e308]},
    {"": "", "key with \u2028, \U0001f600 and \x00": "text with \ud800 alone"},
    [2**53 + 1, -(2**200), 10**300],
    [[[[[[[["deep"]]]]]]]],
    "",
    [],
    {},
    0,
    False,
    None,
]


async def _refused(writing: Awaitable[None]) -> str:
    try:
        await writing
    except InvalidInput as refusal:
        return refusal.message
    raise AssertionError("it was not refused")


async def _wins(writings: list[Awaitable[None]]) -> list[int]:
    """The places of those that were written; all others must have been refused."""
    outcomes = await asyncio.gather(*writings, return_exceptions=True)
    strange = [outcome for outcome in outcomes if outcome is not None and not isinstance(outcome, InvalidInput)]
    assert not strange, strange
    return [place for place, outcome in enumerate(outcomes) if outcome is None]


@_behaviour("a key that nobody wrote is unknown")
async def _nothing(journal: Journal) -> None:
    assert await journal.look_up("cel_a/1") is None
    assert await journal.of_cell("cel_a") == []


@_behaviour("an intent is there when intend returns, and has no settlement")
async def _intended(journal: Journal) -> None:
    intent = make_intent(arguments={"order_id": "A7"})
    await journal.intend(intent)
    assert await journal.look_up(intent.key) == Entry(intent, settled=None, attempts=1)


@_behaviour("a settlement is there when settle returns, beside its intent")
async def _settled(journal: Journal) -> None:
    await journal.intend(make_intent())
    await journal.settle(make_settled(value=[1, "two"]))
    assert await journal.look_up("cel_a/1") == Entry(make_intent(), make_settled(value=[1, "two"]))


@_behaviour("arguments and values come back equal and of the same types, whatever JSON they are")
async def _round_trip(journal: Journal) -> None:
    for number, value in enumerate(_HARD):
        await journal.intend(make_intent(number, arguments=value))
        await journal.settle(make_settled(number, value=value))
        entry = await journal.look_up(call_key("cel_a", number))
        assert entry is not None
        assert entry.settled is not None
        for read in (entry.intent.arguments, entry.settled.value):
            # Equality alone takes False for 0 and -0.0 for 0.
            assert repr(read) == repr(value), f"{read!r} is not {value!r}"


@_behaviour("an error comes back with its code, message, hint and span, and so does every status that ends a call")
async def _errors(journal: Journal) -> None:
    error = ErrorObject("NO_STOCK", "no \u00bb§\u00ab left", "order \nless", Span(1, 2, 3, 4))
    ends = [status for status in CallStatus if status not in (CallStatus.OK, CallStatus.APPROVAL_PENDING)]
    for number, status in enumerate(ends):
        settled = Settled(call_key("cel_a", number), status, 5, error=error)
        await journal.intend(make_intent(number))
        await journal.settle(settled)
        entry = await journal.look_up(settled.key)
        assert entry is not None
        assert entry.settled == settled


@_behaviour("an idempotent call that is made again is one more attempt, and its first intent stands")
async def _again(journal: Journal) -> None:
    first = make_intent()
    await journal.intend(first)
    for _ in range(2):
        await journal.intend(replace(first, call_id="cal_other", at_ms=9_999))
    assert await journal.look_up(first.key) == Entry(first, attempts=3)
    await journal.settle(make_settled())
    assert await journal.look_up(first.key) == Entry(first, make_settled(), attempts=3)


@_behaviour("a call that is not idempotent has one intent, even for the same request")
async def _once(journal: Journal) -> None:
    intent = make_intent(idempotent=False)
    await journal.intend(intent)
    await _refused(journal.intend(intent))
    # What was intended first counts, not what is claimed later.
    await _refused(journal.intend(replace(intent, idempotent=True)))
    assert await journal.look_up(intent.key) == Entry(intent, attempts=1)


@_behaviour("another request under the same key is refused by the key, and changes nothing")
async def _another(journal: Journal) -> None:
    intent = make_intent()
    await journal.intend(intent)
    others = [
        replace(intent, request_digest="f" * 64),
        replace(intent, name="shop.pay"),
        replace(intent, session_id="ses_b"),
        replace(intent, cell_id="cel_b"),
        replace(intent, number=2),
    ]
    for other in others:
        assert repr(intent.key) in await _refused(journal.intend(other))
    assert await journal.look_up(intent.key) == Entry(intent, attempts=1)
    assert await journal.of_cell("cel_b") == []


@_behaviour("a settled call is not made again, idempotent or not")
async def _over(journal: Journal) -> None:
    await journal.intend(make_intent())
    await journal.settle(make_settled())
    await _refused(journal.intend(make_intent()))
    assert await journal.look_up("cel_a/1") == Entry(make_intent(), make_settled(), attempts=1)


@_behaviour("an idempotent call whose end is unknown may be made again, and then has an end of its own")
async def _reopened(journal: Journal) -> None:
    await journal.intend(make_intent())
    await journal.settle(Settled("cel_a/1", CallStatus.UNKNOWN, 5, error=ErrorObject("CANCELLED", "stopped")))
    await journal.intend(make_intent())
    assert await journal.look_up("cel_a/1") == Entry(make_intent(), settled=None, attempts=2)
    await journal.settle(make_settled(value="second"))
    assert await journal.look_up("cel_a/1") == Entry(make_intent(), make_settled(value="second"), attempts=2)
    await _refused(journal.intend(make_intent()))


@_behaviour("a call that is not idempotent and whose end is unknown is not made again")
async def _never_again(journal: Journal) -> None:
    intent = make_intent(idempotent=False)
    unknown = Settled(intent.key, CallStatus.UNKNOWN, 5, error=ErrorObject("CANCELLED", "stopped"))
    await journal.intend(intent)
    await journal.settle(unknown)
    await _refused(journal.intend(intent))
    assert await journal.look_up(intent.key) == Entry(intent, unknown, attempts=1)


@_behaviour("a second settlement is refused by the key, and the first stands")
async def _second(journal: Journal) -> None:
    await journal.intend(make_intent())
    await journal.settle(make_settled(value="first"))
    assert "'cel_a/1'" in await _refused(journal.settle(make_settled(value="second")))
    # The very same is refused too: whoever sends it twice has lost count.
    await _refused(journal.settle(make_settled(value="first")))
    assert await journal.look_up("cel_a/1") == Entry(make_intent(), make_settled(value="first"))


@_behaviour("a settlement without an intent is refused by the key, and leaves nothing behind")
async def _unintended(journal: Journal) -> None:
    assert "'cel_a/1'" in await _refused(journal.settle(make_settled()))
    assert await journal.look_up("cel_a/1") is None


@_behaviour("to wait for approval is no settlement")
async def _pending(journal: Journal) -> None:
    await journal.intend(make_intent())
    await _refused(journal.settle(replace(make_settled(), status=CallStatus.APPROVAL_PENDING)))
    assert await journal.look_up("cel_a/1") == Entry(make_intent())


@_behaviour("the calls of a cell come in the order of their numbers, however they were written")
async def _in_order(journal: Journal) -> None:
    numbers = [10, 2, 1, 33, 9]
    for number in numbers:
        await journal.intend(make_intent(number))
    for number in (33, 2):
        await journal.settle(make_settled(number))
    entries = await journal.of_cell("cel_a")
    assert [entry.intent.number for entry in entries] == [1, 2, 9, 10, 33]
    assert [entry.settled is not None for entry in entries] == [False, True, False, False, True]


@_behaviour("a cell has its own calls and nobody else's")
async def _own(journal: Journal) -> None:
    # Ids that contain one another, and the wildcards of SQL.
    cells = ["cel_a", "cel_a/1", "cel", "cel%a", "CEL_A"]
    for cell_id in cells:
        await journal.intend(make_intent(1, cell_id))
    for cell_id in cells:
        assert await journal.of_cell(cell_id) == [Entry(make_intent(1, cell_id))]


@_behaviour("of a hundred settlements at once, one is written")
async def _race_to_settle(journal: Journal) -> None:
    await journal.intend(make_intent())
    [winner] = await _wins([journal.settle(make_settled(value=n)) for n in range(100)])
    assert await journal.look_up("cel_a/1") == Entry(make_intent(), make_settled(value=winner))


@_behaviour("of settlements at once with values so big that they are not written at once, one is written")
async def _race_of_the_big(journal: Journal) -> None:
    await journal.intend(make_intent())
    values: list[list[Json]] = [[n] * 10_000 for n in range(10)]
    [winner] = await _wins([journal.settle(make_settled(value=value)) for value in values])
    assert await journal.look_up("cel_a/1") == Entry(make_intent(), make_settled(value=values[winner]))


@_behaviour("of a hundred intents at once for a call that must not happen twice, one is written")
async def _race_to_intend(journal: Journal) -> None:
    intents = [replace(make_intent(idempotent=False), call_id=f"cal_{n}") for n in range(100)]
    [winner] = await _wins([journal.intend(intent) for intent in intents])
    assert await journal.look_up("cel_a/1") == Entry(intents[winner], attempts=1)


@_behaviour("of a hundred attempts at once, each is counted")
async def _race_of_attempts(journal: Journal) -> None:
    await asyncio.gather(*(journal.intend(make_intent()) for _ in range(100)))
    assert await journal.look_up("cel_a/1") == Entry(make_intent(), attempts=100)


@_behaviour("a big value is written whole")
async def _big(journal: Journal) -> None:
    value: Json = [{"n": n, "text": "x" * 50} for n in range(10_000)]
    await journal.intend(make_intent(arguments=value))
    await journal.settle(make_settled(value=value))
    entry = await journal.look_up("cel_a/1")
    assert entry == Entry(make_intent(arguments=value), make_settled(value=value))
