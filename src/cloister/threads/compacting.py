"""Compaction of one thread: a summary in place of what was said up to some item, from the next request on.

The log stays whole. A summary that the model has made is journalled before it is used, under the item that it goes up
to: asked for again after a crash, it is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cloister.core.errors import InvalidInput, within
from cloister.core.item import ContextCompaction, Item, ItemKind
from cloister.core.thread import Thread
from cloister.core.turn import Status, TurnUsage
from cloister.core.wire import to_json
from cloister.ports.rows import AnswerRow, Put
from cloister.ports.store import Store
from cloister.threads.driver import Driver, ModelDriver
from cloister.threads.open_turn import compacted, settled_answers
from cloister.threads.pen import Pen
from cloister.threads.rows import all_items, ms_of

_KEEP_LAST = 1
MAX_SUMMARY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Made:
    text: str
    # What is known of a summary that a model made.
    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """The thread, and where it is written down. Of `live` turns nobody knows yet how they end."""

    thread: Thread
    pen: Pen
    store: Store
    live: Sequence[str]


async def compact(
    place: Place,
    driver: Driver | None,
    summary: str | None = None,
    through_item_id: str | None = None,
    keep_last: int | None = None,
) -> Item:
    """Up to `through_item_id`, or all but the last `keep_last` turns. Without a `summary`, the driver's model makes
    one."""
    thread, pen, store = place.thread, place.pen, place.store
    _check(summary, through_item_id, keep_last)
    items = await all_items(store, thread.id)
    through = through_item_id or _before_last(items, _KEEP_LAST if keep_last is None else keep_last)
    found = next((item for item in items if item.id == through), None)
    if found is None:
        with within("through_item_id"):
            raise InvalidInput(f"thread {thread.id!r} has no item {through!r}")
    if found.turn_id in place.live and summary is None:
        raise InvalidInput(
            f"turn {found.turn_id!r} has not ended", hint="keep it: keep_last=1, or a through_item_id before it"
        )
    made = _Made(summary, {}) if summary is not None else await _asked(place, driver, items, found.id)
    now = pen.now()
    item = Item(
        pen.new_id("itm_"),
        thread.id,
        items[-1].turn_id,
        ItemKind.CONTEXT_COMPACTION,
        Status.COMPLETED,
        now,
        ContextCompaction(made.text, found.id, made.about),
        now,
    )
    await pen.write(*pen.item(item))
    return item


def through_before(items: Sequence[Item], turn_ids: Sequence[str]) -> str | None:
    """The last item of these turns, if there is anything up to there that has not been compacted."""
    gone = [item for item in items if item.turn_id in turn_ids and not isinstance(item.detail, ContextCompaction)]
    past = [item.detail.through_item_id for item in items if isinstance(item.detail, ContextCompaction)]
    through = gone[-1].id if gone else None
    return through if through is not None and through > max(past, default="") else None


async def answers_so_far(store: Store, items: Sequence[Item]) -> int:
    """How often a model has answered in this thread."""
    turns = dict.fromkeys(item.turn_id for item in items)
    given = [len(await settled_answers(store, turn_id)) for turn_id in turns]
    return sum(given) + sum(map(was_asked, items))


def was_asked(item: Item) -> bool:
    """Whether it is a summary that a model made outside of a turn."""
    return isinstance(item.detail, ContextCompaction) and item.detail.extra.get("asked") is True


async def _asked(place: Place, driver: Driver | None, items: Sequence[Item], through: str) -> _Made:
    thread, pen, store = place.thread, place.pen, place.store
    if not isinstance(driver, ModelDriver):
        raise InvalidInput(f"thread {thread.id!r} has no model to summarise it", hint="give it a summary")
    choice = driver.choose(thread, None, switch_provider=False)
    under = f"compact:{through}"
    known = await settled_answers(store, under)
    if known:
        return _Made(str(known[0].answer["summary"]), _about(choice.model, known[0].usage))
    shown = [item for item in compacted(items) if item.id <= through or isinstance(item.detail, ContextCompaction)]
    made = await driver.summarise(choice, shown, await answers_so_far(store, items), pen.now)
    doc = {"answer": {**made.answer, "summary": made.text}, "usage": to_json(made.usage)}
    row = AnswerRow(under, 1, pen.session_id, thread.id, made.request_digest, ms_of(pen.now()), doc)
    await pen.write(Put(row))
    return _Made(made.text, _about(choice.model, made.usage))


def _about(model: str, usage: TurnUsage) -> dict[str, Any]:
    return {"asked": True, "model": model, "usage": to_json(usage)}


def _before_last(items: Sequence[Item], keep_last: int) -> str:
    turns = list(dict.fromkeys(item.turn_id for item in items if not isinstance(item.detail, ContextCompaction)))
    through = through_before(items, turns[: len(turns) - keep_last] if keep_last else turns)
    if through is None:
        raise InvalidInput(
            f"before the last {keep_last} of {len(turns)} turns there is nothing to compact", hint="keep fewer of them"
        )
    return through


def _check(summary: object, through_item_id: object, keep_last: object) -> None:
    if summary is not None and (not isinstance(summary, str) or not summary.strip()):
        raise InvalidInput("a summary is a text, and says something")
    if isinstance(summary, str) and len(summary.encode("utf-8", "replace")) > MAX_SUMMARY_BYTES:
        raise InvalidInput(f"a summary has at most {MAX_SUMMARY_BYTES} bytes")
    if through_item_id is not None and keep_last is not None:
        raise InvalidInput("give through_item_id or keep_last: each says how far it goes")
    if keep_last is not None and (type(keep_last) is not int or keep_last < 0):
        raise InvalidInput(f"keep_last is how many turns are kept, not {keep_last!r:.80}")
