"""The catalog of a registry: names, stubs and signatures, under a revision that says whether they changed."""

import ast
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from cloister import Cloister
from cloister.core.capability import Capability, SideEffect
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits
from cloister.ports.helping import HELPERS
from cloister.tools import Tool, ToolRegistry, catalog
from cloister.tools.catalog import CatalogCache, render_catalog, render_stubs
from cloister.tools.own import OWN
from tests.tools.typescript_parser import declared


def find(order_id: str) -> str:
    """Find it."""
    return order_id


def find_many(order_id: str, most: int = 5) -> str:
    return order_id * most


def _revision(*tools: Tool, language: Language = Language.PYTHON) -> str:
    return render_catalog(ToolRegistry(tools), language).revision


def _functions(stubs: str) -> list[str]:
    """What is declared, in order: functions, and the names that a type checker is told of as variables."""
    out: list[str] = []
    for node in ast.parse(stubs).body:
        if isinstance(node, (ast.AsyncFunctionDef, ast.FunctionDef)):
            out.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            out.append(node.target.id)
    return out


# -- names and stubs ----------------------------------------------------------------------------------------------


def test_catalog_names_every_tool_as_programs_write_it() -> None:
    made = render_catalog(ToolRegistry([Tool(find), Tool(find, namespace="shop")]), Language.PYTHON)
    assert made.names == {"find", "shop.find", *OWN}
    assert {name: made.signatures[name] for name in ("find", "shop.find")} == {
        "find": "find(order_id: str) -> str",
        "shop.find": "shop.find(order_id: str) -> str",
    }


def test_signatures_are_a_mapping_of_all_names() -> None:
    made = render_catalog(ToolRegistry([Tool(find)]), Language.TYPESCRIPT)
    assert set(made.signatures) == made.names
    assert len(made.signatures) == len(made.names)
    assert "find" in made.signatures
    assert "fnd" not in made.signatures
    assert made.signatures.get("fnd") is None
    assert made.signatures["find"] == "find({order_id: string}): Promise<string>"


def test_catalog_has_stubs_of_plain_tools_and_modules_of_namespaces() -> None:
    made = render_catalog(ToolRegistry([Tool(find), Tool(find_many, namespace="shop")]), Language.PYTHON)
    assert _functions(made.stubs) == ["secret", *HELPERS, *OWN, "find"]
    assert {name: _functions(text) for name, text in made.modules.items()} == {"shop": ["find_many"]}


def test_catalog_of_nothing_has_our_own_functions() -> None:
    made = render_catalog(ToolRegistry(), Language.PYTHON)
    assert made.names == made.own == frozenset(OWN)
    assert made.helpers == frozenset(HELPERS)
    assert _functions(made.stubs) == ["secret", *HELPERS, *OWN]
    assert made.modules == {}
    assert made.signatures["describe_tool"] == "describe_tool(name: str) -> ToolDescription"


@pytest.mark.parametrize("language", Language)
def test_tool_or_namespace_stands_in_front_of_our_own_function_of_its_name(language: Language) -> None:
    tools = [Tool(find, name="list_tools"), Tool(find, name="secret"), Tool(find, namespace="current_policy")]
    made = render_catalog(ToolRegistry(tools), language)
    assert made.own == {"describe_tool", "search_tools"}
    assert made.names == {"list_tools", "secret", "current_policy.find", "describe_tool", "search_tools"}
    text = render_stubs(ToolRegistry(tools), language)
    if language is Language.PYTHON:
        assert _functions(made.stubs) == [*HELPERS, "search_tools", "describe_tool", "list_tools", "secret"]
        assert made.signatures["list_tools"] == "list_tools(order_id: str) -> str"
    else:
        functions = [name for name in declared(text) if name.startswith("function")]
        helpers = [f"function {name}" for name in HELPERS]
        assert functions == [
            *helpers,
            "function search_tools",
            "function describe_tool",
            "function list_tools",
            "function secret",
        ]


@pytest.mark.parametrize("language", Language)
def test_tool_or_namespace_stands_in_front_of_the_helper_of_its_name(language: Language) -> None:
    tools = [Tool(find, name="text"), Tool(find, namespace="store"), Tool(find, name="exit"), Tool(find, name="Any")]
    made = render_catalog(ToolRegistry(tools), language)
    files = {"files"} if language is Language.TYPESCRIPT else set[str]()
    assert made.helpers == {"image", "notify", "load", "yield_control"} | files
    text = render_stubs(ToolRegistry(tools), language)
    if language is Language.PYTHON:
        for stubs in (made.stubs, text):
            assert "def load(key: str) -> _typing.Any" in stubs or "load: _load_Helper | _typing.Any\n" in stubs
            assert sorted(_functions(stubs)).count("text") == 1
        assert "store" not in _functions(made.stubs)
    else:
        assert [name for name in declared(text) if name in ("function store", "function text")] == ["function text"]


@pytest.mark.parametrize("tool", [Tool(find, name="files"), Tool(find, namespace="files")], ids=["tool", "namespace"])
def test_tool_or_namespace_stands_in_front_of_files(tool: Tool) -> None:
    registry = ToolRegistry([tool])
    assert "files" not in render_catalog(registry, Language.TYPESCRIPT).helpers
    assert "const files" not in declared(render_stubs(registry, Language.TYPESCRIPT))


def test_helpers_are_read_as_functions_and_checked_as_what_a_program_may_assign_to() -> None:
    registry = ToolRegistry([Tool(find)])
    assert "def text(value: Any) -> None:" in render_stubs(registry, Language.PYTHON)
    assert "\ntext: _text_Helper | Any\n" in render_catalog(registry, Language.PYTHON).stubs


def test_typescript_catalog_has_no_python_in_it_and_renders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> str:
        raise AssertionError("nobody asked for a stub")

    for name in ("python_stub", "typescript_stubs", "signature_in"):
        monkeypatch.setattr(catalog, name, never)
    made = render_catalog(ToolRegistry([Tool(find), Tool(find, namespace="shop")]), Language.TYPESCRIPT)
    assert (made.stubs, made.modules) == ("", {})
    assert made.names == {"find", "shop.find", *OWN}


def test_tools_named_like_types_are_told_apart_in_every_file() -> None:
    tools = [
        Tool(find, name="str", namespace="texts"),
        Tool(find_many, name="int", namespace="shop"),
        Tool(find, name="find"),
    ]
    made = render_catalog(ToolRegistry(tools), Language.PYTHON)
    for text, word in ((made.modules["texts"], "str"), (made.modules["shop"], "int")):
        names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
        assert not [node for node in names if node.id == word]
        assert "import builtins as _builtins\n" in text


def test_stubs_are_one_text_in_either_language() -> None:
    registry = ToolRegistry([Tool(find), Tool(find_many, namespace="shop")])
    python = render_stubs(registry, Language.PYTHON)
    assert _functions(python) == ["secret", *HELPERS, *OWN, "find", "find_many"]
    assert "# --- from shop import … ---\n" in python
    typescript = render_stubs(registry, Language.TYPESCRIPT)
    assert [name for name in declared(typescript) if not name.startswith("interface")] == [
        *(f"function {name}" for name in ("secret", *HELPERS)), "const files",
        *(f"function {name}" for name in (*OWN, "find")), "namespace shop", "const tools",
    ]  # fmt: skip
    for name in (*OWN, "find", "shop"):
        assert f"\n  {name}: typeof {name};\n" in typescript


# -- revision -----------------------------------------------------------------------------------------------------


def test_revision_is_the_same_for_the_same_tools_in_any_order() -> None:
    assert _revision(Tool(find), Tool(find_many)) == _revision(Tool(find_many), Tool(find))


def test_revision_of_nothing_is_always_the_same_and_differs_from_that_of_something() -> None:
    assert _revision() == _revision() != _revision(Tool(find))


@pytest.mark.parametrize(
    "changed",
    [
        lambda: Tool(find, name="found"),
        lambda: Tool(find, namespace="shop"),
        lambda: Tool(find, description="other words"),
        lambda: Tool(find, side_effect=SideEffect.READ),
        lambda: Tool(find_many, name="find", description="Find it."),
    ],
    ids=["name", "namespace", "description", "side effect", "parameters"],
)
def test_revision_changes_with_anything_a_program_could_see(changed: Callable[[], Any]) -> None:
    assert _revision(changed()) != _revision(Tool(find))


def test_revision_does_not_change_with_what_no_program_sees() -> None:
    assert _revision(Tool(find, limits=CapabilityLimits(timeout_ms=1), idempotent=False)) == _revision(Tool(find))


# -- kept ---------------------------------------------------------------------------------------------------------


class _Renders:
    """Counts what is rendered, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.catalogs = 0
        stub, whole = catalog.python_stub, catalog.render_catalog

        def counted_stub(capability: Capability, *more: Any) -> str:
            self.names.append(capability.full_name)
            return stub(capability, *more)

        def counted_whole(registry: ToolRegistry, language: Language) -> Any:
            self.catalogs += 1
            return whole(registry, language)

        monkeypatch.setattr(catalog, "python_stub", counted_stub)
        monkeypatch.setattr(catalog, "render_catalog", counted_whole)


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> _Renders:
    return _Renders(monkeypatch)


def test_same_tools_are_rendered_once(renders: _Renders) -> None:
    cache = CatalogCache()
    first = cache.get(ToolRegistry([Tool(find), Tool(find_many)]), Language.PYTHON)
    before = list(renders.names)
    assert {"find", "find_many"} <= set(before)
    assert cache.get(ToolRegistry([Tool(find_many), Tool(find)]), Language.PYTHON) is first
    assert (renders.names, renders.catalogs) == (before, 1)


@pytest.mark.anyio
async def test_second_session_with_the_same_tools_renders_nothing(renders: _Renders) -> None:
    async with Cloister(tools=[find]) as cloister:
        for name in ("one", "two"):
            session = await cloister.open_session(name, tools=[find_many])
            assert (await session.validate("await find('a'), await find_many('b')")).ok
            assert renders.catalogs == 1
            assert sorted(renders.names) == sorted(["find", "find_many", *OWN])


def test_each_language_has_its_own(renders: _Renders) -> None:
    cache, registry = CatalogCache(), ToolRegistry([Tool(find)])
    python, typescript = cache.get(registry, Language.PYTHON), cache.get(registry, Language.TYPESCRIPT)
    assert python.revision == typescript.revision
    assert python.stubs
    assert not typescript.stubs
    assert cache.get(registry, Language.PYTHON) is python
    assert renders.catalogs == 2


def test_changed_registry_is_rendered_anew_and_one_more_tool_costs_one_more_stub(renders: _Renders) -> None:
    cache, registry = CatalogCache(), ToolRegistry([Tool(find)])
    first = cache.get(registry, Language.PYTHON)
    renders.names.clear()
    registry.register(Tool(find_many))
    second = cache.get(registry, Language.PYTHON)
    assert second.revision != first.revision
    assert [name for name in renders.names if name not in OWN] == ["find_many"]
    registry.remove("find_many")
    assert cache.get(registry, Language.PYTHON) is first


def test_cache_forgets_what_was_not_asked_for_longest(renders: _Renders) -> None:
    cache = CatalogCache(keep=2)
    one, two, three = (ToolRegistry([Tool(find, name=name)]) for name in ("one", "two", "three"))
    kept = cache.get(one, Language.PYTHON)
    cache.get(two, Language.PYTHON)
    assert cache.get(one, Language.PYTHON) is kept
    cache.get(three, Language.PYTHON)
    assert renders.catalogs == 3
    assert cache.get(one, Language.PYTHON) is kept
    assert renders.catalogs == 3
    cache.get(two, Language.PYTHON)
    assert renders.catalogs == 4


def test_asking_for_the_revision_again_looks_into_no_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, cache = ToolRegistry([Tool(find), Tool(find_many)]), CatalogCache()
    first = cache.get(registry, Language.PYTHON)

    def never(*_: Any) -> str:
        raise AssertionError("the schemas were digested again")

    for name in ("capability_digest", "digest_json"):
        monkeypatch.setattr(import_module("cloister.tools.tool"), name, never)
    assert cache.get(registry, Language.PYTHON) is first
