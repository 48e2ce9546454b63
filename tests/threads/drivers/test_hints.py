"""Mistakes that models make with programs: met, or answered with what to do instead."""

import json
from pathlib import Path

import pytest

from cloister import tool
from cloister.core.item import CellRun
from cloister.core.language import Language
from cloister.core.turn import Status
from cloister.threads.drivers.fences import blocks_of, unfenced
from tests.threads.drivers.lab import FENCED, FUNCTIONS, host, said_of, scripted, talk, work

pytestmark = pytest.mark.anyio


@tool
async def get_order(order_id: str) -> dict[str, object]:
    return {"id": order_id, "total": 12}


@tool(namespace="shop")
async def refund(order_id: str) -> str:
    return f"paid {order_id}"


MISTAKES = [
    (Language.PYTHON, 'await tools.get_order(order_id="A7")', "by its own name"),
    (Language.PYTHON, 'o = get_order(order_id="A7")\no["total"]', "add `await`"),
    (Language.PYTHON, 'get_order(order_id="A7").get("total")', "hint: add `await`"),
    (Language.PYTHON, 'import get_order\nawait get_order(order_id="A7")', "without an import"),
    (Language.PYTHON, 'import tools\nawait tools.get_order(order_id="A7")', "without an import"),
    (Language.PYTHON, 'from tools import get_order\nawait get_order(order_id="A7")', "without an import"),
    (Language.PYTHON, "from shop import refnd", "did you mean `from shop import refund`?"),
    (Language.PYTHON, "from shop import prices", "`shop` has `refund`"),
    (Language.PYTHON, 'await get_ordr(order_id="A7")', "did you mean `get_order`?"),
    (Language.PYTHON, "await rain_tomorrow()", "the tools here are `get_order`, `shop.refund`"),
    (Language.PYTHON, 'await refund(order_id="A7")', "did you mean `shop.refund`?"),
    (Language.PYTHON, 'await shop.refund(order_id="A7")', "from shop import refund"),
    (Language.PYTHON, 'get = require("get_order")', "without an import"),
    (Language.PYTHON, "Here it is:\n```python\n1\n```", "no words around it"),
    (Language.PYTHON, "```python\n1\n```\nThat is one.", "without the ``` lines"),
    (Language.PYTHON, "return 1", "the value of a cell is its last expression"),
    (Language.PYTHON, "asyncio.sleep(1)", "write `import asyncio` first"),
    (
        Language.PYTHON,
        "import asyncio\nawait asyncio.gather(get_order(order_id='A7'), return_exceptions=True)",
        "catch errors in an async function of your own",
    ),
    (Language.PYTHON, "import asyncio\nawait asyncio.wait_for(get_order(order_id='A7'), 5)", "asyncio.gather"),
    (Language.PYTHON, "import asyncio\nasync with asyncio.timeout(5):\n    1", "use plain calls"),
    (Language.PYTHON, "const o = 1;", "write it in Python"),
    (Language.TYPESCRIPT, 'const g = require("get_order");', "tools are global"),
    (Language.TYPESCRIPT, 'import { get_order } from "tools";', "tools are global"),
    (Language.TYPESCRIPT, 'const t = await import("tools");', "tools are global"),
    (Language.TYPESCRIPT, 'tools.get_order({order_id: "A7"})', "add `await`"),
    (Language.TYPESCRIPT, 'for (const o of get_order({order_id: "A7"})) {}', "add `await`"),
    (Language.TYPESCRIPT, 'await get_ordr({order_id: "A7"})', "did you mean `get_order`?"),
    (Language.TYPESCRIPT, "await tools.rain_tomorrow({})", "the tools here are `get_order`, `shop.refund`"),
    (Language.TYPESCRIPT, 'await refund({order_id: "A7"})', "did you mean `shop.refund`?"),
    (Language.TYPESCRIPT, 'await tools.get_ordr({order_id: "A7"})', "did you mean `get_order`?"),
    (Language.TYPESCRIPT, "Here it is:\n```ts\n1\n```", "no words around it"),
    (Language.TYPESCRIPT, "return 1", "the value of a cell is its last expression"),
    (Language.TYPESCRIPT, "def f():\n    return 1", "not Python"),
]


@pytest.mark.parametrize("language", list(Language))
async def test_mistakes_are_answered_with_what_to_do_instead(tmp_path: Path, language: Language) -> None:
    mine = [(code, hint) for spoken, code, hint in MISTAKES if spoken is language]
    answers = "\n".join(f"  - exec: {json.dumps(code)}" for code, _ in mine)
    model = scripted(f"answers:\n{answers}\n  - text: Sorry.")
    async with host(tmp_path / "a.db", model, tools=[get_order, refund]) as cloister:
        turn, items = await talk(cloister.threads, language=language)
        assert turn.status is Status.COMPLETED, turn.error
        for item, (code, hint) in zip(work(items), mine, strict=True):
            assert item.status is Status.FAILED, code
            assert hint in said_of(item), code


# What is a mistake in one language is as good in the other, and what says nothing wrong is told beside the result.
MET = [
    (Language.PYTHON, "from shop import refund\nawait refund(order_id='A7')", "paid A7"),
    (Language.PYTHON, "import shop\nawait shop.refund(order_id='A7')", "paid A7"),
    (Language.PYTHON, "get_order(order_id='A7')\n1", "`get_order` was called but never awaited"),
    (Language.TYPESCRIPT, 'await get_order({order_id: "A7"})', '"total": 12'),
    (Language.TYPESCRIPT, 'await tools.get_order({order_id: "A7"})', '"total": 12'),
    (Language.TYPESCRIPT, 'await tools.shop.refund({order_id: "A7"})', "paid A7"),
    (Language.TYPESCRIPT, 'await shop.refund({order_id: "A7"})', "paid A7"),
    (Language.TYPESCRIPT, "const {get_order} = tools;\nawait get_order({order_id: 'A7'})", '"total": 12'),
    (
        Language.TYPESCRIPT,
        "const o = get_order({order_id: 'A7'});\no.total",
        "`get_order` was called but never awaited",
    ),
    (Language.TYPESCRIPT, "```ts\n40 + 2\n```", "result: 42"),
    (Language.TYPESCRIPT, "~~~javascript\n40 + 2\n~~~", "result: 42"),
    (Language.TYPESCRIPT, "```\n40 + 2", "result: 42"),
]


@pytest.mark.parametrize("language", list(Language))
async def test_other_ways_to_write_it_are_met(tmp_path: Path, language: Language) -> None:
    mine = [(code, said) for spoken, code, said in MET if spoken is language]
    answers = "\n".join(f"  - exec: {json.dumps(code)}" for code, _ in mine)
    model = scripted(f"answers:\n{answers}\n  - text: Done.")
    async with host(tmp_path / "a.db", model, tools=[get_order, refund]) as cloister:
        turn, items = await talk(cloister.threads, language=language)
        assert turn.status is Status.COMPLETED, turn.error
        for item, (code, said) in zip(work(items), mine, strict=True):
            assert item.status is Status.COMPLETED, (code, said_of(item))
            assert said in said_of(item), (code, said_of(item))


async def test_fences_are_taken_off(tmp_path: Path) -> None:
    model = scripted(
        """
answers:
  - exec: "```python\\n1 + 1\\n```"
  - exec: "~~~\\n2 + 1\\n~~~\\n"
  - calls: [{tool: exec, arguments: {code: "```py\\n3 + 1"}}, {tool: exec, arguments: {input: "4 + 1"}}]
  - text: Done.
""",
        capabilities=FUNCTIONS,
    )
    async with host(tmp_path / "a.db", model) as cloister:
        _, items = await talk(cloister.threads)
        assert [said_of(item)[-1] for item in work(items)] == ["2", "3", "4", "5"]


async def test_calls_that_fit_nothing_are_told_what_there_is(tmp_path: Path) -> None:
    model = scripted(
        """
answers:
  - calls:
    - {tool: exec, arguments: {code: "1", language: typescript}}
    - {tool: exec, arguments: {code: "1", language: cobol}}
    - {tool: exec, arguments: {}}
    - {tool: exec, arguments: "{oh no"}
    - {tool: "shop::refund", arguments: {order_id: A7}}
    - {tool: get_order, arguments: {order_id: A7}}
    - {tool: nothing, arguments: {}}
    - {tool: wait, arguments: {cell: x}}
  - text: Done.
""",
        capabilities=FUNCTIONS,
    )
    async with host(tmp_path / "a.db", model, tools=[get_order, refund]) as cloister:
        turn, items = await talk(cloister.threads)
        assert turn.status is Status.COMPLETED
        said = [said_of(item) for item in work(items)]
        assert all(item.status is Status.FAILED for item in work(items))
        for text, hint in zip(
            said,
            [
                "write it in python",
                "write python",
                "it takes code, language",
                "JSON",
                "from shop import refund; await refund(...)",
                "await get_order(...)",
                "there are exec, wait and search_tools",
                "it takes cell_id, yield_ms, terminate",
            ],
            strict=True,
        ):
            assert hint in text


async def test_blocks_in_other_languages_are_text_and_those_of_the_other_one_are_answered(tmp_path: Path) -> None:
    blocks = "```json\\n{}\\n```\\n```ts\\n1\\n```\\n```python\\n40 + 2\\n```"
    model = scripted(f'answers: [{{text: "{blocks}"}}, {{text: Done.}}]', capabilities=FENCED)
    async with host(tmp_path / "a.db", model) as cloister:
        turn, items = await talk(cloister.threads)
        assert turn.status is Status.COMPLETED
        other, ran = work(items)
        assert isinstance(other.detail, CellRun)
        assert (other.status, other.detail.outcome) == (Status.FAILED, "refused")
        assert "write it in python" in said_of(other)
        assert said_of(ran).endswith("42")


def test_only_what_fences_all_of_a_program_is_taken_off() -> None:
    assert unfenced("```python\nx = '''\n```\n'''\n```") == "```python\nx = '''\n```\n'''\n```"
    assert unfenced("text = '```'\n") == "text = '```'\n"
    assert unfenced("```json\n{}\n```") == "```json\n{}\n```"
    assert [(one.word, one.text, one.closed) for one in blocks_of("a\n````py\n```\n````\n```js\nx")] == [
        ("py", "```", True),
        ("js", "x", False),
    ]
