"""A YAML (or JSON) file as nodes that know on which line they stand, so that an error can say it.

Bounded in size, depth and number of nodes. Aliases and tags are refused: a script needs neither, and both are ways to
make a small file large. Knows nothing of what a script is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cloister.core.errors import InvalidConfig

MAX_BYTES = 4 << 20
_MOST_NODES = 100_000
_MOST_DEPTH = 40

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Node:
    value: "Scalar | tuple[Node, ...] | dict[str, Node]"
    line: int
    # Such as `answers[2].exec`.
    path: str
    file: str

    def wrong(self, reason: str, hint: str | None = None) -> InvalidConfig:
        return InvalidConfig(f"{self.file}:{self.line}: {self.path or 'the file'}", reason, hint=hint)

    def kind(self) -> str:
        match self.value:
            case None:
                return "nothing"
            case dict():
                return "names with values"
            case tuple():
                return "a list"
            case bool():
                return "true or false"
            case str():
                return "a text"
            case _:
                return "a number"

    def plain(self) -> Any:
        """As JSON."""
        if isinstance(self.value, dict):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value


def read_nodes(path: Path) -> Node:
    if path.exists() and not path.is_file():
        # A pipe would be waited for.
        raise InvalidConfig(str(path), "is no file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidConfig(str(path), f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise InvalidConfig(str(path), f"is larger than {MAX_BYTES >> 20} MiB, and so no script")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{path}:{data.count(10, 0, error.start) + 1}", "is not UTF-8 text") from None
    return parse_nodes(text, str(path))


def parse_nodes(text: str, name: str) -> Node:
    """Raises `InvalidConfig` with the line."""
    import yaml

    library: Any = yaml
    base: Any = getattr(library, "CSafeLoader", library.SafeLoader)
    try:
        _bound(library.parse(text, base), name)
        loader = base(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise InvalidConfig(name, "is empty")
            return _node(loader, root, "", name)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        raise InvalidConfig(where, f"is not YAML: {error.problem or 'it cannot be read'}") from None
    except yaml.YAMLError as error:
        raise InvalidConfig(name, f"is not YAML: {str(error)[:200]}") from None


def _bound(events: Iterator[Any], name: str) -> None:
    """Before anything is built of it."""
    depth = 0
    for count, event in enumerate(events):
        kind = type(event).__name__
        line = event.start_mark.line + 1
        if kind == "AliasEvent" or getattr(event, "anchor", None):
            raise InvalidConfig(f"{name}:{line}", "has an alias", hint="write it out: aliases are not read here")
        if getattr(event, "tag", None):
            raise InvalidConfig(f"{name}:{line}", f"has the tag {event.tag[:60]!r}", hint="leave it out")
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            depth += 1
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            depth -= 1
        if depth > _MOST_DEPTH or count > _MOST_NODES:
            raise InvalidConfig(f"{name}:{line}", "is nested too deeply" if depth > _MOST_DEPTH else "is too much")


def _node(loader: Any, given: Any, path: str, name: str) -> Node:
    line = given.start_mark.line + 1
    match given.id:
        case "mapping":
            parts: dict[str, Node] = {}
            for key_node, part in given.value:
                key = key_node.value if key_node.id == "scalar" else None
                where = Node(None, key_node.start_mark.line + 1, path, name)
                if not isinstance(key, str):
                    raise where.wrong("has a key that is no text")
                if key in parts:
                    raise where.wrong(f"says {key[:80]!r} twice")
                parts[key] = _node(loader, part, f"{path}.{key[:80]}" if path else key[:80], name)
            return Node(parts, line, path, name)
        case "sequence":
            items = [_node(loader, part, f"{path}[{at}]", name) for at, part in enumerate(given.value)]
            return Node(tuple(items), line, path, name)
        case _:
            return Node(_scalar(loader, given, Node(None, line, path, name)), line, path, name)


def _scalar(loader: Any, given: Any, where: Node) -> Scalar:
    try:
        value: object = loader.construct_object(given)
    except (ValueError, OverflowError):
        raise where.wrong("is a number that cannot be read", hint="put it in quotes if it is a text") from None
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    # A date, for example: it was meant as it is written.
    return str(given.value)
