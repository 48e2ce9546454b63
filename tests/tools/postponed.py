"""Handlers whose hints are text when they are read, some of it about names that only type checkers import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

from pydantic import BaseModel

from cloister.tools.context import CallContext

if TYPE_CHECKING:
    from cloister.tools import context
    from cloister.tools.context import CallContext as Hidden

Alias = CallContext


def plain(order_id: str, ctx: CallContext) -> str:
    return f"{order_id} {ctx.call_id}"


def optional(order_id: str, ctx: CallContext | None = None) -> str:
    return order_id


def old_optional(order_id: str, ctx: Optional[CallContext] = None) -> str:  # noqa: UP045
    return order_id


def annotated(order_id: str, ctx: Annotated[CallContext, "the call"]) -> str:
    return order_id


def aliased(order_id: str, ctx: Alias) -> str:
    return order_id


def unseen(order_id: str, ctx: context.CallContext | None = None) -> str:
    return order_id


def renamed_unseen(order_id: str, ctx: Hidden) -> str:
    return order_id


class Parcel(BaseModel):
    weight: int


def send(parcel: Parcel, fast: bool = False) -> Parcel:
    return parcel


async def several(amount: int, ctx: CallContext, note: str = "") -> int:
    return amount
