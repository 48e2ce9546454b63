"""What an answer took: tokens, requests, and money where the prices are known.

Cached tokens are part of the input's, reasoning tokens part of the output's: neither is counted twice. Money is exact,
has a currency, and is unknown (None where a `Cost` is expected) rather than guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from cloister.core.doc import Doc
from cloister.core.errors import InvalidInput
from cloister.core.value import Json

_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens", "requests")
_MILLION = Decimal(1_000_000)


def _empty() -> dict[str, Json]:
    return {}


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    # Of the input: read from the provider's cache, and written to it.
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    # Of the output.
    reasoning_tokens: int = 0
    # Requests that were sent, those that failed and were sent again included.
    requests: int = 0
    extra: Mapping[str, Json] = field(default_factory=_empty)

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in _COUNTS})


@dataclass(frozen=True, slots=True)
class Cost:
    amount: Decimal
    currency: str

    def __add__(self, other: "Cost") -> "Cost":
        if other.currency != self.currency:
            raise InvalidInput(f"{self.currency} and {other.currency} cannot be added up")
        return Cost(self.amount + other.amount, self.currency)


@dataclass(frozen=True, slots=True)
class Prices:
    """For a million tokens each. Cached input costs as much as other input unless its own price is known."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_write: Decimal | None = None
    currency: str = "USD"

    def of(self, usage: Usage) -> Cost:
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        amount = (
            (usage.input_tokens - cached - written) * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + usage.output_tokens * self.output
        )
        return Cost(amount / _MILLION, self.currency)


def usage_to_doc(usage: Usage) -> dict[str, Any]:
    """Counts of 0 are left out."""
    return {**usage.extra, **{name: count for name in _COUNTS if (count := getattr(usage, name))}}


def usage_from_doc(data: object, where: str = "usage") -> Usage:
    doc = Doc(data, where)
    counts = {name: doc.count(name) for name in _COUNTS}
    return Usage(**counts, extra=doc.rest())


def cost_to_doc(cost: Cost) -> dict[str, Any]:
    return {"amount": format(cost.amount, "f"), "currency": cost.currency}


def cost_from_doc(data: object, where: str = "cost") -> Cost:
    doc = Doc(data, where)
    return Cost(read_amount(doc.text("amount"), f"{where}.amount"), doc.text("currency"))


def read_amount(text: str, where: str) -> Decimal:
    """An amount of money: a decimal number of at least 0. Raises `InvalidInput`."""
    try:
        amount = Decimal(text) if len(text) <= 40 else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0 or abs(amount.adjusted()) > 30:
        raise InvalidInput(f"{where} is a decimal number of at least 0, such as 0.25")
    return amount
