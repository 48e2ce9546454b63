"""The store in PostgreSQL, on a real server: what the suite asks of every store, and what is its own."""

import asyncio
import logging
import os
import signal
import traceback
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any, TypeVar

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from cloister.core.digest import digest_bytes
from cloister.core.errors import InvalidInput, StoreConflict, StoreUnavailable, StoreUnusable
from cloister.ports.rows import Append, Batch, Intend, MoveHead, Put, PutBlob, Settle
from cloister.stores.postgres import PostgresStore
from cloister.stores.postgres.address import Address
from cloister.stores.postgres.schema import MIGRATIONS, TABLES
from cloister.stores.postgres.statements import write_lock
from cloister.testing.stores import ALL, Behaviour, StoreLab
from cloister.testing.stores.history import Step, compare, histories
from cloister.testing.stores.lab import HARD, cell, event, file, intent, name_of, same, session, settlement, value
from tests.stores.pg_server import PgServer
from tests.stores.postgres_lab import MovedClock, Place, until
from tests.stores.postgres_proxy import proxy_to

# A fixture is found where it is named.

pytestmark = pytest.mark.anyio
T = TypeVar("T")


@pytest.fixture
def place(pg_server: PgServer) -> Place:
    return Place(pg_server)


@pytest.fixture
async def store(place: Place) -> AsyncIterator[PostgresStore]:
    async with place.store() as store:
        yield store


# -- what every store does -------------------------------------------------------------------------------------------


@pytest.fixture
async def lab(place: Place) -> AsyncIterator[StoreLab]:
    clock = place.clock = MovedClock()
    async with place.store() as store:
        yield StoreLab(store, another=place.store, advance=clock.move)


@pytest.mark.parametrize("behaviour", ALL, ids=lambda behaviour: behaviour.slug)
async def test_store(lab: StoreLab, behaviour: Behaviour[StoreLab]) -> None:
    await behaviour.check(lab)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(histories())
async def test_store_is_like_the_one_in_memory(pg_server: PgServer, history: list[Step]) -> None:
    async with Place(pg_server).store() as store:
        await compare(store, history)


async def test_time_is_the_servers_where_no_clock_was_given(place: Place, store: PostgresStore) -> None:
    await store.write(Batch((Put(session()), PutBlob(name_of(b"old"), b"old"))))
    await store.join("one", 600_000)
    await store.join("two", 600_000)
    assert len(await store.claim("one")) == 1
    assert await store.claim("two") == []
    assert await store.collect() == 0
    place.sql(
        "UPDATE owners SET until_ms = until_ms - 600000 WHERE name = 'one'; UPDATE blobs SET put_ms = put_ms - 61000"
    )
    assert len(await store.claim("two")) == 1
    assert await store.collect() == 1


# -- groups ----------------------------------------------------------------------------------------------------------


async def test_batches_that_wait_together_are_committed_together(place: Place, store: PostgresStore) -> None:
    answers = [store.write(Batch((Append("ses_a", "x", n), Put(value(f"{n}"))))) for n in range(300)]
    numbers = [number for answer in answers for number in await answer]
    assert numbers == sorted(set(numbers))
    [(transactions,)] = place.sql("SELECT count(DISTINCT xmin::text) FROM events")
    assert transactions <= 2


async def test_refused_batch_in_a_group_leaves_the_group_one_transaction(place: Place, store: PostgresStore) -> None:
    await store.write(Batch((Put(session()),)))
    bad = Batch((Append("ses_a", "bad", 0), MoveHead("ses_a", 7)))
    answers = [store.write(bad if n == 50 else Batch((Append("ses_a", "x", n),))) for n in range(100)]
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, BaseException)] == [50]
    assert isinstance(outcomes[50], StoreConflict)
    assert [row.at_ms for row in await store.events()] == [n for n in range(100) if n != 50]
    [(transactions,)] = place.sql("SELECT count(DISTINCT xmin::text) FROM events")
    assert transactions <= 2


async def test_batch_that_the_server_does_not_take_fails_alone(store: PostgresStore) -> None:
    # There is no number after this one.
    await store.write(Batch((Put(event(2**63 - 1)),)))
    good, bad, other = (
        store.write(Batch((Put(value("good")),))),
        store.write(Batch((Put(value("bad")), Append("ses_a", "x", 1)))),
        store.write(Batch((Put(value("other")),))),
    )
    await good
    with pytest.raises(InvalidInput, match="maximum"):
        await bad
    await other
    assert [row.key for row in await store.values("ses_a")] == ["good", "other"]


async def test_settlement_and_intent_in_groups_of_many(store: PostgresStore) -> None:
    numbers = range(500)
    intents = [store.write(Batch((Intend(intent(n)),))) for n in numbers]
    ends = [store.write(Batch((Settle(settlement(n)),))) for n in numbers]
    again = [store.write(Batch((Settle(settlement(n)),))) for n in numbers]
    await asyncio.gather(*intents, *ends)
    assert {type(one) for one in await asyncio.gather(*again, return_exceptions=True)} == {InvalidInput}
    entries = await store.calls("cel_a")
    assert [entry.intent.number for entry in entries] == list(numbers)
    assert all(entry.settled == settlement(entry.intent.number) for entry in entries)


# -- many at once ----------------------------------------------------------------------------------------------------


async def test_reader_misses_nothing_while_two_processes_write_thousands(place: Place, store: PostgresStore) -> None:
    count = 3000
    with place.child("ses_1", count) as one, place.child("ses_2", count) as two:
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        seen: list[int] = []
        while len(seen) < 2 * count:
            last = seen[-1] if seen else 0
            assert await store.wait_for_events(last, 30_000), f"{len(seen)} events, and no more"
            rows = await store.events(since=last, limit=500)
            seen += [row.seq for row in rows]
        told = [
            [int(line) for line in (await asyncio.to_thread(process.communicate))[0].split()] for process in (one, two)
        ]
    assert seen == sorted({*told[0], *told[1]})
    assert [row.seq for row in await store.events(session_id="ses_1", limit=count)] == told[0]


async def test_event_of_another_process_wakes_who_waits(place: Place, store: PostgresStore) -> None:
    with place.child("ses_1", 1) as process:
        waiting = asyncio.ensure_future(store.wait_for_events(0, 60_000))
        await until(lambda: place.connections("listener") > 0)
        assert not waiting.done()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert await asyncio.wait_for(waiting, 30)


async def test_fence_that_is_old_never_writes_after_the_new_one(place: Place) -> None:
    async with place.store() as here, place.store() as there:
        await here.write(Batch((Put(session()),)))
        done = asyncio.Event()

        async def owner(store: PostgresStore, name: str) -> int:
            lost = 0
            while not done.is_set():
                # Not joined, so its time is always over: each takes it from the other.
                [claim] = await store.claim(name, ["ses_a"])
                for _ in range(5):
                    batch = Batch((Append("ses_a", name, claim.fence.token),), claim.fence)
                    outcomes = await asyncio.gather(*(store.write(batch) for _ in range(5)), return_exceptions=True)
                    lost += sum(isinstance(outcome, BaseException) for outcome in outcomes)
            return lost

        owners = [asyncio.ensure_future(owner(store, name)) for store, name in ((here, "one"), (there, "two"))]
        last = 0
        while last < 2000:
            assert await here.wait_for_events(last, 30_000)
            last = (await here.events(since=last))[-1].seq
        done.set()
        assert sum(await asyncio.gather(*owners)) > 0
        tokens = [row.at_ms for row in await here.events(limit=100_000)]
        assert tokens == sorted(tokens)
        assert len({row.kind for row in await here.events(limit=100_000)}) == 2


async def test_store_that_is_opened_by_many_at_once_is_made_once(place: Place) -> None:
    stores = [place.store() for _ in range(8)]
    await asyncio.gather(*(store.__aenter__() for store in stores))
    await asyncio.gather(*(store.write(Batch((Append("ses_a", "x", n),))) for n, store in enumerate(stores)))
    await asyncio.gather(*(store.__aexit__() for store in stores))
    assert place.sql("SELECT number, name FROM cloister_migrations") == list(enumerate(MIGRATIONS, 1))
    assert len(place.sql("SELECT 1 FROM events")) == 8


async def test_ten_thousand_sessions_are_claimed_and_their_cells_read(store: PostgresStore) -> None:
    names = [f"{n:05}" for n in range(10_000)]
    loop = asyncio.get_running_loop()
    began = loop.time()
    for first in range(0, 10_000, 1000):
        part = names[first : first + 1000]
        await store.write(Batch(tuple(Put(row) for name in part for row in (session(name), cell(name, name)))))
    writing = loop.time() - began
    await store.join("one", 600_000)
    began = loop.time()
    claims = await store.claim("one", names)
    cells = await store.cells(live=True)
    # Two statements; one for each would take many times as long as to write all of them in ten batches.
    assert loop.time() - began < 5 * writing
    assert [claim.row.id for claim in claims] == [row.id for row in cells] == names
    await store.release("one")
    assert len(await store.claim("two")) == 10_000


# -- what it keeps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "doc", [*HARD, {"nul": "\x00", "\x00": ["a\x00b"]}], ids=lambda doc: str(doc)[:20].encode().hex()
)
async def test_hard_json_is_text_that_everybody_can_read(place: Place, store: PostgresStore, doc: Any) -> None:
    await store.write(Batch((Put(session(doc=doc)),)))
    row = await store.session("ses_a")
    assert row is not None
    same(row.doc, doc)
    [(kind,)] = place.sql("SELECT pg_typeof(doc)::text FROM sessions WHERE doc IS JSON")
    assert kind == "text"


async def test_large_blob_that_is_there_is_not_sent_again(place: Place) -> None:
    data = bytes(range(256)) * (9 << 12)
    async with proxy_to(place.server.port) as proxy, place.store(proxy.port) as store:
        await store.write(Batch((PutBlob(digest_bytes(data), data), Put(file(blob=digest_bytes(data))))))
        assert await store.blob(digest_bytes(data)) == data
        before = proxy.sent_bytes
        assert before > len(data)
        await store.write(Batch((PutBlob(digest_bytes(data), data),)))
        assert proxy.sent_bytes - before < 10_000
        assert await store.check() == []


async def test_check_says_what_others_did_to_it(place: Place, store: PostgresStore) -> None:
    data = b"data" * 100
    await store.write(Batch((Put(session()), PutBlob(name_of(data), data), Append("ses_a", "x", 1))))
    await store.join("one", 1000)
    await store.claim("one")
    place.sql("UPDATE sessions SET doc = '{'; UPDATE blob_parts SET data = 'x'; CREATE TABLE strange ()")
    place.sql("UPDATE events SET seq = 1000; INSERT INTO leases VALUES ('ses_nobody', 'one', 5)")
    wrong = "\n".join(await store.check())
    for words in (
        "doc of 'ses_a' in sessions",
        "1 bytes instead of 400",
        "strange is not",
        "event 1000",
        "'ses_nobody'",
    ):
        assert words in wrong
    place.sql("DROP TABLE approvals")
    assert await store.check() == ["the table approvals is missing"]
    with pytest.raises(StoreUnusable, match="approvals"):
        await store.approvals()


# -- who gives up waiting --------------------------------------------------------------------------------------------


async def test_reads_that_are_cancelled_leave_the_store_as_it_was(place: Place, store: PostgresStore) -> None:
    await store.write(Batch(tuple(Put(cell(f"{n:05}")) for n in range(5000))))
    for turn in range(30):
        reads = [asyncio.ensure_future(store.cells()) for _ in range(6)]
        for _ in range(turn):
            await asyncio.sleep(0)
        for read in reads:
            read.cancel()
        await asyncio.wait(reads)
        assert len(await store.cells(limit=3)) == 3
    assert place.connections("reader") <= 4


async def test_writes_that_are_cancelled_do_not_break_the_connection(place: Place, store: PostgresStore) -> None:
    [before] = place.sql("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'cloister writer%'")
    for turn in range(30):

        async def one(n: int) -> None:
            await store.write(Batch((Append("ses_a", "x", n),)))

        tasks = [asyncio.ensure_future(one(n)) for n in range(5)]
        for _ in range(turn + 1):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    await store.claim("one")
    assert len(await store.events()) == 150
    assert place.sql("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'cloister writer%'") == [before]


# -- what is refused -------------------------------------------------------------------------------------------------


async def _refused(store: PostgresStore) -> StoreUnavailable | StoreUnusable:
    with pytest.raises((StoreUnavailable, StoreUnusable)) as caught:
        async with store:
            pass
    return caught.value


async def test_wrong_password_is_said_and_not_told(pg_server: PgServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "wr0ng/s3cret"
    store = PostgresStore(pg_server.url(password=wrong))
    error = await _refused(store)
    assert isinstance(error, StoreUnavailable)
    assert "'cloister'" in error.message
    assert error.hint is not None
    assert "password" in error.hint
    told = "".join(traceback.format_exception(error)) + store.url + repr(store) + caplog.text + error.hint
    for secret in (wrong, "wr0ng%2Fs3cret", "s3cret"):
        assert secret not in told


async def test_password_is_nowhere_in_what_is_said_of_trouble(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with proxy_to(place.server.port) as proxy, place.store(proxy.port) as store:
        told = [store.url, repr(store)]
        await store.session("a")
        proxy.cut()
        outcomes = await asyncio.gather(store.write(Batch(())), store.wait_for_events(0, 1), return_exceptions=True)
        told += ["".join(traceback.format_exception(one)) for one in outcomes if isinstance(one, BaseException)]
    told.append(caplog.text)
    assert place.server.password not in "".join(told)
    assert store.url == f"postgresql://cloister@127.0.0.1:{proxy.port}/postgres"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pass%40word@db.example:5433/shop", "postgresql://me@db.example:5433/shop"),
        ("postgres://me@db.example/shop?password=pass@word", "postgresql://me@db.example/shop"),
        ("postgresql://me:pass%40word@/shop?host=/run/pg", "postgresql://me@/shop?host=%2Frun%2Fpg"),
        ("postgresql://me:pass%40word@a:1,b:2/shop", "postgresql://me@a:1,b:2/shop"),
        ("postgresql://me:pass%40word@[::1]:5433/shop?sslpassword=pass@word", "postgresql://me@[::1]:5433/shop"),
    ],
)
def test_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert PostgresStore(url).url == shown
    assert "word" not in repr(PostgresStore(url))


@pytest.mark.parametrize(
    "url", ["postgresql://me:s3cret@host:port/x", "postgresql://me:s3cret@host/x?what=1", "mysql://me:s3cret@host", ""]
)
def test_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PostgresStore(url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("schema", ["", "Cloister", "pg_x", 'a"b', "a-b", "x" * 49])
def test_schema_with_a_name_that_needs_quotes_is_refused(schema: str) -> None:
    with pytest.raises(InvalidInput, match="schema"):
        PostgresStore("postgresql://localhost/x", schema=schema)


async def test_server_that_is_not_there_is_named(pg_server: PgServer) -> None:
    url = pg_server.url().replace(f":{pg_server.port}/", ":1/")
    error = await _refused(PostgresStore(url))
    assert isinstance(error, StoreUnavailable)
    assert "127.0.0.1:1" in error.message
    assert "refused" in error.message


async def test_database_that_is_not_there_is_named(pg_server: PgServer) -> None:
    error = await _refused(PostgresStore(pg_server.url("nothing")))
    assert isinstance(error, StoreUnavailable)
    assert "no database 'nothing'" in error.message


async def test_server_of_another_kind_is_refused() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await _refused(PostgresStore(f"postgresql://me@127.0.0.1:{port}/x"))
    assert isinstance(error, StoreUnusable)
    assert "not a PostgreSQL server" in error.message


async def test_database_that_cannot_hold_every_text_is_refused(pg_server: PgServer) -> None:
    pg_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    error = await _refused(PostgresStore(pg_server.url("latin")))
    assert isinstance(error, StoreUnusable)
    assert "LATIN1" in error.message


async def test_tables_of_another_program_are_named_and_left_alone(place: Place) -> None:
    place.sql(f"CREATE SCHEMA {place.schema}; CREATE TABLE {place.schema}.sessions (theirs int)")
    error = await _refused(place.store())
    assert isinstance(error, StoreUnusable)
    assert "another program: sessions" in error.message
    assert place.sql("SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace") == [
        ("sessions",)
    ]


async def test_newer_schema_is_refused_by_its_version(place: Place) -> None:
    async with place.store():
        pass
    place.sql("INSERT INTO cloister_migrations VALUES (999, 'm999_later')")
    error = await _refused(place.store())
    assert isinstance(error, StoreUnusable)
    assert "version 999" in error.message


async def test_user_who_may_not_make_the_schema_is_told_how(pg_server: PgServer, place: Place) -> None:
    pg_server.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
    error = await _refused(PostgresStore(pg_server.url(user="guest", password="guest"), schema=place.schema))
    assert isinstance(error, StoreUnusable)
    assert error.hint is not None
    assert f"CREATE SCHEMA {place.schema} AUTHORIZATION guest" in error.hint


async def test_schema_that_was_made_for_a_user_is_used(pg_server: PgServer, place: Place) -> None:
    pg_server.execute(f"CREATE ROLE tenant LOGIN PASSWORD 'tenant'; CREATE SCHEMA {place.schema} AUTHORIZATION tenant")
    async with PostgresStore(pg_server.url(user="tenant", password="tenant"), schema=place.schema) as store:
        assert await store.write(Batch((Append("ses_a", "x", 1),))) == (1,)


async def test_store_is_found_through_its_unix_socket(pg_server: PgServer, place: Place) -> None:
    async with PostgresStore(pg_server.url(unix=True), schema=place.schema) as store:
        await store.write(Batch((Put(session()),)))
        assert await store.session("ses_a") == session()


async def test_tables_are_those_that_the_check_knows(place: Place, store: PostgresStore) -> None:
    await store.sessions()
    rows = place.sql(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    )
    assert {name for (name,) in rows} == TABLES


# -- trouble ---------------------------------------------------------------------------------------------------------


class Writing:
    """Tasks that write on and on and remember what they were told. A batch is two rows, so that half of one shows."""

    def __init__(self, store: PostgresStore, tasks: int) -> None:
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self._store = store
        self._over = asyncio.Event()
        self._tasks = [asyncio.ensure_future(self._write(me)) for me in range(tasks)]

    async def _write(self, me: int) -> None:
        n = 0
        while not self._over.is_set():
            n += 1
            key = f"{me}/{n}"
            try:
                await self._store.write(Batch((Put(value(key)), Append("ses_a", key, n))))
            except StoreUnavailable:
                self.failed.append(key)
                # A caller that tries again does not do so at once.
                await asyncio.sleep(0.01)
            else:
                self.acknowledged.append(key)

    async def until(self, count: int) -> None:
        """So many more are acknowledged."""
        goal = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= goal)

    async def end(self) -> None:
        self._over.set()
        await asyncio.gather(*self._tasks)
        values = {row.key for row in await self._store.values("ses_a")}
        events = [row.kind for row in await self._store.events(limit=1_000_000)]
        assert len(events) == len(set(events))
        assert values == set(events), "half a batch"
        assert values >= set(self.acknowledged), "acknowledged and lost"
        assert values <= {*self.acknowledged, *self.failed}


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["at once", "in order"])
async def test_restart_of_the_server_loses_nothing_that_was_acknowledged(place: Place, how: signal.Signals) -> None:
    async with place.store() as store:
        writing = Writing(store, 20)
        for _ in range(3):
            await writing.until(200)
            await asyncio.to_thread(place.server.stop, how)
            place.server.start()
        await writing.until(200)
        await writing.end()
        assert writing.failed
        assert await store.check() == []


async def test_restart_while_nobody_writes_is_not_noticed(place: Place, store: PostgresStore) -> None:
    [last] = await store.write(Batch((Append("ses_a", "x", 1),)))
    assert await store.wait_for_events(last, 1) is False
    place.server.stop()
    place.server.start()
    waiting = asyncio.ensure_future(store.wait_for_events(last, 60_000))
    assert [row.seq for row in await store.events()] == [last]
    async with place.store() as other:
        await other.write(Batch((Append("ses_a", "x", 2),)))
    assert await asyncio.wait_for(waiting, 30)
    await store.write(Batch((Append("ses_a", "x", 3),)))
    assert [row.at_ms for row in await store.events()] == [1, 2, 3]


async def test_store_without_a_server_says_so_and_works_again_when_it_is_back(
    place: Place, store: PostgresStore
) -> None:
    await store.write(Batch((Put(session()),)))
    place.server.stop(signal.SIGQUIT)
    try:
        answers = [store.write(Batch((Put(value(f"{n}")),))) for n in range(50)]
        outcomes = await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), 30)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
        for trying in (store.session("ses_a"), store.join("one", 1), store.claim("one"), store.check(), store.vacuum()):
            with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
                await trying
    finally:
        place.server.start()
    await store.write(Batch((Put(value("later")),)))
    assert [row.key for row in await store.values("ses_a")] == ["later"]
    assert await store.session("ses_a") == session()


async def test_store_that_is_closed_without_a_server_is_closed(place: Place) -> None:
    async with place.store() as store:
        place.server.stop(signal.SIGQUIT)
        answer = store.write(Batch((Put(value()),)))
    try:
        with pytest.raises(StoreUnavailable):
            await answer
    finally:
        place.server.start()


async def test_connection_that_is_cut_again_and_again_loses_nothing(place: Place) -> None:
    async with proxy_to(place.server.port) as proxy, place.store(proxy.port) as store:
        writing = Writing(store, 10)
        for _ in range(10):
            await writing.until(30)
            proxy.cut()
        await writing.until(30)
        await writing.end()
        assert writing.failed


async def test_write_on_a_lost_connection_never_comes_after_those_on_the_new_one(place: Place) -> None:
    async with proxy_to(place.server.port) as proxy, place.store(proxy.port) as store:
        await store.write(Batch((Put(value(value="first")),)))
        [(pid,)] = place.sql("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'cloister writer%'")
        os.kill(pid, signal.SIGSTOP)
        try:
            before = proxy.sent_bytes
            lost = store.write(Batch((Put(value(value="lost")),)))
            await until(lambda: proxy.sent_bytes > before)
            # It has come to the server, which has not read it and does not know that nobody waits any more.
            proxy.cut(the_server_notices=False)
            with pytest.raises(StoreUnavailable):
                await lost
            later = asyncio.ensure_future(_answer(store.write(Batch((Put(value(value="later")),)))))
            await until(lambda: later.done() or place.waits_for("BackendTermination"))
        finally:
            os.kill(pid, signal.SIGCONT)
        await later
        await until(lambda: place.sql(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND state <> 'idle'") == [])
        assert [row.value for row in await store.values("ses_a")] == ["later"]


async def _answer(answer: Awaitable[T]) -> T:
    return await answer


async def test_writer_that_the_server_throws_out_fails_what_waits_and_goes_on(
    place: Place, store: PostgresStore
) -> None:
    with psycopg.connect(place.server.url()) as lock:
        lock.execute(*_write_lock(place))
        answers = [store.write(Batch((Put(value(f"{n}")),))) for n in range(10)]
        await until(lambda: place.waits_for("advisory"))
        answers += [store.write(Batch((Put(value(f"behind {n}")),))) for n in range(10)]
        place.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'cloister writer%'"
        )
        # Those behind it too, and at once: they do not wait for the lock once more.
        outcomes = await asyncio.wait_for(asyncio.gather(*answers, return_exceptions=True), 15)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
    await store.write(Batch((Put(value("later")),)))
    assert [row.key for row in await store.values("ses_a")] == ["later"]


def _write_lock(place: Place) -> tuple[bytes, Sequence[Any]]:
    text, numbers = write_lock(Address(place.server.url(), place.schema).lock_number)
    return text.encode(), numbers
