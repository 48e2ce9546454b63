"""The plugin `notes`: what is remembered, found again and forgotten, in both languages."""

from pathlib import Path

import pytest

from cloister import Cloister
from tests.sessions.door import value
from tests.sessions.ways import House

pytestmark = pytest.mark.anyio

STORY = {
    "python": """
import asyncio
a, b, c = await asyncio.gather(
    note_add("Ada likes green tea", tags=["tea"]),
    note_add("Bob drinks coffee"),
    note_add("The pot is broken", tags=["tea"]),
)
found = await note_search("who likes teas?")
gone = [await note_delete(b["id"]), await note_delete(b["id"])]
[[a, b, c], [n["text"] for n in found], [n["id"] for n in await note_list(tag="tea")], gone, len(await note_list())]
""",
    "typescript": """
const [a, b, c] = await Promise.all([
    note_add({text: "Ada likes green tea", tags: ["tea"]}), note_add({text: "Bob drinks coffee"}),
    note_add({text: "The pot is broken", tags: ["tea"]})]);
const found = await note_search({query: "who likes teas?"});
const gone = [await note_delete({id: b.id}), await note_delete({id: b.id})];
[[a, b, c], found.map(n => n.text), (await note_list({tag: "tea"})).map(n => n.id), gone, (await note_list()).length]
""",
}


@pytest.mark.parametrize("language", STORY)
async def test_notes_are_kept_found_and_forgotten(language: str) -> None:
    async with House(plugins=["notes"]) as house:
        session = await house.open(language)
        assert value(await session.run(STORY[language])) == [
            [{"id": 1}, {"id": 2}, {"id": 3}],
            ["Ada likes green tea", "The pot is broken"],
            [3, 1],
            [True, False],
            2,
        ]


async def test_number_is_never_given_twice(tmp_path: Path) -> None:
    numbers: list[object] = []
    for code in ("await note_add('a')", "await note_delete(1)", "await note_add('b')"):
        async with Cloister(store=f"sqlite:///{tmp_path}/s.db", plugins=["notes"]) as cloister:
            session = await cloister.open_session("s")
            numbers.append(value(await session.run(code)))
    assert numbers == [{"id": 1}, True, {"id": 2}]


@pytest.mark.parametrize(
    "code",
    [
        "await note_add('  ')",
        "await note_add('x' * 8001)",
        "await note_add('x', tags=[str(n) for n in range(17)])",
        "await note_add('x', tags=[''])",
        "await note_list(limit=0)",
        "await note_search('x', limit=101)",
    ],
)
async def test_what_is_no_note_is_refused(code: str) -> None:
    async with House(plugins=["notes"]) as house:
        session = await house.open("python")
        result = await session.run(code)
        assert result.error is not None
        assert result.error.code == "INVALID_ARGUMENTS"
        assert value(await session.run("await note_list()")) == []


async def test_value_that_a_program_stored_under_such_a_key_is_left_alone() -> None:
    async with House(plugins=["notes"]) as house:
        session = await house.open("python")
        assert (await session.run("store('note/7', [1]); store('note/x', 2)")).ok
        assert value(await session.run("await note_add('a')\nawait note_list()")) == [
            {"id": 1, "text": "a", "tags": []}
        ]
        assert value(await session.run("await note_delete(7)")) is False


async def test_two_sessions_have_each_their_own() -> None:
    async with House(plugins=["notes"]) as house:
        one, other = await house.open("python"), await house.open("python")
        assert (await one.run("await note_add('a')")).ok
        assert value(await other.run("await note_list()")) == []
