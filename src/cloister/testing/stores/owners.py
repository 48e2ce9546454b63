"""Owners: who may claim a session, until when, and whose writes are refused."""

import asyncio
from collections.abc import Sequence

from cloister.core.errors import InvalidInput, LeaseLost
from cloister.ports.rows import Append, Batch, Claim, Drop, Fence, MoveHead, Put
from cloister.ports.store import Store
from cloister.testing.behaviour import Chapter
from cloister.testing.stores.lab import StoreLab, cell, put, refused, same, session, value, write

chapter = Chapter[StoreLab]()
timed = Chapter[StoreLab]()

_TTL_MS = 600_000


async def _sessions(lab: StoreLab, *owners: str) -> None:
    await put(lab.store, *(session(f"ses_{letter}") for letter in "abcd"))
    for owner in owners:
        await lab.store.join(owner, _TTL_MS)


def _ids(claims: Sequence[Claim]) -> list[str]:
    for claim in claims:
        assert claim.fence.session_id == claim.row.id
    return sorted(claim.row.id for claim in claims)


async def _claim(store: Store, owner: str, session_id: str = "ses_a") -> Fence:
    [claim] = await store.claim(owner, [session_id])
    assert claim.row.id == claim.fence.session_id == session_id
    return claim.fence


@chapter("an owner claims all sessions that nobody owns, and is given their rows")
async def _all(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    await write(lab.store, Put(session("ses_b", doc={"a": 1})), MoveHead("ses_b", 0))
    claims = await lab.store.claim("one")
    assert _ids(claims) == ["ses_a", "ses_b", "ses_c", "ses_d"]
    [row] = [claim.row for claim in claims if claim.row.id == "ses_b"]
    same(row, session("ses_b", doc={"a": 1}, head=1))


@chapter("owners are known by name from when they join until they leave")
async def _known(lab: StoreLab) -> None:
    assert await lab.store.owners() == []
    await _sessions(lab, "one", "two")
    assert list(await lab.store.owners()) == ["one", "two"]
    await lab.store.claim("one", ["ses_a"])
    await lab.store.release("one", ["ses_a"])
    assert list(await lab.store.owners()) == ["one", "two"]
    await lab.store.release("one")
    assert list(await lab.store.owners()) == ["two"]


@timed("an owner whose time is over is none")
async def _none(lab: StoreLab) -> None:
    await lab.store.join("one", _TTL_MS)
    await lab.store.join("two", 2 * _TTL_MS)
    await lab.let_pass(_TTL_MS + 1)
    assert list(await lab.store.owners()) == ["two"]


@chapter("sessions with live cells that nobody owns are found, and no others")
async def _orphans(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    await put(lab.store, cell("cel_a", "ses_a"), cell("cel_b", "ses_b"), cell("cel_c", "ses_c", live=False))
    await put(lab.store, cell("cel_a2", "ses_a"), cell("cel_x", "ses_x"))
    assert list(await lab.store.orphans()) == ["ses_a", "ses_b"]
    assert list(await lab.store.orphans(limit=1)) == ["ses_a"]
    await lab.store.claim("one", ["ses_a"])
    assert list(await lab.store.orphans()) == ["ses_b"]
    await put(lab.store, cell("cel_b", "ses_b", live=False))
    assert list(await lab.store.orphans()) == []
    await lab.store.release("one")
    assert list(await lab.store.orphans()) == ["ses_a"]


@timed("a session whose owner's time is over is an orphan")
async def _orphaned(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    await put(lab.store, cell("cel_a", "ses_a"))
    await lab.store.claim("one", ["ses_a"])
    assert list(await lab.store.orphans()) == []
    await lab.let_pass(_TTL_MS + 1)
    assert list(await lab.store.orphans()) == ["ses_a"]


@chapter("an owner claims those that it names, and of these those that there are")
async def _named(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    assert _ids(await lab.store.claim("one", ["ses_b", "ses_d", "ses_nobody", "ses_b"])) == ["ses_b", "ses_d"]
    assert _ids(await lab.store.claim("one", [])) == []
    assert await lab.store.session("ses_nobody") is None


@chapter("a session that another owns is left out")
async def _anothers(lab: StoreLab) -> None:
    await _sessions(lab, "one", "two")
    fence = await _claim(lab.store, "one", "ses_b")
    assert _ids(await lab.store.claim("two", ["ses_a", "ses_b"])) == ["ses_a"]
    assert _ids(await lab.store.claim("two")) == ["ses_a", "ses_c", "ses_d"]
    await write(lab.store, Put(value()), fence=fence)


@chapter("with its fence the owner writes, as often as it likes")
async def _writes(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    fence = await _claim(lab.store, "one")
    for was in range(5):
        numbers = await write(lab.store, MoveHead("ses_a", was), Append("ses_a", "x", was), fence=fence)
        assert len(numbers) == 1
    assert await write(lab.store, fence=fence) == ()


@chapter("a session that is claimed again by its owner has a new fence, and the old one is old")
async def _reclaimed(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    old = await _claim(lab.store, "one")
    new = await _claim(lab.store, "one")
    assert new != old
    refusal = await refused(LeaseLost, lab.store, Put(value()), fence=old)
    assert "'ses_a'" in refusal.message
    await write(lab.store, Put(value()), fence=new)


@chapter("what was released belongs to nobody: its fence is old, and another may claim it")
async def _released(lab: StoreLab) -> None:
    await _sessions(lab, "one", "two")
    fences = {claim.row.id: claim.fence for claim in await lab.store.claim("one")}
    await lab.store.release("one", ["ses_a", "ses_nobody"])
    await refused(LeaseLost, lab.store, Put(value()), fence=fences["ses_a"])
    await write(lab.store, Put(value()), fence=fences["ses_b"])
    assert _ids(await lab.store.claim("two")) == ["ses_a"]


@chapter("an owner that leaves releases all that was its own")
async def _leaves(lab: StoreLab) -> None:
    await _sessions(lab, "one", "two")
    kept = await _claim(lab.store, "two", "ses_d")
    fences = [claim.fence for claim in await lab.store.claim("one")]
    await lab.store.release("one")
    for fence in fences:
        await refused(LeaseLost, lab.store, Put(value()), fence=fence)
    await write(lab.store, Put(value()), fence=kept)
    assert _ids(await lab.store.claim("two")) == ["ses_a", "ses_b", "ses_c", "ses_d"]


@chapter("nobody releases what is another's")
async def _not_yours(lab: StoreLab) -> None:
    await _sessions(lab, "one", "two")
    fence = await _claim(lab.store, "one")
    await lab.store.release("two", ["ses_a"])
    await lab.store.release("two")
    await lab.store.release("stranger")
    await write(lab.store, Put(value()), fence=fence)


@chapter("the fence of a former owner is old for every write, and stays so")
async def _former(lab: StoreLab) -> None:
    await _sessions(lab, "one", "two")
    old = await _claim(lab.store, "one")
    await lab.store.release("one")
    new = await _claim(lab.store, "two")
    for one in (Put(value()), Append("ses_a", "x", 1), MoveHead("ses_a", 0), Drop("sessions", ("ses_a",))):
        await refused(LeaseLost, lab.store, one, fence=old)
    # Even for one that has nothing in it, and for what is another session's.
    await refused(LeaseLost, lab.store, fence=old)
    await refused(LeaseLost, lab.store, Put(session("ses_b", used_ms=0)), fence=old)
    assert await lab.store.session("ses_b") == session("ses_b")
    await write(lab.store, MoveHead("ses_a", 0), fence=new)


@chapter("a fence that was never given is no fence, and neither is that of a session that is not there")
async def _unknown(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    fence = await _claim(lab.store, "one")
    for strange in (0, -1, fence.token + 1, fence.token + 1000):
        await refused(LeaseLost, lab.store, Put(value()), fence=Fence("ses_a", strange))
    for token in (0, 1, fence.token):
        await refused(LeaseLost, lab.store, Put(session("ses_nobody")), fence=Fence("ses_nobody", token))
        # Nobody ever claimed this one.
        await refused(LeaseLost, lab.store, Put(value()), fence=Fence("ses_b", token))
    assert await lab.store.session("ses_nobody") is None


@chapter("a batch without a fence is not asked for one")
async def _unfenced(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    fence = await _claim(lab.store, "one")
    await write(lab.store, Put(value()), MoveHead("ses_a", 0))
    await put(lab.store, session(used_ms=9))
    # A row that is written over has the owner that it had.
    await write(lab.store, MoveHead("ses_a", 1), fence=fence)


@chapter("the fence of a session that was dropped is old, even when one with its id comes again and is claimed")
async def _dropped(lab: StoreLab) -> None:
    await _sessions(lab, "one", "two")
    old = await _claim(lab.store, "one")
    await write(lab.store, Drop("sessions", ("ses_a",)), fence=old)
    await refused(LeaseLost, lab.store, Put(session()), fence=old)
    await put(lab.store, session())
    await refused(LeaseLost, lab.store, Put(value()), fence=old)
    new = await _claim(lab.store, "two")
    await refused(LeaseLost, lab.store, Put(value()), fence=old)
    await write(lab.store, Put(value()), fence=new)


@chapter("a session that is new can be claimed at once, and its owner is asked about it alone")
async def _new(lab: StoreLab) -> None:
    await _sessions(lab, "one", "two")
    await lab.store.claim("one")
    await put(lab.store, session("ses_new"))
    assert _ids(await lab.store.claim("two")) == ["ses_new"]


@chapter("the name of an owner is a key: one with a NUL in it is refused as invalid")
async def _names(lab: StoreLab) -> None:
    await _sessions(lab)
    for bad in ("a\x00", "half \ud83d", "k" * 1025):
        for joining in (lab.store.join(bad, _TTL_MS), lab.store.claim(bad)):
            try:
                await joining
            except InvalidInput:
                continue
            raise AssertionError(f"{bad!r} was not refused")
    for name in ("k" * 1024, "\u00e9 \U0001f600"):
        await lab.store.join(name, _TTL_MS)
        assert len(await lab.store.claim(name)) == 4
        await lab.store.release(name)


@chapter("of twenty owners that claim a session at once, one gets it")
async def _race(lab: StoreLab) -> None:
    owners = [f"owner {n}" for n in range(20)]
    await _sessions(lab, *owners)
    given = await asyncio.gather(*(lab.store.claim(owner, ["ses_a", "ses_b"]) for owner in owners))
    assert sorted(name for claims in given for name in _ids(claims)) == ["ses_a", "ses_b"]


# -- time -----------------------------------------------------------------------------------------------------------


@timed("when an owner's time is over another may claim what was its own, and its fence is old from then on")
async def _over(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    old = await _claim(lab.store, "one")
    await lab.let_pass(_TTL_MS + 1000)
    await lab.store.join("two", _TTL_MS)
    # Nobody has taken it yet.
    await write(lab.store, Put(value()), fence=old)
    new = await _claim(lab.store, "two")
    assert new != old
    await refused(LeaseLost, lab.store, Put(value()), fence=old)
    await write(lab.store, Put(value()), fence=new)
    # Whoever comes back late comes as one of many.
    await lab.store.join("one", _TTL_MS)
    await refused(LeaseLost, lab.store, Put(value()), fence=old)
    assert _ids(await lab.store.claim("one")) == ["ses_b", "ses_c", "ses_d"]


@timed("an owner that joins again and again keeps its own")
async def _renewed(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    fence = await _claim(lab.store, "one")
    for _ in range(5):
        await lab.let_pass(_TTL_MS // 2)
        await lab.store.join("one", _TTL_MS)
    await lab.store.join("two", _TTL_MS)
    assert _ids(await lab.store.claim("two", ["ses_a"])) == []
    await write(lab.store, Put(value()), fence=fence)


@timed("an owner whose time is over and whose sessions nobody claimed goes on when it joins again")
async def _back(lab: StoreLab) -> None:
    await _sessions(lab, "one")
    fence = await _claim(lab.store, "one")
    await lab.let_pass(_TTL_MS * 2)
    await lab.store.join("one", _TTL_MS)
    await lab.store.join("two", _TTL_MS)
    assert _ids(await lab.store.claim("two", ["ses_a"])) == []
    await write(lab.store, Put(value()), fence=fence)


@timed("an owner may shorten its time by joining for less")
async def _shorter(lab: StoreLab) -> None:
    await _sessions(lab, "one", "two")
    await _claim(lab.store, "one")
    await lab.store.join("one", 1_000)
    await lab.let_pass(5_000)
    assert _ids(await lab.store.claim("two", ["ses_a"])) == ["ses_a"]


async def claim_against_a_write(lab: StoreLab, writer: Store, claimant: Store) -> None:
    """Either the write came first and the claim shows it, or the claim did and the write is refused."""
    await _sessions(lab, "two")
    for round_ in range(10):
        await lab.store.join("one", _TTL_MS)
        fence = await _claim(lab.store, "one")
        await lab.let_pass(_TTL_MS + 1)
        await lab.store.join("two", _TTL_MS)
        mark = {"round": round_}
        answer = writer.write(Batch((Put(session(doc=mark)),), fence))
        [claim] = await claimant.claim("two", ["ses_a"])
        try:
            await answer
        except LeaseLost:
            assert claim.row.doc != mark
        else:
            assert claim.row.doc == mark
        assert await lab.store.session("ses_a") == claim.row
        await lab.store.release("two")


@timed("a write and a claim at once: whichever is first, never both")
async def _claim_and_write(lab: StoreLab) -> None:
    await claim_against_a_write(lab, lab.store, lab.store)
