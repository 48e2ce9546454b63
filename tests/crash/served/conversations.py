"""What is said in the threads whose server is killed: turns, what a model answers to each, and who else has a word.

Every number that a call is made with occurs once in a conversation, so that an effect can be told by its tool and
number; numbers that three divides are denied. Each answer of the model carries the name of its place, `[answer a.1]`,
and each turn's words theirs, `[turn a]`: so a request says by itself which answer it is for.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cloister.core.dynamic import DynamicToolSpec
from cloister.core.language import Language
from cloister.core.thread import DriverKind, Wake
from tests.crash.plans import SAFE_PY, SAFE_TS
from tests.threads.models.wire.reply import Reply

# Made by the text of the whole request, where it has to be looked at.
Answer: TypeAlias = "Reply | Callable[[str], Reply]"
_TURN, _ANSWER = re.compile(r"\[turn (\w+)\]"), re.compile(r"\[answer (\w+)\.(\d+)\]")
_ENDED = re.compile(r"(cel_\w+), which went on, has ended")
_NUMBER: Mapping[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
# The question that nobody answers.
HELD = 335
# What the client answers, and what it never answers: there it ends the turn.
STOCK, NEVER = (DynamicToolSpec(name, None, "Asks the client.", _NUMBER) for name in ("stock", "never"))


@dataclass(frozen=True, slots=True)
class Said:
    """A turn."""

    key: str
    answers: tuple[Answer, ...]
    # Whether somebody has a word in its middle.
    is_steered: bool = False
    is_interrupted: bool = False

    @property
    def words(self) -> str:
        return f"[turn {self.key}] Go on."


@dataclass(frozen=True, slots=True)
class Conversation:
    driver: DriverKind
    language: Language
    # The provider's format.
    wire: str
    turns: tuple[Said, ...]
    # Also on a machine that is so slow that a model is told of a cell that it goes on.
    wake: Wake = Wake.TURN

    def reply(self, key: str, number: int, request: str) -> Reply:
        """The answer of that place."""
        answers = next(one.answers for one in self.turns if one.key == key)
        found: Answer = answers[number - 1] if number <= len(answers) else Reply("Noted.")
        made = found if isinstance(found, Reply) else found(request)
        return replace(made, text=f"[answer {key}.{number}] {made.text}")


def place_of(request: str) -> tuple[str, int]:
    """The turn, and the number of its answer, that a request is for."""
    key = _TURN.findall(request)[-1]
    return key, 1 + max((int(number) for name, number in _ANSWER.findall(request) if name == key), default=0)


def turn_of(words: str) -> str | None:
    found = _TURN.search(words)
    return found[1] if found is not None else None


# -- what a model says ------------------------------------------------------------------------------------------------


def _program(code: str) -> Reply:
    return Reply("A program.", calls=[("exec", json.dumps({"code": code.strip()}))], pieces=4)


def _patient(code: str, language: Language) -> Reply:
    """One that is looked at until it has ended, however slow the machine is."""
    sign = "#" if language is Language.PYTHON else "//"
    return _program(f'{sign} @exec: {{"yield_time_ms": 60000}}\n{code.strip()}')


def _calls(*calls: tuple[str, int]) -> Reply:
    return Reply("Calls.", calls=[(name, json.dumps({"n": n})) for name, n in calls], reasoning="Hm.", pieces=4)


_DONE = Reply("That is all.", pieces=4)
_LOOK = "What came of it?"


def _wait(request: str) -> Reply:
    """Looks, once, at the cell that has ended in the background, as soon as that is told."""
    ended = _ENDED.findall(request)
    if not ended or _LOOK in request:
        return _DONE
    return Reply(_LOOK, calls=[("wait", json.dumps({"cell_id": ended[-1]}))])


def _code(language: Language, wire: str) -> Conversation:
    programs = [_patient(code, language) for code in _PROGRAMS[language]]
    return Conversation(
        DriverKind.CODE,
        language,
        wire,
        (
            Said("a", (programs[0], programs[1], _DONE), is_steered=True),
            Said("b", (programs[2], _DONE)),
            Said("c", (programs[3],), is_interrupted=True),
            Said("d", (programs[4], _DONE), is_steered=True),
        ),
    )


_PROGRAMS: Mapping[Language, tuple[str, ...]] = {
    Language.PYTHON: (
        SAFE_PY
        + """
got = [await safe(look, 301), await safe(pay, 302), await safe(stock, 305)]
got.append(await safe(ask, 304))
got""",
        """
got += await asyncio.gather(safe(pay, 311), safe(stock, 312), safe(ask, 315), safe(put, 314), safe(ask, 316))
store('got', got)
got""",
        "got.append(await safe(pay, 321))\nprint('paid')\nstore('b', got[-1])\nlen(got)",
        "got.append('gone')\nstore('gone', True)\nawait safe(pay, 331)\n"
        "await asyncio.gather(safe(never, 332), safe(ask, 335))\nstore('gone', await safe(pay, 337))",
        "store('all', [*got, await safe(stock, 341), await safe(pay, 342)])\ngot",
    ),
    Language.TYPESCRIPT: (
        SAFE_TS
        + """
let got: any[] = [await safe(look, 301), await safe(pay, 302), await safe(stock, 305)]
got.push(await safe(ask, 304))
got""",
        """
got.push(...await Promise.all(
  [safe(pay, 311), safe(stock, 312), safe(ask, 315), safe(put, 314), safe(ask, 316)]))
store('got', got)
got""",
        "got.push(await safe(pay, 321)); console.log('paid'); store('b', got[got.length - 1]); got.length",
        "got.push('gone'); store('gone', true); await safe(pay, 331)\n"
        "await Promise.all([safe(never, 332), safe(ask, 335)]); store('gone', await safe(pay, 337))",
        "store('all', [...got, await safe(stock, 341), await safe(pay, 342)]); got",
    ),
}
_NATIVE = Conversation(
    DriverKind.NATIVE,
    Language.PYTHON,
    "anthropic",
    (
        Said(
            "a",
            (
                _calls(("look", 301), ("pay", 302), ("stock", 305), ("ask", 304)),
                _calls(("pay", 311), ("stock", 312), ("ask", 315), ("put", 314), ("ask", 316)),
                _DONE,
            ),
            is_steered=True,
        ),
        Said("b", (_calls(("pay", 321)), _DONE)),
        Said("c", (_calls(("pay", 331), ("never", 332), ("ask", 335)),), is_interrupted=True),
        Said("d", (_calls(("stock", 341)), _calls(("pay", 342)), _DONE), is_steered=True),
    ),
)
# A cell that goes on when its turn has ended; its end begins a turn by itself.
_BACKGROUND = Conversation(
    DriverKind.CODE,
    Language.PYTHON,
    "chat",
    (
        Said(
            "a",
            (
                _program(
                    '# @exec: {"yield_time_ms": 20}\n'
                    + SAFE_PY
                    + "x = [await safe(pay, 301), await safe(slow, 302), await safe(put, 304)]\nstore('x', x)\nx"
                ),
                *(_wait,) * 3,
            ),
        ),
    ),
)
CONVERSATIONS: Mapping[str, Conversation] = {
    "code-python": _code(Language.PYTHON, "chat"),
    "code-typescript": _code(Language.TYPESCRIPT, "responses"),
    "native": _NATIVE,
    "background": _BACKGROUND,
}
