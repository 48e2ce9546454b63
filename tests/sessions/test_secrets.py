"""`session.secrets`: given while a session is open, kept with it, listed without values."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister, InvalidInput, QuotaExceeded, SecretsLocked, Session, SessionClosed, tool
from cloister.app.keys import Keys
from cloister.app.keys.care import reseal_store, sealed_under
from cloister.ports.clock import SystemClock
from cloister.ports.keys import Purpose
from cloister.ports.rows import SecretRow
from cloister.sessions import secrets as room
from cloister.sessions.vault import sealed_with
from cloister.stores.memory_data import MemoryData
from cloister.stores.memory_store import MemoryStore
from cloister.stores.moving import export, import_
from cloister.stores.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

FIRST, SECOND = "first-value-of-it", "second-value-of-it"
A, B = os.urandom(32), os.urandom(32)
USE = "await send(token=secret('TOKEN'))"


class Post:
    def __init__(self) -> None:
        self.sent: list[str] = []

        @tool(side_effect="network")
        async def send(token: str) -> str:
            self.sent.append(token)
            return f"sent with {token}"

        @tool(side_effect="network", namespace="shop")
        async def buy(token: str) -> None:
            self.sent.append(token)

        @tool(approval_policy="manual")
        async def ask(token: str) -> str:
            self.sent.append(token)
            return "asked"

        self.tools = [send, buy, ask]


@pytest.fixture
def post() -> Post:
    return Post()


class Host:
    """Opens one store again and again."""

    def __init__(self, path: Path, post: Post) -> None:
        self.path = path
        self.post = post

    def __call__(self, **options: Any) -> Cloister:
        given: dict[str, Any] = {"tools": self.post.tools, "workers": 1, "secret_key": A, "type_check": "off"}
        given["store"] = f"sqlite://{self.path}"
        return Cloister(**(given | options))

    def store(self) -> SqliteStore:
        return SqliteStore(self.path, clock=SystemClock())

    async def rows(self, session_id: str = "s") -> list[SecretRow]:
        async with self.store() as store:
            return list(await store.secrets(session_id))

    async def filled(self) -> None:
        async with self() as cloister:
            session = await cloister.open_session("s")
            await session.secrets.set("TOKEN", FIRST, allow=["send"])


@pytest.fixture
def host(tmp_path: Path, post: Post) -> Host:
    return Host(tmp_path / "store.db", post)


@pytest.fixture(params=["memory", "sqlite", "memory store"])
async def session(request: pytest.FixtureRequest, host: Host, post: Post) -> AsyncIterator[Session]:
    stores: dict[str, Any] = {"memory": "memory:", "memory store": MemoryStore(SystemClock(), MemoryData())}
    options = {"store": stores[request.param]} if request.param in stores else {}
    async with host(**options) as cloister:
        yield await cloister.open_session("s")


# -- giving, listing, deleting ---------------------------------------------------------------------------------------


async def test_program_uses_a_secret_that_was_given_while_the_session_was_open(session: Session, post: Post) -> None:
    await session.secrets.set("TOKEN", FIRST, allow=["send"])
    result = await session.run(USE)
    assert (result.result, post.sent) == ("sent with [secret TOKEN]", [FIRST])


async def test_value_that_is_replaced_counts_from_the_next_call_on(session: Session, post: Post) -> None:
    await session.secrets.set("TOKEN", FIRST, allow=["send"])
    await session.run(f"t = secret('TOKEN')\n{USE}")
    await session.secrets.set("TOKEN", SECOND)
    result = await session.run("await send(token=t)")
    assert (result.status, post.sent) == ("ok", [FIRST, SECOND])
    # Who has kept the old value gives nothing away with it.
    assert (await session.run("x", inputs={"x": FIRST})).result == "[secret TOKEN]"


async def test_list_has_names_times_and_tools_and_no_values(session: Session) -> None:
    await session.secrets.set("TOKEN", FIRST, allow=["send", "shop.*"])
    await session.secrets.set("OTHER", SECOND)
    other, token = await session.secrets.list()
    assert (other.name, other.allowed, token.name, token.allowed) == ("OTHER", (), "TOKEN", ("send", "shop.*"))
    await session.secrets.set("TOKEN", SECOND, allow=["*"])
    again = (await session.secrets.list())[1]
    assert (again.created_at, again.allowed) == (token.created_at, ("*",))
    assert again.updated_at >= token.updated_at
    assert FIRST not in repr([other, token])


async def test_secret_that_was_deleted_is_known_no_more(session: Session, post: Post) -> None:
    await session.secrets.set("TOKEN", FIRST, allow=["send"])
    assert await session.secrets.delete("TOKEN")
    assert not await session.secrets.delete("TOKEN")
    result = await session.run(USE)
    assert (result.error and result.error.code, post.sent) == ("INVALID_ARGUMENTS", [])
    assert await session.secrets.list() == []


async def test_tool_that_it_is_not_allowed_for_does_not_get_it(session: Session, post: Post) -> None:
    await session.secrets.set("TOKEN", FIRST, allow=["shop.*"])
    result = await session.run(USE)
    assert (result.error and result.error.code, post.sent) == ("PERMISSION_DENIED", [])
    assert result.error
    assert "shop.*" in f"{result.error.hint}"
    await session.run("from shop import buy\nawait buy(token=secret('TOKEN'))")
    assert post.sent == [FIRST]


@pytest.mark.parametrize(
    ("name", "value", "allow", "why"),
    [
        ("", FIRST, ["send"], "name of a secret"),
        ("not a name", FIRST, ["send"], "name of a secret"),
        ("1ST", FIRST, ["send"], "name of a secret"),
        ("N" * 65, FIRST, ["send"], "name of a secret"),
        (None, FIRST, ["send"], "name of a secret"),
        ("TOKEN", 5, ["send"], "is text, not int"),
        ("TOKEN", b"bytes", ["send"], "is text, not bytes"),
        ("TOKEN", "", ["send"], "at least 4"),
        ("TOKEN", "x" * 65537, ["send"], "at most 65536"),
        ("TOKEN", "half \ud800 pair", ["send"], "UTF-8"),
        ("TOKEN", FIRST, ["sned"], "no such tool"),
        ("TOKEN", FIRST, ["send", "stop.*"], "no such tool"),
        ("TOKEN", FIRST, ["no tool"], "not a tool"),
        ("TOKEN", FIRST, [5], "not a tool"),
        ("TOKEN", FIRST, "send", "list of tools"),
        ("TOKEN", FIRST, 5, "list of tools"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(
    session: Session, name: Any, value: Any, allow: Any, why: str
) -> None:
    await session.secrets.set("TOKEN", SECOND, allow=["send"])
    before = await session.secrets.list()
    with pytest.raises(InvalidInput, match=why) as refusal:
        await session.secrets.set(name, value, allow=allow)
    assert await session.secrets.list() == before
    assert FIRST not in f"{refusal.value} {refusal.value.hint}"


async def test_slip_of_the_pen_is_told(session: Session) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await session.secrets.set("TOKEN", FIRST, allow=["sned"])
    assert refusal.value.hint == "did you mean 'send'?"


async def test_more_secrets_than_a_session_may_have_are_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_SECRETS", 2)
    for number in range(2):
        await session.secrets.set(f"S{number}", f"{FIRST}{number}")
    with pytest.raises(QuotaExceeded):
        await session.secrets.set("S2", FIRST)
    await session.secrets.set("S1", SECOND)


async def test_session_s_code_comes_before_what_it_keeps_and_that_before_the_runtime_s(host: Host, post: Post) -> None:
    def secret(value: str) -> dict[str, Any]:
        return {"value": value, "allowed": ["*"]}

    async with host(secrets={"TOKEN": secret("of the runtime"), "CODE": secret("of the runtime")}) as cloister:
        session = await cloister.open_session("s", secrets={"CODE": secret("of the code")})
        await session.run(USE)
        await session.secrets.set("TOKEN", FIRST, allow=["*"])
        await session.run(USE)
        await session.run("await send(token=secret('CODE'))")
        assert post.sent == ["of the runtime", FIRST, "of the code"]
        with pytest.raises(InvalidInput, match="given in code"):
            await session.secrets.set("CODE", FIRST)
        await session.secrets.delete("TOKEN")
        await session.run(USE)
        assert post.sent[3:] == ["of the runtime"]


# -- kept ------------------------------------------------------------------------------------------------------------


async def test_secrets_are_there_when_a_session_is_opened_again(host: Host, post: Post) -> None:
    await host.filled()
    async with host() as cloister:
        session = await cloister.open_session("s")
        assert [info.name for info in await session.secrets.list()] == ["TOKEN"]
        assert (await session.run(USE)).result == "sent with [secret TOKEN]"
    assert post.sent == [FIRST]


async def test_what_was_acknowledged_is_there_after_a_kill(host: Host, tmp_path: Path, post: Post) -> None:
    async with host() as cloister:
        session = await cloister.open_session("s")
        await session.secrets.set("TOKEN", FIRST, allow=["send"])
        await session.secrets.set("TOKEN", SECOND)
        info = await session.attachments.add(b"kept", "text/plain")
        # What is on the disk now is what is found if this process dies now.
        found = Host(tmp_path / "found.db", post)
        for suffix in ("", "-wal"):
            shutil.copy(f"{host.path}{suffix}", f"{found.path}{suffix}")
        async with found.store() as store:
            for owner in await store.owners():
                await store.release(owner)
        async with found() as other:
            again = await other.open_session("s")
            assert (await again.run(USE)).ok
            assert await again.attachments.get(info.id) == b"kept"
    assert post.sent == [SECOND]


async def test_program_that_slept_over_a_restart_gets_its_secret(host: Host, post: Post) -> None:
    async with host() as cloister:
        session = await cloister.open_session("s")
        await session.secrets.set("TOKEN", FIRST, allow=["ask"])
        waiting = await session.run("await ask(token=secret('TOKEN'))")
    async with host() as cloister:
        await cloister.decide(waiting.approvals[0].id, "allow")
        session = await cloister.open_session("s")
        assert (await session.resume(waiting.cell_id)).result == "asked"
    assert post.sent == [FIRST]


async def test_session_that_was_closed_takes_no_secrets(host: Host) -> None:
    async with host() as cloister:
        session = await cloister.open_session("s")
        await session.close()
        with pytest.raises(SessionClosed):
            await session.secrets.set("TOKEN", FIRST)
    assert await host.rows() == []


async def test_secrets_go_with_a_session_that_is_destroyed(host: Host) -> None:
    await host.filled()
    async with host() as cloister:
        await cloister.open_session("s")
        await cloister.destroy_session("s")
    assert await host.rows() == []


async def test_fork_has_the_secrets_sealed_for_itself(host: Host, post: Post) -> None:
    await host.filled()
    async with host() as cloister:
        session = await cloister.open_session("s")
        await session.run("t = secret('TOKEN')")
        fork = await session.fork(session_id="f")
        await session.secrets.set("TOKEN", SECOND)
    async with host() as cloister:
        fork = await cloister.open_session("f")
        await fork.run("await send(token=t)")
    assert post.sent == [FIRST]
    assert (await host.rows())[0].sealed != (await host.rows("f"))[0].sealed


async def test_copy_made_of_a_snapshot_has_no_secrets_and_the_snapshot_says_so(host: Host) -> None:
    await host.filled()
    async with host(snapshot_key=b"k" * 32) as cloister:
        session = await cloister.open_session("s")
        snapshot = await session.snapshot()
        copy = await cloister.restore_session(snapshot, session_id="copy")
        assert await copy.secrets.list() == []
    assert b"TOKEN" not in snapshot
    from cloister.sessions.envelope import unseal

    assert unseal(snapshot, b"k" * 32).left_out == ("secret TOKEN",)


# -- keys ------------------------------------------------------------------------------------------------------------


async def test_wrong_key_locks_the_sessions_that_need_it_and_no_others(host: Host, post: Post) -> None:
    await host.filled()
    async with host() as cloister:
        await cloister.open_session("without")
    before = await host.rows()
    async with host(secret_key=B) as cloister:
        with pytest.raises(SecretsLocked, match="'TOKEN' of session 's'") as refusal:
            await cloister.open_session("s")
        assert "CLOISTER_SECRET_KEY" in (refusal.value.hint or "")
        assert (await (await cloister.open_session("without")).run("1 + 1")).result == 2
        # Nobody else is kept from it.
        async with host() as other:
            assert (await (await other.open_session("s")).run(USE)).ok
    assert await host.rows() == before
    assert post.sent == [FIRST]


async def test_program_whose_session_is_locked_waits_for_the_key(host: Host, post: Post) -> None:
    async with host() as cloister:
        session = await cloister.open_session("s")
        await session.secrets.set("TOKEN", FIRST, allow=["ask"])
        waiting = await session.run("await ask(token=secret('TOKEN'))")
    async with host(secret_key=B) as cloister:
        (cell,) = (await cloister.recovery_report()).cells
        assert (cell.outcome, cell.cell_id) == ("held", waiting.cell_id)
        assert "secret_key=" in (cell.reason or "")
        with pytest.raises(SecretsLocked):
            await cloister.open_session("s")
    async with host() as cloister:
        await cloister.decide(waiting.approvals[0].id, "allow")
        assert (await (await cloister.open_session("s")).resume(waiting.cell_id)).result == "asked"
    assert post.sent == [FIRST]


async def test_keys_that_cannot_be_had_hold_only_those_who_need_them(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.filled()
    monkeypatch.setenv("CLOISTER_SECRET_KEY", "nonsense")
    async with host(secret_key=None) as cloister:
        assert (await (await cloister.open_session("without")).run("1 + 1")).result == 2
        with pytest.raises(InvalidInput, match="CLOISTER_SECRET_KEY"):
            await cloister.open_session("s")


async def test_session_that_is_opened_with_a_newer_key_is_sealed_with_it(host: Host, post: Post) -> None:
    await host.filled()
    async with host(secret_key=[B, A]) as cloister:
        await cloister.open_session("s")
    (row,) = await host.rows()
    assert sealed_with(row) == Keys(Purpose.SECRET, B).ring_now().newest.id
    async with host(secret_key=B) as cloister:
        assert (await (await cloister.open_session("s")).run(USE)).ok


async def test_store_is_sealed_anew_but_for_what_another_has_open(host: Host) -> None:
    await host.filled()
    async with host() as cloister:
        session = await cloister.open_session("busy")
        await session.secrets.set("TOKEN", FIRST)
        keys, old = Keys(Purpose.SECRET, [B, A]), Keys(Purpose.SECRET, A).ring_now().newest.id
        async with host.store() as store:
            done = await reseal_store(store, keys)
            assert (done.resealed, done.current, done.in_use, done.locked) == (1, 0, ["busy"], [])
            assert await sealed_under(store, old) == [("busy", "TOKEN")]
        # It goes on meanwhile, and nothing that it writes is lost.
        await session.secrets.set("TOKEN", SECOND)
    async with host.store() as store:
        done = await reseal_store(store, keys)
        assert (done.resealed, done.current, done.in_use) == (1, 1, [])
        assert await sealed_under(store, old) == []
        assert await store.owners() == []


async def test_secrets_that_no_key_opens_are_left_or_forgotten(host: Host) -> None:
    await host.filled()
    before = await host.rows()
    keys = Keys(Purpose.SECRET, B)
    async with host.store() as store:
        done = await reseal_store(store, keys)
        assert ([one[:2] for one in done.locked], done.forgotten) == ([("s", "TOKEN")], 0)
        assert list(await store.secrets("s")) == before
        done = await reseal_store(store, keys, forget_locked=True)
        assert (len(done.locked), done.forgotten) == (1, 1)
    async with host(secret_key=B) as cloister:
        assert await (await cloister.open_session("s")).secrets.list() == []


async def test_secrets_travel_sealed_and_open_elsewhere_with_their_key(host: Host, tmp_path: Path, post: Post) -> None:
    await host.filled()
    file = tmp_path / "exported"
    async with host.store() as store:
        with file.open("wb") as out:
            await export(store, out)
    there = Host(tmp_path / "there.db", post)
    async with there.store() as store:
        with file.open("rb") as source:
            await import_(store, source)
    async with there(secret_key=B) as cloister:
        with pytest.raises(SecretsLocked):
            await cloister.open_session("s")
    async with there() as cloister:
        assert (await (await cloister.open_session("s")).run(USE)).ok
    assert post.sent == [FIRST]
