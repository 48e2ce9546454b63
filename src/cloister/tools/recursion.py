"""What pydantic would spend on alternatives that mention each other and that nothing tells apart.

It tries each alternative at each level, so the work grows by that factor with every level. A program must not stop
its host with one nested argument: such work is added up before it is begun. A discriminator makes it go away.
"""

from typing import Any, cast

from cloister.core.value import Json

# Attempts, of some thirty microseconds each.
_MOST = 20_000


def branches(schema: dict[str, Any]) -> int:
    """How many alternatives are tried at each level of recursive types; 1 where there are none."""
    definitions = cast("dict[str, Any]", schema.get("$defs", {}))
    mentions = {name: set(_references(part)) for name, part in definitions.items()}
    recursive = {name for name in definitions if _reaches(name, mentions)}
    return max([1, *(_options(part, recursive) for part in [schema, *definitions.values()])])


def is_endless(value: Json, factor: int) -> bool:
    """Whether to try `factor` alternatives at each level of objects in `value` would take too long."""
    if factor < 2:
        return False
    spent = 0
    todo: list[tuple[Json, int]] = [(value, 1)]
    while todo:
        part, cost = todo.pop()
        if isinstance(part, dict):
            spent += cost
            todo.extend((one, cost * factor) for one in part.values() if isinstance(one, (dict, list)))
        elif isinstance(part, list):
            todo.extend((one, cost) for one in part if isinstance(one, (dict, list)))
        if spent > _MOST:
            return True
    return False


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        given = cast("dict[str, Any]", schema)
        own = given.get("$ref")
        found = [own.rsplit("/", 1)[-1]] if isinstance(own, str) else []
        return found + [name for one in given.values() for name in _references(one)]
    return [name for one in cast("list[Any]", schema) for name in _references(one)] if isinstance(schema, list) else []


def _reaches(name: str, mentions: dict[str, set[str]]) -> bool:
    """Whether the type mentions itself, however far around."""
    seen: set[str] = set()
    todo = list(mentions[name])
    while todo:
        one = todo.pop()
        if one == name:
            return True
        if one not in seen:
            seen.add(one)
            todo.extend(mentions.get(one, ()))
    return False


def _options(schema: Any, recursive: set[str]) -> int:
    """The most alternatives of one union in it that are recursive. Those with a discriminator are `oneOf`."""
    if isinstance(schema, list):
        return max((_options(one, recursive) for one in cast("list[Any]", schema)), default=0)
    if not isinstance(schema, dict):
        return 0
    given = cast("dict[str, Any]", schema)
    union = cast("list[Any]", given["anyOf"]) if isinstance(given.get("anyOf"), list) else []
    own = sum(any(name in recursive for name in _references(one)) for one in union)
    return max([own, *(_options(one, recursive) for name, one in given.items() if name != "$defs")])
