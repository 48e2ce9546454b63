"""What hosts give as options, checked: each is of its kind, or refused with what it should be."""

from dataclasses import replace

from cloister.core.cell import CellLimits
from cloister.core.durability import Durability, parse_durability
from cloister.core.errors import InvalidInput
from cloister.core.event import EventRetention
from cloister.core.language import parse_language
from cloister.core.limits import SessionLimits
from cloister.core.wire import from_json
from cloister.gate import Wiring
from cloister.ports.engine import TypeCheck
from cloister.ports.model import Models
from cloister.ports.rows import SessionRow
from cloister.ports.store import Store
from cloister.ports.telemetry import Telemetry
from cloister.sessions.grounds import SessionOptions
from cloister.stores.memory import MemoryJournal

_MOST_WAIT_MS = 24 * 3_600_000


def check_limits(limits: object) -> SessionLimits | None:
    if limits is None or isinstance(limits, SessionLimits):
        return limits
    raise InvalidInput(
        f"limits are SessionLimits, not {type(limits).__name__}", hint="write SessionLimits(wall_ms=...)"
    )


def check_cells(limits: object) -> CellLimits:
    if limits is None:
        return CellLimits()
    if isinstance(limits, CellLimits):
        return limits
    raise InvalidInput(f"cells are CellLimits, not {type(limits).__name__}", hint="write CellLimits(max_queued=...)")


def parse_type_check(value: object) -> TypeCheck:
    try:
        return TypeCheck(value)
    except ValueError:
        raise InvalidInput(f"type_check is 'strict', 'warn' or 'off', not {value!r}") from None


def check_workers(workers: object) -> None:
    if workers is not None and (type(workers) is not int or workers < 1):
        raise InvalidInput(f"workers must be a whole number of at least 1, not {workers!r}")


def check_wait(wait_ms: object) -> int:
    if type(wait_ms) is not int or not 0 <= wait_ms <= _MOST_WAIT_MS:
        raise InvalidInput(f"wait_ms must be a whole number from 0 to {_MOST_WAIT_MS}, not {wait_ms!r}")
    return wait_ms


def check_since(since: object) -> int:
    if type(since) is not int or since < 0:
        raise InvalidInput(f"since is the number of an event, not {since!r}", hint="0 is before all of them")
    return since


def level_for(asked: object, store: Store | None) -> Durability | None:
    """The level that was asked for, which only a store can keep; None if none was."""
    if asked is None:
        return None
    level = parse_durability(asked)
    if store is None and level is not Durability.NONE:
        raise InvalidInput(
            f"durability={str(level)!r} needs a store that outlives the process", hint="give store='sqlite:///...'"
        )
    return level


def check_retention(retention: object, store: Store | None) -> EventRetention:
    if retention is None:
        return EventRetention()
    if not isinstance(retention, EventRetention):
        raise InvalidInput(
            f"event_retention is an EventRetention, not {type(retention).__name__}",
            hint="write EventRetention(max_age_ms=...)",
        )
    if store is None:
        raise InvalidInput("event_retention is about the log of a store", hint="give store='sqlite:///...'")
    return retention


def check_telemetry(telemetry: Telemetry | None) -> Telemetry | None:
    if telemetry is not None and not callable(getattr(telemetry, "told", None)):
        raise InvalidInput(
            f"telemetry is an OpenTelemetry, not a {type(telemetry).__name__}",
            hint="from cloister.telemetry import OpenTelemetry",
        )
    return telemetry


def check_models(models: Models | None, model: object, telemetry: Telemetry | None) -> tuple[Models | None, str | None]:
    if models is not None and not callable(getattr(models, "get", None)):
        raise InvalidInput(
            f"models are a ModelRegistry, or have its `get`, unlike a {type(models).__name__}",
            hint="write models=ModelRegistry()",
        )
    if model is not None and (not isinstance(model, str) or not model):
        raise InvalidInput(f"model is the name of one, not {model!r:.80}")
    if model is not None and models is None:
        raise InvalidInput(
            f"there are no models for {model!r:.80} to be one of", hint="give them too: models=ModelRegistry()"
        )
    return telemetry.models(models) if models is not None and telemetry is not None else models, model


def without_journal(wiring: Wiring) -> Wiring:
    """For sessions whose calls are not written down."""
    return replace(wiring, journal=MemoryJournal())


def options_of(row: SessionRow, limits: SessionLimits | None) -> SessionOptions:
    """Those of a session that is written down, with limits no wider than it had."""
    doc = row.doc
    return SessionOptions(
        id=row.id,
        language=parse_language(doc["language"]),
        limits=from_json(SessionLimits, doc["limits"]).narrowed_by(limits),
        type_check=TypeCheck(doc["type_check"]),
        title=doc["title"],
        tenant=row.tenant,
        labels=doc["labels"],
        durability=Durability(doc["durability"]),
        environments=tuple(doc.get("environments", ())),
    )
