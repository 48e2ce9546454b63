"""A registry as an engine's catalog: names, stubs, signatures, under one revision.

The revision is made of the tools' digests, which are kept, so asking whether anything changed is cheap. What was
rendered is kept under it, and a tool's own stub as long as the tool: one more tool costs one more stub.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Mapping
from weakref import WeakKeyDictionary

from cloister.core.capability import Capability
from cloister.core.language import Language
from cloister.ports.engine import Catalog
from cloister.tools.own import helper_stubs, own_capabilities, own_helpers, secret_stub
from cloister.tools.registry import ToolRegistry
from cloister.tools.stubs import WORDS, header, python_stub, signature_text
from cloister.tools.tool import Tool
from cloister.tools.typescript import typescript_signature, typescript_stubs


def signature_in(language: Language, capability: Capability) -> str:
    """How a program in that language writes the call."""
    if language is Language.TYPESCRIPT:
        return typescript_signature(capability)
    space = f"{capability.namespace}." if capability.namespace else ""
    return space + signature_text(capability).removeprefix("def ")


class _Signatures(Mapping[str, str]):
    """Made when they are asked for: most are never shown."""

    def __init__(self, language: Language, known: Mapping[str, Tool | Capability]) -> None:
        self._language = language
        self._known = known
        self._made: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._made:
            found = self._known[name]
            capability = found.capability if isinstance(found, Tool) else found
            self._made[name] = signature_in(self._language, capability)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


# So many hidden tools of a namespace are named one by one; of more, any name is taken.
_MOST_NAMED = 500
# The stub of a tool in a file that declares none of the words that stubs are made of.
_stubs: WeakKeyDictionary[Tool, str] = WeakKeyDictionary()


def _stub(tool: Tool, names: frozenset[str]) -> str:
    if names:
        return python_stub(tool.capability, names)
    found = _stubs.get(tool)
    if found is None:
        found = _stubs[tool] = python_stub(tool.capability, names)
    return found


def _sorted(tools: Iterable[Tool]) -> list[Tool]:
    return sorted(tools, key=lambda tool: tool.full_name)


def revision_of(registry: ToolRegistry) -> str:
    """Changes with anything of these tools that a program could see, and with nothing else."""
    return registry.revision


def render_catalog(registry: ToolRegistry, language: Language) -> Catalog:
    """What an engine of `language` must know of these tools. The stubs are made for Python only, whose engine has
    a type checker: see `render_stubs` for the text in either language."""
    tools = _sorted(registry)
    roots = _roots(tools)
    own = own_capabilities(roots)
    known: dict[str, Tool | Capability] = {made.full_name: made for made in (*own, *tools)}
    helpers = frozenset(own_helpers(language, roots))
    gone = _gone(registry, {"secret", *helpers, *(capability.name for capability in own)})
    flat, modules = "", dict[str, str]()
    if language is Language.PYTHON:
        flat, modules = _python(_sorted(registry.shown()), roots, checked=True)
        modules = _with_hidden(modules, registry, gone)
    return Catalog(
        names=frozenset(known) | gone,
        stubs=flat,
        modules=modules,
        signatures=_Signatures(language, known),
        revision=revision_of(registry),
        own=frozenset(capability.name for capability in own),
        helpers=helpers,
    )


def _gone(registry: ToolRegistry, ours: Container[str]) -> frozenset[str]:
    """The names of tools that are offered no more. A program may have them still: they can be called, so that the gate
    says what became of them, unless by now their names mean something else."""
    orphans = [name for name in registry.offered.orphans if name not in registry]
    flat = {tool.name for tool in registry if not tool.namespace}
    spaces = {tool.namespace for tool in registry} | {name.partition(".")[0] for name in orphans if "." in name}
    return frozenset(
        name
        for name in orphans
        if (root := name.partition(".")[0]) not in ours and root not in (flat if "." in name else spaces)
    )


def render_stubs(registry: ToolRegistry, language: Language) -> str:
    """All declarations as one text, for people and models to read."""
    tools, roots = _sorted(registry.shown()), _roots(registry)
    if language is Language.PYTHON:
        flat, modules = _python(tools, roots, checked=False)
        return "".join([flat, *(f"\n# --- from {name} import … ---\n{text}" for name, text in modules.items())])
    own = own_capabilities(roots)
    ours = secret_stub(language, roots) + helper_stubs(language, roots)
    return ours + typescript_stubs([*own, *(tool.capability for tool in tools)])


def _roots(tools: Iterable[Tool]) -> frozenset[str]:
    """The names that a program writes first."""
    return frozenset(tool.namespace or tool.name for tool in tools)


def _python(tools: list[Tool], roots: frozenset[str], *, checked: bool) -> tuple[str, dict[str, str]]:
    """The stubs of tools without a namespace, after our own functions, and those of each namespace."""
    flat = [tool for tool in tools if not tool.namespace]
    spaces: dict[str, list[Tool]] = {}
    for tool in tools:
        if tool.namespace:
            spaces.setdefault(tool.namespace, []).append(tool)
    names = _special(flat)
    own = [python_stub(capability, names) for capability in own_capabilities(roots)]
    helpers = helper_stubs(Language.PYTHON, roots, names, checked=checked)
    return _file(flat, [secret_stub(Language.PYTHON, roots), helpers, *own]), {
        name: _file(inside) for name, inside in spaces.items()
    }


def _with_hidden(modules: Mapping[str, str], registry: ToolRegistry, gone: Iterable[str]) -> dict[str, str]:
    """Modules with a word about the tools that are hidden or gone: they may be imported, and nothing is known of them.
    A tool without a namespace needs none, because an engine refuses no name that is in its catalog."""
    shown = {tool.full_name for tool in registry.shown()}
    hidden: dict[str, list[str]] = {}
    for tool in registry:
        if tool.namespace and tool.full_name not in shown:
            hidden.setdefault(tool.namespace, []).append(tool.name)
    for full in gone:
        space, dot, name = full.partition(".")
        if dot:
            hidden.setdefault(space, []).append(name)
    made = dict(modules)
    for space, names in hidden.items():
        rows = [f"{name}: _hidden.Any\n" for name in sorted(names)]
        if len(names) > _MOST_NAMED:
            rows = ["def __getattr__(name: object) -> _hidden.Any: ...\n"]
        made[space] = "".join(["import typing as _hidden\n", *rows, made.get(space, "")])
    return made


def _file(tools: list[Tool], first: list[str] | None = None) -> str:
    names = _special(tools)
    return "".join([header(names), *(first or []), *(_stub(tool, names) for tool in tools)])


def _special(tools: list[Tool]) -> frozenset[str]:
    """The names that mean something in a stub file already: its words, and what might be one of its types."""
    return frozenset(tool.name for tool in tools if tool.name in WORDS or tool.name.startswith("_"))


class CatalogCache:
    """The catalogs that were rendered lately, by language and revision."""

    def __init__(self, keep: int = 16) -> None:
        self._keep = keep
        self._made: OrderedDict[tuple[Language, str], Catalog] = OrderedDict()

    def get(self, registry: ToolRegistry, language: Language) -> Catalog:
        key = (language, revision_of(registry))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = render_catalog(registry, language)
            while len(self._made) > self._keep:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return found
