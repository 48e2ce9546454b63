"""The plainest thing that could be a file system, and steps to hold a real one against it."""

from hypothesis import strategies as st

PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
DOING = ("w", "a", "x", "delete", "delete all", "mkdir", "move", "copy")


class Model:
    """One dictionary, None for a directory."""

    def __init__(self) -> None:
        self.nodes: dict[str, bytes | None] = {}

    def below(self, path: str) -> list[str]:
        return [one for one in self.nodes if one.startswith(path + "/")]

    def parents(self, path: str) -> list[str]:
        parts = path.split("/")
        return ["/".join(parts[:count]) for count in range(1, len(parts))]

    def can_make(self, path: str) -> bool:
        return all(self.nodes.get(above) is None for above in self.parents(path))

    def put(self, path: str, data: bytes | None) -> bool:
        if not self.can_make(path):
            return False
        if path in self.nodes and (self.nodes[path] is None or data is None):
            return False
        self.nodes |= {above: None for above in self.parents(path) if above not in self.nodes}
        self.nodes[path] = data
        return True

    def remove(self, path: str) -> None:
        for one in [path, *self.below(path)]:
            del self.nodes[one]

    def take(self, doing: str, path: str, other: str, data: bytes) -> bool | None:
        """Whether it happened; None where it is refused."""
        old, there = self.nodes.get(path), path in self.nodes
        match doing:
            case "w":
                return self.put(path, data) or None
            case "a":
                return self.put(path, (old or b"") + data) or None
            case "x":
                return None if there else self.put(path, data) or None
            case "mkdir":
                return None if there else self.put(path, None) or None
            case "delete" | "delete all":
                if not there or (doing == "delete" and self.below(path)):
                    return False
                self.remove(path)
                return True
            case _:
                return self._transfer(doing, path, other)

    def _transfer(self, doing: str, path: str, other: str) -> bool | None:
        if path not in self.nodes:
            return None
        if path == other:
            return True
        if other.startswith(path + "/") or not self.can_make(other):
            return None
        if other in self.nodes and (self.nodes[path] is None or self.nodes[other] is None):
            return None
        taken = {other + one[len(path) :]: self.nodes[one] for one in [path, *self.below(path)]}
        if doing == "move":
            self.remove(path)
        for one, data in taken.items():
            self.nodes |= {above: None for above in self.parents(one) if above not in self.nodes}
            self.nodes[one] = data
        return True
