"""The tools of a host, by the name that programs write. The generation counts every change."""

from collections import Counter
from collections.abc import Iterable, Iterator

from cloister.core.capability import Capability, capability_digest
from cloister.core.errors import InvalidInput
from cloister.tools.tool import Tool, as_tool


class ToolRegistry:
    def __init__(self, tools: Iterable[object] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        # How many tools each namespace has.
        self._namespaces: Counter[str] = Counter()
        self.generation = 0
        for candidate in tools:
            self.register(candidate)

    def register(self, candidate: object) -> Tool:
        found = as_tool(candidate)
        if found.full_name in self._tools:
            raise InvalidInput(f"there is a tool {found.full_name!r} already: rename one, or use replace()")
        return self.replace(found)

    def replace(self, candidate: object) -> Tool:
        found = as_tool(candidate)
        # A namespace and a plain tool of one name could not both be written in a program.
        both = found.namespace if found.namespace in self._tools else found.full_name
        if found.namespace in self._tools or found.full_name in self._namespaces:
            raise InvalidInput(
                f"{both!r} would be the name of a namespace and of a tool",
                hint="rename one of them",
            )
        # A tool that cannot be described is refused now, and not in the middle of somebody's run.
        _ = found.capability
        if found.full_name not in self._tools and found.namespace is not None:
            self._namespaces[found.namespace] += 1
        self._tools[found.full_name] = found
        self.generation += 1
        return found

    def remove(self, name: str) -> None:
        found = self._tools.pop(name, None)
        if found is None:
            raise InvalidInput(f"there is no tool {name!r}", hint=f"there are {', '.join(self.names()[:20]) or 'none'}")
        if found.namespace is not None:
            self._namespaces[found.namespace] -= 1
            self._namespaces += Counter()
        self.generation += 1

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def names(self) -> list[str]:
        return sorted(self._tools)

    def capabilities(self) -> list[Capability]:
        return [self._tools[name].capability for name in self.names()]

    def digests(self) -> dict[str, str]:
        """Each tool's full name and what a suspended program relies on of it."""
        return {name: capability_digest(tool.capability) for name, tool in self._tools.items()}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools
