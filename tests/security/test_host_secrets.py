"""What the host's code says when it breaks stays with the host: texts, classes, paths and tracebacks reach no program.

A program gets a code and a plain sentence. Only a tool that speaks through `ToolError` is heard.
"""

import asyncio
import json
import logging
import re
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from pydantic import AfterValidator, BaseModel

import cloister.app.cloister
from cloister import Cloister, Deny, Hook, RunResult, Session, Tool, ToolError
from cloister.ports.journal import Intent, Settled
from cloister.stores.memory import MemoryJournal
from tests.security.leaks import texts_in

pytestmark = pytest.mark.anyio

LANGUAGES = ("python", "typescript")
# In every text that the host says to itself here.
SAID = "swordfish"
PLACES = [str(Path(__file__).parents[2]), sys.prefix, sysconfig.get_paths()["purelib"], "site-packages", "/srv/"]
SIGNS = ["Traceback", 'File "', ".py", " object at 0x", "Private", "Error(", "Exception", "errors.pydantic.dev"]


class PrivateError(Exception):
    """One of the host's own."""


class PrivateExit(BaseException):
    """One that stops the process."""


class PrivateLookalike(Exception):
    """Has what a ToolError has, and is none."""

    code, message, hint = SAID, SAID, SAID


class PrivateMute(Exception):
    """Breaks when somebody wants to know what it says."""

    # Not a SystemExit: pytest's own report of a failed test would leave with it.
    def __str__(self) -> str:
        raise PrivateExit(SAID)

    __repr__ = __str__


class _Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__"):
            raise RuntimeError(SAID)
        return super().__getattribute__(name)


class PrivateNameless(Exception, metaclass=_Nameless):
    """Breaks when somebody wants to know what it is."""


class PrivateHermit(Exception):
    """Breaks when somebody wants to know where it comes from."""

    @property
    def __cause__(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError(SAID)


class PrivateToolError(ToolError):
    """Wants to speak, and cannot."""

    @property
    def message(self) -> str:
        raise PrivateError(SAID)

    @message.setter
    def message(self, _: str) -> None: ...


class PrivateModel(BaseModel):
    amount: int


def _chained() -> Exception:
    try:
        try:
            raise FileNotFoundError(2, SAID, "/srv/private/keys.json")
        except FileNotFoundError as error:
            raise PrivateError(SAID) from error
    except PrivateError as error:
        return error


def _invalid() -> Exception:
    try:
        PrivateModel.model_validate({"amount": SAID})
    except ValueError as error:
        return error
    raise AssertionError


def _noted() -> Exception:
    error = PrivateError()
    error.add_note(f"see /srv/private/{SAID}")
    return error


RAISES: dict[str, Callable[[], BaseException]] = {
    "own": lambda: PrivateError(SAID),
    "with a cause": _chained,
    "with a note": _noted,
    "group": lambda: ExceptionGroup(SAID, [PrivateError(SAID), OSError(SAID)]),
    "group of exits": lambda: BaseExceptionGroup(SAID, [PrivateExit(SAID), KeyboardInterrupt(SAID)]),
    "base": lambda: PrivateExit(SAID),
    "exit": lambda: SystemExit(SAID),
    "interrupt": lambda: KeyboardInterrupt(SAID),
    "cancellation": lambda: asyncio.CancelledError(SAID),
    "end of a generator": lambda: GeneratorExit(SAID),
    "end of an iterator": lambda: StopIteration(SAID),
    "timeout": lambda: TimeoutError(SAID),
    "out of memory": lambda: MemoryError(SAID),
    "file": lambda: FileNotFoundError(2, SAID, "/srv/private/keys.json"),
    "text": lambda: UnicodeDecodeError("utf-8", b"\xff/srv/private", 0, 1, SAID),
    "syntax": lambda: SyntaxError(SAID, ("/srv/private/x.py", 1, 2, f"{SAID} = ", 1, 3)),
    "syntax that cannot be shown": lambda: SyntaxError(SAID, cast("Any", ("/srv/private/x.py", 1, 2, 3, 4, 5))),
    "process": lambda: subprocess.CalledProcessError(1, ["/srv/private/run", SAID], SAID, SAID),
    "model": _invalid,
    "JSON": lambda: json.JSONDecodeError(SAID, "/srv/private", 3),
    "object": lambda: PrivateError(object()),
    "look-alike": lambda: PrivateLookalike(SAID),
    "mute": lambda: PrivateMute(SAID),
    "nameless": lambda: PrivateNameless(SAID),
    "without a past": lambda: PrivateHermit(SAID),
    "broken ToolError": lambda: PrivateToolError("NO", SAID),
}

SOME = ("own", "with a cause", "exit", "cancellation", "mute", "nameless", "syntax that cannot be shown")

# Everything that a program can find out about an error.
CAUGHT = {
    "python": """
out = []
try:
    await {call}
except Exception as e:
    out = [str(e), repr(e), [str(one) for one in e.args]]
    for name in ('__cause__', '__context__', '__traceback__', '__notes__', '__dict__', '__doc__', '__module__', 'code'):
        out.append(str(getattr(e, name, None)))
out
""",
    "typescript": """
const out: any[] = [];
try { await tools.{call} } catch (e: any) {
  for (let o = e; o && o !== Object.prototype; o = Object.getPrototypeOf(o)) {
    for (const key of Reflect.ownKeys(o)) if (key !== "constructor" && key !== "toString") out.push(String(e[key]));
  }
  out.push(String(e), JSON.stringify(e), String(e.cause), e.stack, e.message, e.code, e.hint, e.tool);
}
out
""",
}
PLAIN = {"python": "await {call}", "typescript": "await tools.{call}"}


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str) -> AsyncIterator[Cloister]:
    async with Cloister(workers=2, snapshot_key=b"k" * 32) as runtime:
        yield runtime


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
async def _clean(runtime: Cloister) -> AsyncIterator[None]:
    yield
    for meta in await runtime.list_sessions():
        await runtime.destroy_session(meta.id)


async def told(session: Session, call: str = "odd()") -> tuple[RunResult, list[str]]:
    """A run that does not catch the error, and all that can be learnt of it: by catching it and by not doing so."""
    caught = await session.run(CAUGHT[session.language].replace("{call}", call))
    assert caught.ok, caught.error
    assert caught.result, "there was an error to catch"
    uncaught = await session.run(PLAIN[session.language].replace("{call}", call))
    assert uncaught.error is not None
    return uncaught, [text for text in texts_in([caught, uncaught]) if isinstance(text, str)]


def assert_nothing_of_the_host(texts: list[str]) -> None:
    # The one text of ours that is allowed to look like Python is what a program's own `repr` makes of its error.
    shown = [re.sub(r"^RuntimeError\('(.*)'\)$", r"\1", text) for text in texts]
    found = {word for text in shown for word in (SAID, *PLACES, *SIGNS) if word in text}
    assert found == set(), shown


def odd_tool(error: Callable[[], BaseException], *, plain: bool) -> Tool:
    async def later() -> None:
        raise error()

    def at_once() -> None:
        raise error()

    return Tool(at_once if plain else later, name="odd")


# -- tools -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("kind", RAISES)
async def test_exception_of_a_tool_is_a_failure_and_no_more(
    runtime: Cloister, language: str, kind: str, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    session = await runtime.open_session(language=language, tools=[odd_tool(RAISES[kind], plain=plain)])
    result, texts = await told(session)
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("TOOL_ERROR", "`odd` failed")
    assert_nothing_of_the_host(texts)
    # The host is told, though.
    assert [line.getMessage().splitlines()[0] for line in caplog.records] == ["tool odd failed"] * 2


async def test_tool_may_choose_what_to_say_and_says_no_more(runtime: Cloister, language: str) -> None:
    async def odd() -> None:
        try:
            raise PrivateError(SAID)
        except PrivateError as error:
            raise ToolError("NO_SUCH_ORDER", "there is no order A7", "look for it first") from error

    session = await runtime.open_session(language=language, tools=[odd])
    result, texts = await told(session)
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("NO_SUCH_ORDER", "there is no order A7")
    assert_nothing_of_the_host(texts)


@pytest.mark.parametrize("text", ["half \ud800", "x" * 100_000, "\0\x1b[31m"], ids=["surrogate", "long", "control"])
async def test_whatever_a_tool_says_its_program_goes_on(runtime: Cloister, language: str, text: str) -> None:
    async def odd() -> None:
        raise ToolError(text, text, text)

    session = await runtime.open_session(language=language, tools=[odd])
    result, texts = await told(session)
    assert result.external_calls[0].status == "error"
    assert max(map(len, texts)) < 20_000
    assert (await session.run("1 + 1")).result == 2


class Spokesman(Hook):
    def __init__(self, text: str) -> None:
        self.text = text

    async def before_call(self, call: Any) -> Deny:
        return Deny(self.text, self.text)


async def test_whatever_a_hook_says_its_program_goes_on(runtime: Cloister, language: str) -> None:
    async def odd() -> None:
        raise AssertionError("never called")

    session = await runtime.open_session(language=language, tools=[odd], hooks=[Spokesman("half \ud800")])
    result, _ = await told(session)
    assert result.external_calls[0].status == "denied"
    assert (await session.run("1 + 1")).result == 2


@pytest.mark.parametrize("kind", SOME)
async def test_one_that_breaks_does_not_disturb_those_beside_it(
    runtime: Cloister, language: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    caplog.set_level(logging.CRITICAL)
    session = await runtime.open_session(language=language, tools=[odd_tool(RAISES[kind], plain=False), fine])
    code = {
        "python": "import asyncio\nasync def caught(one):\n    try:\n        return await one\n"
        "    except RuntimeError:\n        return 'broke'\n"
        "await asyncio.gather(caught(fine()), caught(odd()), caught(fine()))",
        "typescript": "const got: any = await Promise.allSettled([tools.fine(), tools.odd(), tools.fine()]);"
        "[got[0].value, got[1].reason && 'broke', got[2].value]",
    }
    result = await session.run(code[language])
    assert result.result == ["fine", "broke", "fine"], result.error


class Private:
    """An object of the host with a repr that tells."""

    def __repr__(self) -> str:
        return f"<Private {SAID} at /srv/private>"

    __str__ = __repr__


@pytest.mark.parametrize(
    "value",
    [Private(), [Private()], {"k": {Private(): 1}}, Private, open],
    ids=["object", "list", "key", "class", "function"],
)
async def test_result_that_is_no_data_is_not_described(
    runtime: Cloister, language: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def odd() -> Any:
        return value

    caplog.set_level(logging.CRITICAL)
    session = await runtime.open_session(language=language, tools=[odd])
    result, texts = await told(session)
    assert result.error is not None
    assert result.error.message == "`odd` returned what is not JSON"
    assert_nothing_of_the_host(texts)


async def test_result_that_breaks_its_promise_is_not_shown(runtime: Cloister, language: str) -> None:
    async def odd() -> Any:
        return {"name": SAID, "path": 7}

    schema = {"type": "object", "properties": {"name": {"const": "x"}, "path": {"type": "string"}}}
    session = await runtime.open_session(language=language, tools=[Tool(odd, output_schema=schema)])
    result, texts = await told(session)
    assert result.error is not None
    assert result.error.code == "TOOL_ERROR"
    assert_nothing_of_the_host(texts)


# -- what stands around them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in RAISES if kind not in ("model", "text", "JSON")])
async def test_exception_of_a_validator_is_a_failure_and_no_more(
    runtime: Cloister, language: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """But for ValueError and AssertionError, by which validators speak to whoever gave the value."""

    def check(_: Any) -> Any:
        raise RAISES[kind]()

    async def odd(value: Annotated[Any, AfterValidator(check)] = 1) -> None:
        raise AssertionError("never called")

    caplog.set_level(logging.CRITICAL)
    session = await runtime.open_session(language=language, tools=[odd])
    given = {"python": "odd(value=2)", "typescript": "odd({value: 2})"}[language]
    result, texts = await told(session, given)
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("TOOL_ERROR", "`odd` could not read its arguments")
    assert_nothing_of_the_host(texts)


async def test_validator_may_speak_by_a_value_error(runtime: Cloister, language: str) -> None:
    def check(_: Any) -> Any:
        raise ValueError("give a larger one")

    async def odd(value: Annotated[Any, AfterValidator(check)] = 1) -> None:
        raise AssertionError("never called")

    session = await runtime.open_session(language=language, tools=[odd])
    result, texts = await told(session, {"python": "odd(value=2)", "typescript": "odd({value: 2})"}[language])
    assert result.error is not None
    assert result.error.message == "`odd`: Value error, give a larger one at $.value"
    assert_nothing_of_the_host(texts)


class Watchman(Hook):
    def __init__(self, when: str, error: Callable[[], BaseException]) -> None:
        self.when = when
        self.error = error

    async def before_call(self, call: Any) -> Any:
        if self.when == "before":
            raise self.error()
        if self.when == "answer":
            return Private()
        return None

    async def after_call(self, call: Any, record: Any) -> None:
        if self.when == "after":
            raise self.error()


@pytest.mark.parametrize("when", ["before", "after", "answer"])
@pytest.mark.parametrize("kind", SOME)
async def test_exception_of_a_hook_denies_and_no_more(
    runtime: Cloister, language: str, kind: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def odd() -> str:
        return "done"

    caplog.set_level(logging.CRITICAL)
    hooks = [Watchman(when, RAISES[kind])]
    session = await runtime.open_session(language=language, tools=[odd], hooks=hooks)
    result, texts = await told(session)
    assert result.error is not None
    assert result.error.code == "PERMISSION_DENIED"
    assert_nothing_of_the_host(texts)


@pytest.mark.parametrize("kind", SOME)
async def test_exception_of_an_approver_leaves_the_question_open_and_says_nothing(
    language: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def odd() -> str:
        return "done"

    async def approver(_: Any) -> str:
        raise RAISES[kind]()

    caplog.set_level(logging.CRITICAL)
    tools = [Tool(odd, approval_policy="manual")]
    async with Cloister(tools=tools, workers=1, approver=approver, snapshot_key=b"k" * 32) as runtime:
        session = await runtime.open_session(language=language)
        waiting = await session.run(PLAIN[language].replace("{call}", "odd()"))
        assert waiting.status == "waiting_for_approval"
        await runtime.decide(waiting.approvals[0].id, "allow")
        done = await session.resume(waiting.cell_id)
    assert done.result == "done"
    assert_nothing_of_the_host([text for text in texts_in([waiting, done]) if isinstance(text, str)])


class BrokenJournal(MemoryJournal):
    breaks_at = ""

    async def intend(self, intent: Intent) -> None:
        if self.breaks_at == "intent":
            raise PrivateError(SAID) from OSError(28, SAID, "/srv/private/journal.db")
        await super().intend(intent)

    async def settle(self, settled: Settled) -> None:
        if self.breaks_at == "settlement":
            raise PrivateError(SAID) from OSError(28, SAID, "/srv/private/journal.db")
        await super().settle(settled)


@pytest.mark.parametrize(("breaks_at", "code"), [("intent", "TOOL_ERROR"), ("settlement", "OUTCOME_UNKNOWN")])
async def test_exception_of_the_journal_is_a_failure_and_no_more(
    language: str, breaks_at: str, code: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def odd() -> str:
        return "done"

    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(BrokenJournal, "breaks_at", breaks_at)
    monkeypatch.setattr(cloister.app.cloister, "MemoryJournal", BrokenJournal)
    async with Cloister(tools=[odd], workers=1, snapshot_key=b"k" * 32) as runtime:
        result, texts = await told(await runtime.open_session(language=language))
    assert result.error is not None
    assert result.error.code == code
    assert_nothing_of_the_host(texts)


async def test_listeners_that_break_are_not_heard_of(language: str, caplog: pytest.LogCaptureFixture) -> None:
    async def odd() -> str:
        return "done"

    def breaks(*_: object) -> None:
        raise PrivateError(SAID)

    caplog.set_level(logging.CRITICAL)
    async with Cloister(tools=[odd], workers=1, on_event=breaks, snapshot_key=b"k" * 32) as runtime:
        session = await runtime.open_session(language=language)
        code = {"python": "print(1)\nawait odd()", "typescript": "console.log(1); await tools.odd()"}[language]
        result = await session.run(code, on_output=breaks)
    assert result.result == "done"
    assert_nothing_of_the_host([text for text in texts_in(result) if isinstance(text, str)])


async def test_what_a_program_can_ask_about_tools_names_no_place_of_the_host(runtime: Cloister, language: str) -> None:
    session = await runtime.open_session(language=language, tools=[odd_tool(RAISES["own"], plain=False)])
    asked = {
        "python": "[await list_tools(), await describe_tool('odd'), await current_policy()]",
        "typescript": "[await list_tools(), await describe_tool('odd'), await current_policy()]",
    }
    result = await session.run(asked[language])
    assert result.ok, result.error
    assert_nothing_of_the_host([text for text in texts_in(result) if isinstance(text, str)])
