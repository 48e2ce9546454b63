"""How the record of a cell's course is written, where it is not the course's own: the catalog, stored values in brief,
and both of them for people to read."""

import json
from collections.abc import Mapping
from typing import Any

from cloister.core.digest import canonical_json, digest_bytes
from cloister.core.value import Json
from cloister.ports.engine import Catalog

_BRIEF = 200
_SHOWN = 300


def brief(value: Json) -> Json:
    """A small value as it is, in a list; of a larger one its digest."""
    data = canonical_json(value)
    return [value] if len(data) <= _BRIEF else digest_bytes(data)


def show_brief(value: Json) -> str:
    return shown(value[0]) if isinstance(value, list) else f"a value with the digest {value}"


def catalog_to_json(catalog: Catalog) -> dict[str, Any]:
    """What a program can tell one catalog from another by. Stubs and signatures are for checks and hints."""
    return {
        "revision": catalog.revision,
        "names": sorted(catalog.names),
        "own": sorted(catalog.own),
        "helpers": sorted(catalog.helpers),
    }


def catalog_from_json(doc: Mapping[str, Any], mark: str) -> Catalog:
    names, own, helpers = (frozenset(doc[part]) for part in ("names", "own", "helpers"))
    return Catalog(names=names, own=own, helpers=helpers, revision=doc["revision"], mark=mark)


def shown(value: Any) -> str:
    """JSON for people, cut where it is long."""
    return short(json.dumps(value, ensure_ascii=False, default=str))


def short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
