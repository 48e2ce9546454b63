"""An OpenAPI document as plain JSON: read from JSON or YAML, within bounds, and with its local references followed.

YAML can name a part and use it again; what such a part adds up to is bounded before anybody walks through it. Nothing
is ever fetched on behalf of a document: a reference that leads out of it is named and refused where it is used.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

from cloister.core.errors import InvalidInput
from cloister.core.value import Bounds, ValueRefused, plain

MAX_BYTES = 32 << 20
# Of what it adds up to once every part is written out.
_BOUNDS = Bounds(depth=100, nodes=4_000_000, size=128 << 20)
_MOST_MERGED = 100_000
_MOST_STEPS = 32
_VERSION = re.compile(r"3\.[01]\.\d+(-.+)?")


class Unusable(Exception):
    """A part of a document that is not supported, or not right. The message names it."""


class Document:
    """The parts of a document, and where references in it lead."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.is_3_0 = str(root.get("openapi")).startswith("3.0")
        self._targets: dict[str, Any] = {}
        # By pointer: a reference out of the document that is reached from there, or None.
        self._remote: dict[str, str | None] = {}

    def target(self, reference: str) -> Any:
        """What a reference leads to. Raises `Unusable`."""
        if reference not in self._targets:
            self._targets[reference] = self._find(reference)
        return self._targets[reference]

    def _find(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise Unusable(f"it refers to {_shown(reference)}, outside of the document, and nothing is ever fetched")
        if not reference.startswith("#/"):
            raise Unusable(f"it refers to {_shown(reference)}; a reference is followed if it begins with '#/'")
        found: Any = self.root
        for word in unquote(reference[1:]).split("/")[1:]:
            word = word.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and word in found:
                found = cast("dict[str, Any]", found)[word]
            elif isinstance(found, list) and re.fullmatch("[0-9]{1,6}", word) and int(word) < len(cast("Any", found)):
                found = cast("list[Any]", found)[int(word)]
            else:
                raise Unusable(f"it refers to {_shown(reference)}, where there is nothing")
        return found

    def part(self, given: Any, what: str) -> dict[str, Any]:
        """An object of the document with the references that stand in its place followed. Raises `Unusable`."""
        for _ in range(_MOST_STEPS):
            if not isinstance(given, dict):
                raise Unusable(f"{what} is not an object")
            found = cast("dict[str, Any]", given)
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return found
            given = self.target(reference)
        raise Unusable(f"{what} is a reference that leads in a circle")

    def remote_reference(self, given: Any) -> str | None:
        """A reference out of the document, or to nowhere, that can be reached from a schema."""
        found, waiting = references_in(given), set[str]()
        while True:
            for reference in found:
                if reference not in self._remote:
                    self._remote[reference] = None
                    try:
                        target = self.target(reference)
                    except Unusable:
                        self._remote[reference] = reference
                        return reference
                    waiting.update(references_in(target))
                elif self._remote[reference] is not None:
                    return self._remote[reference]
            if not waiting:
                return None
            found, waiting = waiting, set[str]()


def references_in(given: Any) -> set[str]:
    found: set[str] = set()
    todo: list[Any] = [given]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            one = cast("dict[str, Any]", part)
            if isinstance(one.get("$ref"), str):
                found.add(one["$ref"])
            # What merely shows a value may look like a reference and is none.
            todo.extend(value for key, value in one.items() if key not in ("example", "examples", "default", "enum"))
        elif isinstance(part, list):
            todo.extend(cast("list[Any]", part))
    return found


def read_document(given: bytes | str | Mapping[str, Any], what: str) -> Document:
    """Raises `InvalidInput` that names `what` and the line where there is one."""
    loaded: Any = given
    if isinstance(given, (bytes, str)):
        loaded = _parse(given, what)
    try:
        root = plain(loaded, _BOUNDS)
    except ValueRefused as refused:
        raise InvalidInput(f"{what} cannot be taken: {refused.message}", hint="give a smaller document") from None
    if not isinstance(root, dict):
        raise InvalidInput(f"{what} is not an object", hint="an OpenAPI document begins with `openapi: 3.1.0`")
    version = root.get("openapi")
    if "swagger" in root and version is None:
        raise InvalidInput(f"{what} is Swagger {root['swagger']}", hint="convert it to OpenAPI 3")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise InvalidInput(f"{what}: `openapi` is {version!r}", hint="versions 3.0 and 3.1 are supported")
    if not isinstance(root.get("paths", {}), dict):
        raise InvalidInput(f"{what}: `paths` is not an object", hint="it maps each path to its operations")
    return Document(root)


def _parse(given: bytes | str, what: str) -> Any:
    if len(given) > MAX_BYTES:
        raise InvalidInput(f"{what} has more than {MAX_BYTES >> 20} MiB", hint="give a smaller document")
    try:
        text = given.decode("utf-8-sig") if isinstance(given, bytes) else given
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} is not UTF-8: byte {error.start}") from None
    try:
        if text.lstrip()[:1] in ("{", "["):
            return json.loads(text, parse_constant=_no_constant)
        return _yaml(text, what)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidInput(f"{what} cannot be taken: it is nested too deep") from None
    except ValueError as error:
        raise InvalidInput(f"{what} cannot be taken: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _yaml(text: str, what: str) -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    merged = depth = 0

    class Loader(base):
        def flatten_mapping(self, node: Any) -> None:
            """A merge copies: ten merges of ten of ten are a thousand pairs. Each is counted before it is made."""
            nonlocal merged, depth
            depth += 1
            super().flatten_mapping(node)  # pyright: ignore[reportUnknownMemberType]
            depth -= 1
            if depth:
                merged += len(node.value)
            if merged > _MOST_MERGED:
                raise ValueError("its `<<` merges add up to too much")

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a safe loader, with less than it
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise InvalidInput(f"{what} is not YAML: {error.problem or 'it cannot be read'}{place}") from None
    except yaml.YAMLError as error:
        raise InvalidInput(f"{what} is not YAML: {str(error)[:200]}") from None


def members(given: Any) -> Iterator[tuple[str, Any]]:
    """The members of an object; none of anything else."""
    if isinstance(given, dict):
        yield from cast("dict[str, Any]", given).items()


def _shown(reference: str) -> str:
    return repr(reference if len(reference) <= 120 else f"{reference[:120]}…")
