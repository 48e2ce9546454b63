"""A published MCP server over Streamable HTTP behind a whole Cloister, as programs meet it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cloister import McpHttp, McpSource, SourceFailed
from tests.sessions.door import value
from tests.sessions.excel import TOKEN, excel, free_port
from tests.sessions.ways import LANGUAGES, House, caught

pytestmark = pytest.mark.anyio
both_languages = pytest.mark.parametrize("language", LANGUAGES)

# Ten ranges of one sheet, read at once.
TOGETHER = {
    "python": """
import asyncio
from excel import read_range
await asyncio.gather(*[read_range(path=book, sheet='Sheet1', range=f'A{n}:B{n}') for n in range(1, 11)])
""",
    "typescript": """
const reads = Array.from({length: 10}, (_, n) => `A${n + 1}:B${n + 1}`);
await Promise.all(reads.map(range => excel.read_range({path: book, sheet: 'Sheet1', range})))
""",
}
WRITE = {
    "python": "from excel import write_range\nawait write_range(path=book, sheet='Sheet1', at='A1', rows=rows)",
    "typescript": "await excel.write_range({path: book, sheet: 'Sheet1', at: 'A1', rows})",
}
ROWS: list[list[Any]] = [[n, n * n] for n in range(10)]


def at(port: int, **options: Any) -> McpSource:
    given: dict[str, Any] = {"headers": {"Authorization": f"Bearer {TOKEN}"}, **options}
    return McpSource(McpHttp(name="excel", url=f"http://127.0.0.1:{port}/mcp", **given))


@pytest.fixture(scope="module")
async def port(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncIterator[int]:
    port = free_port()
    async with excel(tmp_path_factory.mktemp("books"), port):
        yield port


@pytest.fixture(scope="module")
async def house(port: int) -> AsyncIterator[House]:
    async with House(sources=[at(port, approvals={"create_workbook": "none"})]) as made:
        yield made


async def test_its_tools_are_in_the_catalog_on_its_own_terms(house: House) -> None:
    session = await house.open("python")
    found = await session.search_tools("read the cells of a range", limit=3)
    assert "excel.read_range" in [tool["name"] for tool in found]
    read, write = [await session.describe_tool(f"excel.{name}") for name in ("read_range", "write_range")]
    assert (read["side_effect"], read["approval"]) == ("read", "none")
    assert (write["side_effect"], write["approval"]) == ("external_system", "manual")


@both_languages
async def test_programs_write_after_a_question_and_read_at_once(house: House, language: str) -> None:
    session = await house.open(language)
    book = f"{language}.xlsx"
    assert value(await session.call("excel.create_workbook", {"path": book})) is not None
    waiting = await session.run(WRITE[language], inputs={"book": book, "rows": ROWS})
    assert waiting.status == "waiting_for_approval"
    assert waiting.approvals[0].capability == "excel.write_range"
    await house.cloister.decide(waiting.approvals[0].id, "allow")
    assert (await session.resume(waiting.cell_id)).ok
    read: Any = value(await session.run(TOGETHER[language], inputs={"book": book}))
    assert [one["values"] for one in read] == [[row] for row in ROWS]


@both_languages
async def test_its_errors_and_bad_arguments_can_be_caught(house: House, language: str) -> None:
    session = await house.open(language)
    for given, said in (({"path": "/etc/passwd"}, "TOOL_ERROR"), ({"path": 7}, "INVALID_ARGUMENTS")):
        code = caught(language, "excel.describe_workbook", "**given" if language == "python" else "given")
        assert str(value(await session.run(code, inputs={"given": given}))).startswith(said)


async def test_who_has_no_token_is_refused_and_told_why(port: int) -> None:
    with pytest.raises(SourceFailed, match="HTTP 401") as failed:
        await at(port, headers={"Authorization": "Bearer wrong"}).__aenter__()
    assert failed.value.message.startswith("MCP server 'excel'")


async def test_calls_fail_by_name_while_it_is_away_and_reach_it_when_it_is_back(tmp_path: Path) -> None:
    port = free_port()
    async with excel(tmp_path, port) as process, House(sources=[at(port, patience_ms=0)]) as house:
        session = await house.open("python")
        assert (await session.run("from excel import list_workbooks\nawait list_workbooks()")).ok
        process.kill()
        await process.wait()
        result = await session.run("await list_workbooks()")
        assert result.error is not None
        assert (result.error.code, "MCP server 'excel'" in result.error.message) == ("SOURCE_UNAVAILABLE", True)
        async with excel(tmp_path, port):
            await session.refresh()
            assert (await session.run("await list_workbooks()")).ok
