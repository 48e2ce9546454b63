"""Files inside cells: writing 1 KB and reading it again, beside a plain tool call."""

from collections.abc import AsyncIterator

from bench.measure import Row, typical
from cloister import Cloister, Language, RunResult, SessionLimits, tool

_LIMITS = SessionLimits(wall_ms=60_000, cpu_ms=60_000, max_external_calls=100_000)
_FILES = {
    Language.PYTHON: "open('a.txt', 'w').write(text_)\nopen('a.txt').read()\n",
    Language.TYPESCRIPT: "files.write('a.txt', text_); files.read('a.txt');\n",
}
_CALL = {Language.PYTHON: "await echo(1)\n", Language.TYPESCRIPT: "await tools.echo({n: 1});\n"}
_INPUTS = {"text_": "x" * 1024}


@tool
async def echo(n: int) -> int:
    """Give it back."""
    return n


async def rows() -> AsyncIterator[Row]:
    for language in Language:
        for times in (1, 20):
            yield await _beside_a_call(language, times)


async def _beside_a_call(language: Language, times: int) -> Row:
    """Each in a session of its own, as cells of one kind follow each other."""
    async with Cloister(tools=[echo], limits=_LIMITS, type_check="off") as cloister:
        filing = await cloister.open_session("files", language=language)
        calling = await cloister.open_session("calls", language=language)

        async def ours() -> None:
            _fine(await filing.run(_FILES[language] * times, inputs=_INPUTS))

        async def theirs() -> None:
            _fine(await calling.run(_CALL[language] * times, inputs=_INPUTS))

        mine, base = await typical(ours, theirs, rounds=8, samples=12)
    what = "a cell that writes and reads 1 KB" if times == 1 else f"1 KB written and read, of {times} in a cell"
    return Row(f"{what}, {language} [x the same with a tool call]", mine / base, 2.0)


def _fine(result: RunResult) -> None:
    assert result.ok, result.error
