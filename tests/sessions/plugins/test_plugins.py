"""Plugins: what they add to a session, what they keep with it, and that no session falls with one of them."""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cloister import (
    Cloister,
    Contribution,
    Deny,
    Event,
    Hook,
    HookedCall,
    InvalidInput,
    Plugin,
    PluginContext,
    PromptPart,
    Tool,
)
from cloister.core.value import Json
from tests.sessions.door import value
from tests.sessions.sources import Shop
from tests.sessions.ways import House

pytestmark = pytest.mark.anyio


class Made:
    """A plugin of parts that the test gives it."""

    def __init__(self, name: str = "made", make: Callable[[PluginContext], Contribution] | None = None) -> None:
        self.name = name
        self.make = make
        self.contexts: list[PluginContext] = []

    def attach(self, context: PluginContext) -> Contribution:
        self.contexts.append(context)
        return self.make(context) if self.make is not None else Contribution()


async def ping() -> str:
    return "pong"


async def ring() -> str:
    return "rung"


def _giving(name: str = "made", **parts: Any) -> Made:
    return Made(name, lambda _context: Contribution(**parts))


def _disabled(heard: Sequence[Event]) -> list[dict[str, Any]]:
    return [dict(event.data) for event in heard if event.kind == "plugin.disabled"]


@pytest.fixture
def quiet() -> Iterator[None]:
    """What a plugin raises is logged; these tests make them raise."""
    logging.getLogger("cloister.sessions").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("cloister.sessions").setLevel(logging.NOTSET)


# -- what they add ----------------------------------------------------------------------------------------------------


async def test_plugin_adds_tools_texts_and_hooks() -> None:
    class NoRing(Hook):
        async def before_call(self, call: HookedCall) -> Deny | None:
            return Deny("no ringing") if call.name == "ring" else None

    made = _giving(tools=[ping, ring], prompt=[PromptPart("notes", "Ping first.")], hooks=[NoRing()])
    async with House() as house:
        session = await house.open("python", plugins=[made])
        assert value(await session.run("await ping()")) == "pong"
        assert "Ping first." in session.preamble().text
        denied = await session.run("await ring()")
        assert denied.error is not None
        assert (denied.error.code, "no ringing" in denied.error.message) == ("PERMISSION_DENIED", True)
        assert [(info.name, info.enabled) for info in session.plugins] == [("made", True)]
        assert (await house.open("python")).tools.names() == []


async def test_plugin_s_source_is_the_session_s_while_it_lives() -> None:
    shop = Shop("shop", "buy")
    async with House(plugins=[_giving(sources=[shop])]) as house:
        async with await house.open("python") as session:
            assert value(await session.run("await buy(n=1)")) == {"n": 1}
        assert (shop.entered, shop.left) == (1, 1)


async def test_plugin_whose_source_cannot_be_reached_leaves_the_session_open() -> None:
    shop = Shop("shop", "buy")
    shop.gone = "no route"
    async with House() as house:
        session = await house.open("python", plugins=[_giving(sources=[shop], tools=[ping])])
        assert session.sources[0].missing is not None
        assert value(await session.run("await ping()")) == "pong"


async def test_plugins_come_in_their_order() -> None:
    order: list[str] = []

    def hook(name: str) -> Hook:
        class Noting(Hook):
            async def before_call(self, call: HookedCall) -> None:
                order.append(name)

        return Noting()

    base = _giving("base", hooks=[hook("base")], prompt=[PromptPart("notes", "one")])
    own = _giving("own", hooks=[hook("own")], prompt=[PromptPart("notes", "two")])
    async with House(tools=[ping], hooks=[hook("host")], plugins=[base]) as house:
        session = await house.open("python", plugins=[own])
        assert (await session.run("await ping()")).ok
        assert order == ["host", "base", "own"]
        text = session.preamble().text
        assert text.index("one\n") < text.index("two\n")


# -- what they keep ---------------------------------------------------------------------------------------------------


class Counting:
    """Counts the calls of its tool, and keeps the count."""

    name = "counting"

    def attach(self, context: PluginContext) -> Contribution:
        counted = [context.state if isinstance(context.state, int) else 0]

        async def count() -> int:
            counted[0] += 1
            return counted[0]

        return Contribution(tools=[Tool(count)], save=lambda: counted[0])


async def test_state_goes_with_snapshots_and_forks() -> None:
    async with House() as house:
        session = await house.open("python", plugins=[Counting()])
        assert value(await session.run("await count()\nawait count()")) == 2
        fork = await session.fork()
        copy = await house.cloister.restore_session(await session.snapshot(), session_id="copy")
        assert value(await session.run("await count()")) == 3
        assert [value(await other.run("await count()")) for other in (fork, copy)] == [3, 3]


async def test_state_outlives_the_process_that_made_it(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        async with Cloister(store=f"sqlite:///{tmp_path}/s.db", plugins=[Counting()]) as cloister:
            session = await cloister.open_session("s")
            assert value(await session.run("await count()")) == expected


async def test_state_of_a_plugin_that_is_not_here_is_kept_for_when_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    for plugins, expected in (([Counting()], 1), ([], None), ([Counting()], 2)):
        async with Cloister(store=url, snapshot_key=b"k" * 32) as cloister:
            session = await cloister.open_session("s", plugins=plugins)
            result = await session.run("await count()" if plugins else "None")
            assert value(result) == expected


async def test_values_of_the_session_can_be_used_once_it_is_open() -> None:
    made = Made()
    async with House() as house:
        session = await house.open("python", plugins=[made])
        await made.contexts[0].values.set("key", 1)
        assert value(await session.run("load('key')")) == 1


async def test_close_is_called_with_the_session_s() -> None:
    closed: list[str] = []
    async with House() as house:
        session = await house.open("python", plugins=[_giving(close=lambda: closed.append("made"))])
        await session.close()
        await session.close()
        assert closed == ["made"]


# -- what goes wrong --------------------------------------------------------------------------------------------------


def _broken(_context: PluginContext) -> Contribution:
    raise RuntimeError("broken")


def _strange(_context: PluginContext) -> Any:
    return {"tools": [ping]}


BROKEN: list[tuple[Callable[[PluginContext], Any], str]] = [
    (_broken, "attach: RuntimeError"),
    (_strange, "attach() gave dict"),
    (lambda _: Contribution(hooks=[object()]), "is not a hook"),
    (lambda _: Contribution(sources=["shop"]), "is not a source"),
    (lambda _: Contribution(prompt=["text"]), "and not a PromptPart"),  # pyright: ignore[reportArgumentType]
    (lambda _: Contribution(tools=[5]), "its tools: TypeError"),
    (lambda _: Contribution(tools=[ring, ring]), "there is a tool 'ring' already"),
    (lambda _: Contribution(tools=[ping]), "'ping' is a tool of the host and of plugin 'bad'"),
    (lambda _: Contribution(sources=[Shop("taken")]), "there is a source 'taken' already"),
]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("make", "reason"), BROKEN, ids=[reason for _, reason in BROKEN])
async def test_plugin_that_fails_at_the_beginning_is_disabled_and_the_session_opens(
    make: Callable[[PluginContext], Contribution], reason: str
) -> None:
    heard: list[Event] = []
    async with House(tools=[ping], on_event=heard.append) as house:
        plugins: list[Plugin] = [Made("bad", make), _giving("good", tools=[Tool(ring, name="other")])]
        session = await house.open("python", plugins=plugins, sources=[Shop("taken")])
        assert value(await session.run("[await ping(), await other()]")) == ["pong", "rung"]
        (told,) = _disabled(heard)
        assert (told["plugin"], reason in told["reason"]) == ("bad", True), told
        assert [info.enabled for info in session.plugins] == [False, True]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("method", ["before_call", "after_call"])
async def test_plugin_whose_hook_fails_denies_that_call_and_is_gone(method: str) -> None:
    def fail(*_given: object) -> None:
        raise RuntimeError("psst")

    heard: list[Event] = []
    hook = type("Hooked", (), {method: staticmethod(fail)})()
    made = _giving(tools=[ring], hooks=[hook], prompt=[PromptPart("notes", "Ring.")])
    async with House(on_event=heard.append) as house:
        session = await house.open("python", ping, plugins=[made])
        denied = await session.run("await ping()")
        assert denied.error is not None
        assert denied.error.code == "PERMISSION_DENIED"
        assert "psst" not in str(denied)
        assert value(await session.run("await ping()")) == "pong"
        assert _disabled(heard) == [{"plugin": "made", "reason": f"{method}: RuntimeError"}]
        assert "Ring." not in session.preamble().text
        gone = await session.call("ring")
        assert gone.error is not None
        assert "the tool `ring` is gone: plugin 'made' does not offer it any more" in gone.error.message


def _raise() -> Json:
    raise RuntimeError("no")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("save", "reason"),
    [
        (_raise, "save: RuntimeError"),
        (lambda: object(), "its state cannot be kept"),
        (lambda: "x" * 70_000, "its state cannot be kept"),
    ],
)
async def test_plugin_whose_state_cannot_be_kept_does_not_keep_the_session_from_it(
    save: Callable[[], Any], reason: str
) -> None:
    heard: list[Event] = []
    async with House(on_event=heard.append) as house:
        session = await house.open("python", plugins=[_giving(save=save), Counting()])
        assert value(await session.run("await count()")) == 1
        copy = await house.cloister.restore_session(await session.snapshot(), session_id="copy")
        assert value(await copy.run("await count()")) == 2
        assert reason in _disabled(heard)[0]["reason"]


async def test_tool_of_a_plugin_that_fails_is_a_failed_call_and_no_more() -> None:
    async def fail() -> None:
        raise RuntimeError("no")

    async with House() as house:
        session = await house.open("python", plugins=[_giving(tools=[fail, ping])])
        result = await session.run("await fail()")
        assert result.error is not None
        assert result.error.code == "TOOL_ERROR"
        assert value(await session.run("await ping()")) == "pong"


# -- by name ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that announces plugins."""
    (tmp_path / "elsewhere.py").write_text(
        "from cloister import Contribution\n"
        "class Ping:\n"
        "    name = 'ping'\n"
        "    def __init__(self, answer='pong'):\n"
        "        self.answer = answer\n"
        "    def attach(self, context):\n"
        "        async def ping() -> str:\n"
        "            return self.answer\n"
        "        return Contribution(tools=[ping])\n"
        "def broken():\n"
        "    raise RuntimeError('cannot')\n"
    )
    info = tmp_path / "elsewhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[cloister.plugins]\nping = elsewhere:Ping\nbroken = elsewhere:broken\nnone = elsewhere:__name__\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)


@pytest.mark.usefixtures("announced")
async def test_announced_plugin_is_found_by_its_name_and_takes_options() -> None:
    async with House(plugins=["ping"]) as house:
        assert value(await (await house.open("python")).run("await ping()")) == "pong"
        own = await house.open("python", include_base_tools=False, plugins=[("ping", {"answer": "hello"})])
        assert value(await own.run("await ping()")) == "hello"


@pytest.mark.usefixtures("announced")
@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        (["notse"], "there is no plugin 'notse'"),
        (["broken"], "the plugin 'broken' cannot be made: cannot"),
        (["none"], "the plugin 'none'"),
        ([("ping", {"wrong": 1})], "the plugin 'ping' cannot be made"),
        (["web"], "the plugin 'web' cannot be made"),
        (["notes", "notes"], "the plugin 'notes' is there twice"),
        ([5], "5 is not a plugin"),
        ([Made], "is not a plugin"),
        ("notes", "plugins are a list"),
    ],
)
def test_plugin_that_is_none_is_refused(plugins: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Cloister(plugins=plugins)


def test_misspelt_name_comes_with_the_right_one() -> None:
    with pytest.raises(InvalidInput) as refusal:
        Cloister(plugins=["notse"])
    assert refusal.value.hint == "did you mean 'notes'?"
