"""What is sent again when a connection breaks, and what is not, through a relay to a real server."""

from pathlib import Path

import pytest

from cloister.client import AsyncClient, Client, Retry, ServerUnreachable
from cloister.client.errors import Problem
from cloister.client.link import Link, token_of
from cloister.client.retry import may_repeat
from cloister.core.errors import InvalidInput, InvalidLimits
from tests.client.conftest import QUICK
from tests.client.relay import relay
from tests.server.lab import ADMIN, Running


def test_what_has_no_effect_is_asked_again(client: Client, server: Running) -> None:
    client.sessions.create("asked")
    with relay(server.url, lambda number: 40 if number < 3 else None) as way:
        with Client(way.url, ADMIN, retry=QUICK) as remote:
            assert remote.sessions.get("asked").id == "asked"
        assert way.connections == 3


def test_what_may_have_been_done_is_not_asked_again(client: Client, server: Running) -> None:
    client.sessions.create("counts")
    client.sessions.run("counts", "n = 0")
    with relay(server.url, lambda number: 40 if number == 1 else None) as way:
        with Client(way.url, ADMIN, retry=QUICK) as remote, pytest.raises(ServerUnreachable) as broken:
            remote.sessions.run("counts", "n += 1\nn")
        assert "look before you ask again" in (broken.value.hint or "")
        assert way.connections == 1
    assert client.sessions.run("counts", "n").result == 1


def test_what_has_a_key_is_asked_again_and_done_once(client: Client, server: Running) -> None:
    client.sessions.create("keyed")
    client.sessions.run("keyed", "n = 0")
    with relay(server.url, lambda number: 40 if number < 3 else None) as way:
        with Client(way.url, ADMIN, retry=QUICK) as remote:
            assert remote.sessions.run("keyed", "n += 1\nn", key="r-1").result == 1
        assert way.connections == 3
    assert client.sessions.run("keyed", "n").result == 1


@pytest.mark.anyio
async def test_async_client_asks_again_by_the_same_rule(client: Client, server: Running) -> None:
    client.sessions.create("later")
    with relay(server.url, lambda number: 40 if number < 3 else None) as way:
        async with AsyncClient(way.url, ADMIN, retry=QUICK) as remote:
            assert (await remote.sessions.get("later")).id == "later"
    with relay(server.url, lambda _: 40) as way:
        async with AsyncClient(way.url, ADMIN, retry=QUICK) as remote:
            with pytest.raises(ServerUnreachable):
                await remote.sessions.run("later", "1")
        assert way.connections == 1


def test_server_that_is_not_there_is_named_with_what_to_do() -> None:
    with Client("http://127.0.0.1:1", ADMIN, retry=QUICK) as client:
        with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1") as error:
            client.sessions.create()
    assert "cloister serve" in (error.value.hint or "")


def test_rule_says_what_may_come_twice() -> None:
    def problem(code: str) -> Problem:
        return Problem(503, code, "")

    assert may_repeat(problem("RATE_LIMITED"), 429, repeatable=False)
    assert may_repeat(problem("SHUTTING_DOWN"), 503, repeatable=True)
    assert not may_repeat(problem("SHUTTING_DOWN"), 503, repeatable=False)
    assert not may_repeat(problem("model_failed"), 502, repeatable=True)
    assert may_repeat(None, 502, repeatable=True)
    assert not may_repeat(None, 502, repeatable=False)
    assert not may_repeat(None, 404, repeatable=True)


def test_waits_grow_up_to_a_bound_and_end() -> None:
    retry = Retry(attempts=5, first_ms=100, most_ms=400)
    waits = [retry.wait_ms(failed) for failed in range(1, 6)]
    assert waits[4] is None
    for wait, most in zip(waits, (100, 200, 400, 400), strict=False):
        assert wait is not None
        assert most / 2 <= wait <= most
    assert (retry.wait_ms(1, 300) or 0) >= 300
    assert retry.wait_ms(1, 10_000) is None
    with pytest.raises(InvalidLimits, match="attempts"):
        Retry(attempts=0)


def test_environment_says_where_the_server_is_and_who_asks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Running
) -> None:
    (tmp_path / "token").write_text(ADMIN + "\n")
    (tmp_path / "server.token").write_text("the-token-of-this-machine\n")
    monkeypatch.setenv("CLOISTER_URL", server.url + "/")
    monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("CLOISTER_TOKEN", raising=False)
    monkeypatch.delenv("CLOISTER_TOKEN_FILE", raising=False)
    assert Client().link.token == "the-token-of-this-machine"
    assert token_of(Link("https://api.example.com")) is None
    monkeypatch.setenv("CLOISTER_TOKEN_FILE", str(tmp_path / "token"))
    with Client() as client:
        assert client.link.url == server.url
        client.sessions.list()
    assert ADMIN not in repr(client.link)
    monkeypatch.setenv("CLOISTER_TOKEN", "another-token-than-that")
    assert Client().link.token == "another-token-than-that"
    for url in ("ftp://x", "localhost:1", "http://a:b@c", "http://x/?q"):
        with pytest.raises(InvalidInput):
            Client(url)
