"""Sessions over a source of five thousand tools: what a model is told, what is found, and what is made anew."""

from collections.abc import AsyncIterator

import pytest

from cloister.tools import catalog
from tests.sessions.door import value
from tests.sessions.sources import Shop
from tests.sessions.ways import LANGUAGES, House
from tests.tools.many_tools import many_tools

pytestmark = pytest.mark.anyio


class Mall(Shop):
    """The tools of five thousand, each with its contract."""

    def __init__(self) -> None:
        super().__init__("mall")
        for tool in many_tools():
            schema = tool.capability.input_schema
            self.offer(tool.name, schema, description=tool.description, namespace=tool.namespace)


@pytest.fixture(scope="module")
def mall() -> Mall:
    return Mall()


@pytest.fixture(scope="module")
async def house(anyio_backend: str, mall: Mall) -> AsyncIterator[House]:
    async with House(sources=[mall]) as made:
        yield made


@pytest.mark.parametrize("language", LANGUAGES)
async def test_preamble_of_five_thousand_tools_keeps_to_its_budget(house: House, language: str) -> None:
    session = await house.open(language)
    assert len(session.tools) >= 5000
    for budget in (1000, 4000):
        told = session.preamble(budget)
        assert budget * 0.8 < told.tokens <= budget
        assert 0 < told.full + told.brief < 5000
        assert "search_tools" in told.text
    assert session.preamble(4000).text == session.preamble(4000).text


async def test_tool_among_five_thousand_is_found_and_called_by_a_program(house: House) -> None:
    session = await house.open("python")
    found = value(await session.run("[t['name'] for t in await search_tools('merge a pull request', limit=3)]"))
    assert isinstance(found, list)
    assert "github.merge_pull_request" in found
    made = "await merge_pull_request(owner='a', repo='b', pull_number='1', merge_method='squash')"
    assert value(await session.run(f"from github import merge_pull_request\n({made})['repo']")) == "b"


async def test_second_session_on_five_thousand_tools_renders_and_reads_nothing_anew(
    house: House, mall: Mall, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await house.open("python")
    assert (await first.run("1")).ok
    told = first.preamble()
    assert (mall.entered, mall.read, len(mall.asked)) == (1, 1, 5000)

    def never(*_args: object, **_options: object) -> object:
        raise AssertionError("it was rendered before")

    monkeypatch.setattr(catalog, "python_stub", never)
    monkeypatch.setattr(catalog, "render_catalog", never)
    second = await house.open("python")
    assert value(await second.run("1 + 1")) == 2
    assert second.preamble() == told
    assert (mall.entered, mall.read, len(mall.asked)) == (1, 1, 5000)
