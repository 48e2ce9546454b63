# pyright: reportUnknownMemberType=false
"""Real trouble with a disk: a sync that fails, a file that may not grow, a page that is overwritten."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from cloister import Cloister, Session, tool
from cloister.core.digest import digest_bytes
from cloister.core.errors import StoreError, StoreUnavailable, StoreUnusable
from cloister.ports.clock import SystemClock
from cloister.ports.rows import Batch, Put, ValueRow
from cloister.stores.sqlite import SqliteStore
from tests.crash.parent import ROOT, environment, look
from tests.crash.wreck import wreck

pytestmark = pytest.mark.anyio
PAGE = 4096


class Disk:
    """All files of SQLite lie on it. Its syncs fail on order."""

    def __init__(self) -> None:
        self.fails = False
        self.failed = 0


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.fails:
            self._disk.failed += 1
            error: Any = apsw.IOError("fsync")
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC
            raise error
        super().xSync(flags)


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__("failing", "unix")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self._disk, name, flags)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    vfs = _Vfs(made)
    apsw.set_default_vfs("failing")
    try:
        yield made
    finally:
        apsw.set_default_vfs("unix")
        vfs.unregister()


def _put(key: str) -> Batch:
    return Batch((Put(ValueRow("ses_a", key, key, 1, 1)),))


async def test_commit_whose_sync_fails_is_refused_and_loses_nothing_before_it(tmp_path: Path, disk: Disk) -> None:
    async with SqliteStore(tmp_path / "s.db", clock=SystemClock()) as store:
        await store.write(_put("before"))
        disk.fails = True
        outcomes = await asyncio.gather(*(store.write(_put(f"{n}")) for n in range(10)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        assert disk.failed
        assert f"the store {tmp_path}/s.db cannot be read or written" in str(outcomes[0])
        # Reads need no sync.
        assert [row.key for row in await store.values("ses_a")] == ["before"]
        with pytest.raises(StoreUnavailable, match="cannot be read or written"):
            await store.write(_put("still"))
        disk.fails = False
        await store.write(_put("after"))
        assert [row.key for row in await store.values("ses_a")] == ["after", "before"]
        assert list(await store.check()) == []
        found = await wreck(tmp_path / "s.db", tmp_path / "w.db")
    kept = await asyncio.to_thread(look, found)
    assert kept.findings == []


class Till:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.paid: list[int] = []

    def open(self) -> Cloister:
        @tool(side_effect="write", idempotent=False)
        async def pay(n: int) -> str:
            """Once."""
            self.paid.append(n)
            return f"paid {n}"

        return Cloister(tools=[pay], store=f"sqlite://{self.path}", snapshot_key=b"k" * 32)


async def test_host_goes_on_when_its_disk_syncs_again(tmp_path: Path, disk: Disk) -> None:
    till = Till(tmp_path / "s.db")
    async with till.open() as cloister:
        session = await cloister.open_session("s")
        assert (await session.run("x = await pay(1)\nx")).result == "paid 1"
        await session.values.set("acknowledged", 1)
        disk.fails = True
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="cannot be read or written"):
                await session.values.set("refused", 1)
            with pytest.raises(StoreUnavailable, match="cannot be read or written"):
                await session.run("x = await pay(2)")
            with pytest.raises(StoreUnavailable, match="cannot be read or written"):
                await cloister.open_session("another")
        assert till.paid == [1]
        found = await _as_left(tmp_path)
        disk.fails = False
        assert (await session.run("[x, await pay(3)]")).result == ["paid 1", "paid 3"]
        assert (await (await cloister.open_session("another")).run("1")).result == 1
        assert await session.values.all() == {"acknowledged": 1}
    # Where the host died of it, the next one has what was acknowledged.
    after = Till(found)
    async with after.open() as cloister:
        session = await cloister.open_session("s")
        for cell in await session.cells():
            await session.wait(cell.id)
        assert await session.values.get("acknowledged") == 1
        assert (await session.run("x[:4]")).result == "paid"
    assert till.paid == [1, 3]
    assert 1 not in after.paid


async def _as_left(directory: Path) -> Path:
    """A copy of the files at this moment. What looks into it is on a disk that is well."""
    apsw.set_default_vfs("unix")
    try:
        return await wreck(directory / "s.db", directory / "w.db")
    finally:
        apsw.set_default_vfs("failing")


# -- no room ---------------------------------------------------------------------------------------------------------


def test_file_that_may_not_grow_is_told_and_on_it_goes_when_there_is_room(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash.test_disk", os.fspath(tmp_path / "s.db")]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert "cannot be" in told["refused"]
    assert str(tmp_path / "s.db") in told["refused"]
    assert told["paid"] == [1, 3]
    assert told["later"] == ["paid 1", "paid 3"]
    kept = look(tmp_path / "s.db")
    assert kept.findings == []
    written = {key for _, key in kept.values}
    assert written >= {*told["acknowledged"], "later"}
    assert told["refused_key"] not in written


async def _without_room(path: Path) -> dict[str, Any]:
    """In a process of its own, whose files may not become larger for a while: the system refuses, and not SQLite."""
    import resource

    till, acknowledged, refused, number = Till(path), list[str](), "", 0
    async with till.open() as cloister:
        session = await cloister.open_session("s")
        await session.run("x = await pay(1)")
        most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        while not refused:
            try:
                await session.values.set(f"key.{number}", os.urandom(5000).hex())
            except StoreError as error:
                refused = f"{error.code}: {error.message}"
            else:
                acknowledged.append(f"key.{number}")
                number += 1
        large = f"y = {'1' * 20_000!r}\nawait pay(2)"
        try:
            failed = (await session.run(large)).status != "ok"
        except StoreError:
            failed = True
        assert failed
        assert till.paid == [1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        later = (await session.run("[x, await pay(3)]")).result
        await session.values.set("later", later)
    return {
        "refused": refused,
        "refused_key": f"key.{number}",
        "acknowledged": acknowledged,
        "paid": till.paid,
        "later": later,
    }


# -- a page ----------------------------------------------------------------------------------------------------------


async def test_overwritten_page_is_told_by_name_and_harms_nothing_else(tmp_path: Path) -> None:
    till, content = Till(tmp_path / "s.db"), {name: os.urandom(60_000) for name in ("good", "bad")}
    async with till.open() as cloister:
        for name, data in content.items():
            session = await cloister.open_session(name)
            await session.run("x = await pay(1)")
            await session.files.write("data", data)
            await session.values.set("kept", name)
    place = till.path.read_bytes().index(content["bad"][30_000:30_100]) // PAGE * PAGE
    with till.path.open("r+b") as file:
        file.seek(place)
        file.write(bytes(PAGE))

    checked = await _check(till.path)
    assert checked.returncode == 1
    # Which page, and what was on it.
    assert f"blob {digest_bytes(content['bad'])} " in checked.stdout
    assert digest_bytes(content["good"]) not in checked.stdout
    assert "page" in checked.stdout
    async with till.open() as cloister:
        good, bad = [await _opened(cloister, name) for name in ("good", "bad")]
        assert good is not None
        assert await good.files.read("data") == content["good"]
        assert (await good.run("[x, await pay(2)]")).result == ["paid 1", "paid 2"]
        if bad is not None:
            with pytest.raises(StoreUnusable, match=re.escape(str(till.path))):
                await bad.files.read("data")
            assert await bad.values.get("kept") == "bad"
        assert await good.values.get("kept") == "good"


async def _opened(cloister: Cloister, name: str) -> Session | None:
    try:
        return await cloister.open_session(name)
    except StoreUnusable:
        return None


async def _check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cloister.cli", "store", "check", f"sqlite://{path}"]
    return await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_without_room(Path(sys.argv[1])))))
