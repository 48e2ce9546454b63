"""Several hosts on one store, one of which is killed at a random instant, and another comes, again and again."""

import asyncio
import json
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import pytest

from cloister import ReplayReport
from cloister.app.address import make_store
from cloister.ports.clock import SystemClock
from cloister.ports.store import Store
from tests.crash.parent import Course, Kept, Nursery, Trial, look_into, replay_all
from tests.crash.test_two_hosts import Peer
from tests.stores.pg_server import PgServer

# Each is a dozen processes: on a machine that others use too, minutes.
pytestmark = pytest.mark.timeout(600)
# How many are killed before the last ones may finish, and after how many words the one that has the session is.
KILLS, WORDS = 4, 12
# Longer than a commit.
INSTANT_SECONDS = 0.02


class Host(Peer):
    """Has what it says heard, and that it is gone."""

    def __init__(self, directory: Path, heard: "Heard", **orders: str) -> None:
        super().__init__(directory, **orders)
        self.is_over = False
        self._heard = heard
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        for line in self._pipe:
            self._heard.put((self, json.loads(line)))
        self._heard.put((self, None))

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._listener.join()
        super().close()


Heard: TypeAlias = "SimpleQueue[tuple[Host, dict[str, Any] | None]]"


class Relay(Trial):
    """One plan on one store that hosts share: one has its session, and another waits for it."""

    store: str
    heard: Heard

    def look(self) -> Kept:
        async def look() -> Kept:
            async with _store(self.store) as store:
                return await look_into(store)

        return asyncio.run(look())

    def replay(self) -> list[ReplayReport]:
        return asyncio.run(replay_all(_store(self.store)))

    def run(self, seed: int) -> None:
        rng, self.heard = random.Random(seed), SimpleQueue()
        hosts = [self._host(), self._host()]
        try:
            while self.kills < KILLS and (owner := self._owner(hosts)) is not None:
                if not self._listen(owner, rng.randint(0, WORDS)):
                    break
                time.sleep(rng.uniform(0, INSTANT_SECONDS))
                # Now and then the one that waits.
                self._kill(owner if rng.random() < 0.8 else next(one for one in hosts if one is not owner), hosts)
                hosts.append(self._host())
            while hosts:
                self._end(hosts[0])
                assert hosts[0].process.returncode == 0, hosts[0].said[-3:]
                self._gone(hosts.pop(0))
        finally:
            for host in hosts:
                host.close()

    def _host(self) -> Host:
        orders = {"CRASH_PLAN": self.plan, "CRASH_STORE": self.store, "CRASH_WAIT_MS": "300000"}
        return Host(self.directory, self.heard, **orders)

    def _hear(self) -> None:
        """The next word of anybody."""
        host, word = self.heard.get(timeout=120)
        if word is None:
            host.is_over = True
        else:
            host.said.append(word)

    def _owner(self, hosts: list[Host]) -> Host | None:
        """The one that has the session; None if one has finished."""
        while not (found := [host for host in hosts if host.all("found")]):
            self._hear()
        return None if any(host.is_over for host in hosts) else found[0]

    def _listen(self, host: Host, words: int) -> bool:
        """Until it has said so many more; False if it has ended before."""
        enough = len(host.said) + words
        while len(host.said) < enough and not host.is_over:
            self._hear()
        return not host.is_over

    def _end(self, host: Host) -> None:
        while not host.is_over:
            self._hear()
        host.process.wait(60)

    def _kill(self, host: Host, hosts: list[Host]) -> None:
        host.kill()
        self._end(host)
        self.kills += host.process.returncode == -signal.SIGKILL
        hosts.remove(host)
        self._gone(host)

    def _gone(self, host: Host) -> None:
        """What it has said holds. Another may have been there before it and go later: events are in the order of their
        numbers, and not of their hosts."""
        host.close()
        self.lives.append(f"{host.process.returncode} after {len(host.said)} words")
        self.acks += host.said
        self.acks.sort(key=lambda ack: ack["seq"] if ack["what"] == "event" else 0)
        finals = [ack["state"] for ack in host.said if ack["what"] == "final"]
        self.final = finals[-1] if finals else self.final


def _store(url: str) -> Store:
    made = make_store(url, SystemClock())
    assert made is not None
    return made


@pytest.fixture
def relay(
    request: pytest.FixtureRequest, nursery: Nursery, course: Callable[[str], Course], tmp_path: Path
) -> Callable[[str, str, int], None]:
    def run(plan: str, kind: str, seed: int) -> None:
        known, directory = course(plan), tmp_path / "trial"
        directory.mkdir()
        trial = Relay(nursery, plan, directory)
        if kind == "sqlite":
            trial.store = f"sqlite://{directory}/store.db"
        else:
            server: PgServer = request.getfixturevalue("pg_server")
            trial.store = server.url(server.new_database())
        trial.run(seed)
        assert trial.kills
        # Not before all are gone: what one host does between two looks would be taken for what another has lost.
        trial.check()
        trial.check_final(known.expected)

    return run


@pytest.mark.parametrize(("plan", "kind"), [("gathered-typescript", "sqlite"), ("asking-python", "postgres")])
def test_hosts_that_are_killed_beside_each_other_come_to_the_same_end(
    relay: Callable[[str, str, int], None], plan: str, kind: str
) -> None:
    relay(plan, kind, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("plan", ["sequence-typescript", "gathered-python", "asking-typescript", "filed-python"])
def test_hosts_that_are_killed_beside_each_other_come_to_the_same_end_for_many_seeds(
    relay: Callable[[str, str, int], None], plan: str, kind: str, seed: int
) -> None:
    relay(plan, kind, seed)
