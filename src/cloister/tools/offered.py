"""What sources and plugins offer, put together: one immutable mapping from names to tools that sessions can share.

Who offers what comes in order. Two offers of one name are refused with both named or, where a running session must go
on, the first is kept and the second told. A name that was offered before and no longer is stays known as an orphan.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cloister.core.digest import digest_bytes
from cloister.core.errors import InvalidInput
from cloister.tools.tool import Tool

_HINT = 'rename one of them, or give a source a namespace of its own: Overlay(source, namespace="...")'
# So many names that are gone are remembered.
_MOST_ORPHANS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What one of them offers. `whose` is for people: "source 'shop'"."""

    whose: str
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, eq=False)
class Offered:
    offers: tuple[Offer, ...] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    # Full name -> who had it.
    orphans: Mapping[str, str] = field(default_factory=dict[str, str])
    # Names that were left out because somebody else has them.
    conflicts: tuple[str, ...] = ()

    @cached_property
    def namespaces(self) -> frozenset[str]:
        return frozenset(tool.namespace for tool in self.tools.values() if tool.namespace)

    @cached_property
    def flat(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools.values() if not tool.namespace)

    @cached_property
    def revision(self) -> str:
        """Changes with anything of these tools that a program could see."""
        return digest_bytes("".join(mark_of(tool) for tool in self.tools.values()).encode()) if self.tools else ""

    def after(self, before: "Offered") -> "Offered":
        """The same, knowing what was offered before."""
        gone = {name: before.whose(name) for name in before.tools if name not in self.tools}
        kept = {name: whose for name, whose in before.orphans.items() if name not in self.tools}
        orphans = {**kept, **gone}
        if not orphans:
            return self
        lasting = dict(list(orphans.items())[-_MOST_ORPHANS:])
        return Offered(self.offers, self.tools, lasting, self.conflicts)

    def whose(self, name: str) -> str:
        """Who offers it."""
        tool = self.tools.get(name)
        return next((offer.whose for offer in self.offers if tool in offer.tools), "the host")


NOTHING_OFFERED = Offered()


def mark_of(tool: Tool) -> str:
    """What a catalog's revision has of a tool. Of a hidden one, what it is found by."""
    if is_hidden(tool):
        return "\0".join(["", tool.full_name, tool.description, *tool.parameters, ""])
    return tool.digest


def is_hidden(tool: Tool) -> bool:
    """Whether it is left out of prompts and stubs until somebody asks for it."""
    return tool.defer_loading or not tool.is_known


def merge(
    offers: Sequence[Offer], held: Iterable[Tool] = (), *, strict: bool = True, before: Offered = NOTHING_OFFERED
) -> Offered:
    """`held` are tools that come before all offers. Raises `InvalidInput` for what cannot stand together; without
    `strict` it is left out, and named in `conflicts`. Then who had a name `before` keeps it: nobody can take over what
    a program has called until now."""
    whose: dict[str, str] = {}
    spaces: dict[str, str] = {}
    for tool in held:
        whose[tool.full_name] = "the host"
        if tool.namespace:
            spaces.setdefault(tool.namespace, "the host")
    tools: dict[str, Tool] = {}
    conflicts: list[str] = []
    known = {} if strict else _still_offered(offers, before)
    for offer in offers:
        for tool in offer.tools:
            clash = _clash(tool, whose, spaces)
            if known.get(tool.full_name, offer.whose) != offer.whose:
                clash = f"{tool.full_name!r} is a tool of {known[tool.full_name]}"
            if clash is None:
                tools[tool.full_name] = tool
                whose[tool.full_name] = offer.whose
                if tool.namespace:
                    spaces.setdefault(tool.namespace, offer.whose)
            elif strict:
                raise InvalidInput(f"{clash} and of {offer.whose}", hint=_HINT)
            else:
                conflicts.append(tool.full_name)
    return Offered(tuple(offers), tools, conflicts=tuple(conflicts))


def _still_offered(offers: Sequence[Offer], before: Offered) -> dict[str, str]:
    """Whose the names are that were offered before, and are now by the same."""
    had = {
        tool.full_name: offer.whose
        for offer in before.offers
        for tool in offer.tools
        if before.tools.get(tool.full_name) is tool
    }
    return {
        tool.full_name: offer.whose
        for offer in offers
        for tool in offer.tools
        if had.get(tool.full_name) == offer.whose
    }


def _clash(tool: Tool, whose: Mapping[str, str], spaces: Mapping[str, str]) -> str | None:
    name, space = tool.full_name, tool.namespace
    if name in whose:
        return f"{name!r} is a tool of {whose[name]}"
    if space is not None and space in whose:
        return f"{space!r} cannot be a namespace as well: it is a tool of {whose[space]}"
    if space is None and name in spaces:
        return f"{name!r} cannot be a tool as well: it is a namespace of {spaces[name]}"
    return None


class MergeCache:
    """What was put together lately. Sessions with the same sources share it."""

    def __init__(self, keep: int = 32) -> None:
        self._keep = keep
        self._made: OrderedDict[tuple[Offer, ...], Offered] = OrderedDict()

    def get(self, offers: tuple[Offer, ...]) -> Offered:
        """Raises `InvalidInput` as `merge` does."""
        if not offers:
            return NOTHING_OFFERED
        found = self._made.get(offers)
        if found is None:
            found = self._made[offers] = merge(offers)
            while len(self._made) > self._keep:
                self._made.popitem(last=False)
        self._made.move_to_end(offers)
        return found
