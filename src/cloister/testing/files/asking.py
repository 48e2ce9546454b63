"""How behaviours ask: a refusal that must come, and one that must be of a kind."""

from collections.abc import Awaitable

from cloister.testing.files.door import FileDoor, Refusal


async def refused(code: str, asked: Awaitable[object]) -> None:
    refusal: Refusal | None = None
    said: object = None
    try:
        said = await asked
    except Refusal as error:
        refusal = error
    assert refusal is not None, f"it was not refused but said {said!r:.200}"
    assert code in refusal.codes, f"refused as {sorted(refusal.codes)} and not as {code}: {refusal}"


async def names(door: FileDoor, path: str) -> list[str]:
    return [found.name for found in await door.list(path)]
