"""The tools of a session, by the name that programs write: its own, and what sources and plugins offer to it.

Its own may change one by one. What is offered is shared with other sessions and changes as a whole. The generation
counts every change. A tool that is deferred is hidden, from prompts and from type checks, until it is `shown`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from cloister.core.capability import Capability
from cloister.core.digest import digest_bytes
from cloister.core.errors import InvalidInput
from cloister.tools.offered import NOTHING_OFFERED, Offered, is_hidden, mark_of
from cloister.tools.tool import Tool, as_tool


class ToolRegistry:
    def __init__(self, tools: Iterable[object] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        # How many tools each namespace has.
        self._namespaces: Counter[str] = Counter()
        self._offered = NOTHING_OFFERED
        # Deferred tools that somebody has asked for, in that order.
        self._asked_for: dict[str, None] = {}
        # Of its own tools, as long as they are the same.
        self._own_revision: str | None = None
        self.generation = 0
        for candidate in tools:
            self.register(candidate)

    def copy(self) -> "ToolRegistry":
        """Another with the same tools; what is registered with one of them is not registered with the other."""
        made = ToolRegistry()
        made._tools = self._tools.copy()
        made._namespaces = self._namespaces.copy()
        made._offered = self._offered
        made._asked_for = self._asked_for.copy()
        made._own_revision = self._own_revision
        made.generation = self.generation
        return made

    # -- its own -----------------------------------------------------------------------------------------------

    def register(self, candidate: object) -> Tool:
        found = as_tool(candidate)
        if found.full_name in self._tools:
            raise InvalidInput(f"there is a tool {found.full_name!r} already: rename one, or use replace()")
        return self.replace(found)

    def replace(self, candidate: object) -> Tool:
        found = as_tool(candidate)
        name, space, offered = found.full_name, found.namespace, self._offered
        if name in offered.tools:
            raise InvalidInput(f"{name!r} is a tool of {offered.whose(name)} already: rename one of them")
        # A namespace and a plain tool of one name could not both be written in a program.
        both = space if space in self._tools or space in offered.flat else name
        if both == space or name in self._namespaces or name in offered.namespaces:
            raise InvalidInput(
                f"{both!r} would be the name of a namespace and of a tool",
                hint="rename one of them",
            )
        # A tool that cannot be described is refused now, and not in the middle of somebody's run.
        _ = found.capability
        if name not in self._tools and space is not None:
            self._namespaces[space] += 1
        self._tools[name] = found
        self._own_revision = None
        self.generation += 1
        return found

    def remove(self, name: str) -> None:
        found = self._tools.pop(name, None)
        if found is None:
            raise InvalidInput(f"there is no tool {name!r}", hint=f"there are {', '.join(self.names()[:20]) or 'none'}")
        if found.namespace is not None:
            self._namespaces[found.namespace] -= 1
            self._namespaces += Counter()
        self._own_revision = None
        self.generation += 1

    def own(self) -> Iterable[Tool]:
        """Those that nobody else offers."""
        return self._tools.values()

    # -- what is offered -----------------------------------------------------------------------------------------

    @property
    def offered(self) -> Offered:
        return self._offered

    def offer(self, offered: Offered) -> None:
        """From now on this is what is offered. It must not clash with the tools here: see `clashes_with`."""
        if offered is not self._offered:
            self._offered = offered
            self.generation += 1

    def clashes_with(self, offered: Offered) -> bool:
        """Whether a name would mean two things."""
        own = self._tools.keys()
        return not (
            own.isdisjoint(offered.tools)
            and own.isdisjoint(offered.namespaces)
            and self._namespaces.keys().isdisjoint(offered.flat)
        )

    # -- all of them ---------------------------------------------------------------------------------------------

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name) or self._offered.tools.get(name)

    def names(self) -> list[str]:
        return sorted([*self._tools, *self._offered.tools])

    def capabilities(self) -> list[Capability]:
        return [tool.capability for tool in sorted(self, key=lambda tool: tool.full_name)]

    def digests(self) -> dict[str, str]:
        """Its own tools by full name, and what a suspended program relies on of each. What is offered may come and
        go while a program sleeps: the gate refuses by name what is not there."""
        return {name: tool.capability_digest for name, tool in self._tools.items()}

    def show(self, tool: Tool) -> None:
        """Somebody has asked for it: it is hidden no longer."""
        name = tool.full_name
        if tool.is_known and name not in self._asked_for and is_hidden(tool) and self.get(name) is tool:
            self._asked_for[name] = None
            self.generation += 1

    def shown(self) -> list[Tool]:
        """Those that are not hidden, in the order in which they came."""
        asked = [tool for name in self._asked_for if (tool := self.get(name)) is not None and tool.is_known]
        return [*(tool for tool in self if not is_hidden(tool)), *(tool for tool in asked if is_hidden(tool))]

    @property
    def content(self) -> str:
        """Changes with what there is to find here, shown or hidden."""
        if self._own_revision is None:
            own = sorted(self._tools.values(), key=lambda tool: tool.full_name)
            self._own_revision = digest_bytes("".join(map(mark_of, own)).encode())
        return f"{self._own_revision}:{self._offered.revision}"

    @property
    def revision(self) -> str:
        """Changes with anything of these tools that a program could see, and with nothing else."""
        asked = [tool.digest for tool in self.shown() if is_hidden(tool)] if self._asked_for else []
        return digest_bytes("\n".join([self.content, *asked, *sorted(self._offered.orphans)]).encode())

    def __iter__(self) -> Iterator[Tool]:
        yield from self._tools.values()
        yield from self._offered.tools.values()

    def __len__(self) -> int:
        return len(self._tools) + len(self._offered.tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools or name in self._offered.tools
