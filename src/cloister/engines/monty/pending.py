"""The calls of the program under way: what was asked, what is answered, what is still waited for.

Bookkeeping only; nothing here talks to Monty. It travels with a suspended program's bytes.
"""

from typing import Any

from cloister.core.diagnostic import ErrorObject
from cloister.ports.engine import Call, Raised, Settlement


class Pending:
    def __init__(self) -> None:
        # Calls made so far, timers included: the last number given.
        self.made = 0
        # Tool calls made so far: what the limit counts.
        self.calls = 0
        # Monty's call id -> our number, for those that Monty has not been answered.
        self.numbers: dict[int, int] = {}
        self.waiting: dict[int, Call] = {}
        self.announced: set[int] = set()
        # The number of a time.sleep that blocks the whole program.
        self.blocking: int | None = None
        self.answers: dict[int, Any] = {}
        # What we told the program of failed calls, as it will read if nobody catches it.
        self.raised: dict[str, ErrorObject] = {}

    def settle(self, settlement: Settlement) -> None:
        if isinstance(settlement, Raised):
            error = settlement.error
            text = f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")
            self.raised[f"RuntimeError: {text}"] = error
            self.answers[settlement.number] = {"exc_type": "RuntimeError", "message": text}
        else:
            self.answers[settlement.number] = {"return_value": settlement.value}

    def ready(self, call_ids: list[int]) -> dict[int, Any]:
        """Of these calls those that are answered, with their answers; they are over with this."""
        waited = {self.numbers[call_id]: call_id for call_id in call_ids}
        # As they were settled: Monty names what it waits for in no order, and wakes in the order that it is told in.
        found = {waited[number]: answer for number, answer in self.answers.items() if number in waited}
        for call_id in found:
            self.over(self.numbers.pop(call_id))
        return found

    def over(self, number: int) -> None:
        self.answers.pop(number, None)
        self.waiting.pop(number, None)

    def announce(self, awaiting: frozenset[int]) -> tuple[Call, ...]:
        """Those that nobody has been told of. A call counts once something waits for it: in Python a coroutine that
        nobody awaits does not run."""
        new = sorted(awaiting - self.announced)
        self.announced.update(new)
        return tuple(self.waiting[number] for number in new)

    def leftover(self) -> tuple[Call, ...]:
        """The program is over: what it still waited for, or never did."""
        if not self.waiting and not self.numbers:
            return ()
        calls = tuple(self.waiting.values())
        self.waiting, self.numbers = {}, {}
        return calls

    def to_json(self) -> dict[str, Any]:
        unheard = [call for call in self.waiting.values() if call.number not in self.announced]
        return {
            "made": self.made,
            "calls": self.calls,
            "numbers": list(self.numbers.items()),
            "announced": sorted(self.announced & set(self.waiting)),
            "waiting": [[call.number, call.name, call.kind] for call in self.waiting.values()],
            # Arguments that were told already are in the record of whoever was told.
            "unheard": [[c.number, list(c.args), dict(c.kwargs), c.size, _said(c.refused)] for c in unheard],
            "blocking": self.blocking,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Pending":
        pending = cls()
        pending.made, pending.calls = data["made"], data["calls"]
        pending.numbers = dict(data["numbers"])
        pending.announced = set(data["announced"])
        pending.blocking = data["blocking"]
        unheard: dict[int, list[Any]] = {number: rest for number, *rest in data["unheard"]}
        for number, name, kind in data["waiting"]:
            args, kwargs, size, said = unheard.get(number, [(), {}, 0, None])
            refused = ErrorObject(*said) if said is not None else None
            pending.waiting[number] = Call(number, name, tuple(args), kwargs, kind, refused, size)
        return pending


def _said(refused: ErrorObject | None) -> list[str | None] | None:
    return [refused.code, refused.message, refused.hint] if refused is not None else None
