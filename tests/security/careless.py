"""Tools that do with a secret whatever tools do, programs that call them, and a stage on which all is heard."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

import pytest
from pydantic import AfterValidator

from cloister import CallContext, Cloister, Hook, Session, Tool, ToolError
from tests.security.leaks import Witness, texts_in

LANGUAGES = ("python", "typescript")
VALUES = {
    "plain": "hunter2-hunter2",
    "short": "q7Zx",
    "digits": "8675309123",
    "quotes": 'he said "no\'pe" \\ twice',
    "line breaks": "-----BEGIN KEY-----\nMIIEvQ\r\nAbCd==\n-----END KEY-----\n",
    "unicode": "пароль-🔑-日本語",
    "signs of URLs": "a+b%20c&d=e/f?g#h i",
    "signs of patterns": "^(a|b)*[c-d]{2}.$\\1",
    "long": "eyJhbGciOiJIUzI1NiJ9." + "".join(f"{n:04x}" for n in range(0, 4000, 37)),
}


def _base64(value: str, *, safe: bool = False) -> list[str]:
    encode = base64.urlsafe_b64encode if safe else base64.b64encode
    return [encode(b"?" * shift + value.encode() + b"!!").decode() for shift in range(3)]


# What a careless tool gives back of the value that it was given.
RETURNS: dict[str, Callable[[str], Any]] = {
    "as it is": lambda v: v,
    "in a text": lambda v: f"Authorization: Bearer {v}, and again {v}{v}",
    "deep inside": lambda v: {"request": [{"headers": [["X-Token", v]]}]},
    "as a key": lambda v: {v: {f"({v})": 1}},
    "in base64": _base64,
    "in url-safe base64": lambda v: _base64(v, safe=True),
    "in base64 over lines": lambda v: base64.encodebytes(b"padding " * 5 + v.encode() + b" padding" * 5).decode(),
    "in a URL": lambda v: [f"https://x.test/?k={quote(v, safe='')}", quote(v), quote_plus(v), quote(quote(v, safe=""))],
    "in hex": lambda v: [v.encode().hex(), v.encode().hex().upper(), f"00{v.encode().hex()}ff"],
    "in JSON": lambda v: [json.dumps({"k": v}), json.dumps(json.dumps(v)), json.dumps(v, ensure_ascii=False)],
    "as a repr": repr,
    "over two lines": lambda v: f"{v[: len(v) // 2]}\n{v[len(v) // 2 :]}",
    "as a number": lambda v: int(v) if v.isdecimal() else None,
}


class Careless:
    """Tools that do with a secret what they should not, and what they were given."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.sent: list[Any] = []
        self.tools = [
            Tool(self.give_back),
            Tool(self.speak),
            Tool(self.speak_plainly),
            Tool(self.break_promise, output_schema={"type": "object", "additionalProperties": {"type": "integer"}}),
            Tool(self.check_value),
            Tool(self.check_at_length),
            Tool(self.break_on_value),
            Tool(self.give_pieces),
            Tool(self.send),
            Tool(self.ask, approval_policy="manual"),
            Tool(self.judge, approval_policy={"auto": {"rule": "args.text == 'fine'"}}),
        ]

    async def give_back(self, token: str, how: str) -> Any:
        self.given.append(token)
        return RETURNS[how](token)

    async def speak(self, token: str, how: str, ctx: CallContext) -> str:
        return self._speak(token, how, ctx)

    def speak_plainly(self, token: str, how: str, ctx: CallContext) -> str:
        return self._speak(token, how, ctx)

    def _speak(self, token: str, how: str, ctx: CallContext) -> str:
        self.given.append(token)
        match how:
            case "exception":
                raise ValueError(f"401 for {token}")
            case "cause":
                try:
                    raise KeyError(token)
                except KeyError as error:
                    raise RuntimeError(quote(token)) from error
            case "group":
                raise ExceptionGroup(f"both {token}", [OSError(token), ValueError(repr(token))])
            case "exit":
                raise SystemExit(token)
            case "note":
                error = RuntimeError("failed")
                error.add_note(f"with {token}")
                raise error
            case "ToolError":
                raise ToolError(f"NO_{token}", f"not with {token}", f"use another than {token}")
            case "long ToolError":
                half = len(token) // 2
                raise ToolError("x" * (100 - half) + token, "x" * (4000 - half) + token, "x" * (4000 - half) + token)
            case "progress":
                ctx.progress(f"trying {token}", 0.5)
                ctx.progress("x" * (4000 - len(token) // 2) + token)
            case _:
                ctx.progress("trying", token)  # pyright: ignore[reportArgumentType]
        return token

    async def break_promise(self, token: str) -> Any:
        self.given.append(token)
        return {f"k {token}": token}

    async def check_value(self, token: Annotated[str, AfterValidator(lambda token: _refuse(token))]) -> None:
        raise AssertionError("never called")

    async def check_at_length(self, token: Annotated[str, AfterValidator(lambda token: _refuse_long(token))]) -> None:
        raise AssertionError("never called")

    async def break_on_value(self, token: Annotated[str, AfterValidator(lambda token: _break(token))]) -> None:
        raise AssertionError("never called")

    async def give_pieces(self, token: str) -> list[str]:
        self.given.append(token)
        half = len(token) // 2
        return [token[:half], token[half:]]

    async def send(self, text: Any) -> Any:
        self.sent.append(text)

    async def ask(self, text: Any) -> None:
        self.sent.append(text)

    async def judge(self, text: Any) -> None:
        self.sent.append(text)


def _refuse(token: str) -> str:
    raise ValueError(f"{token} is no token")


def _refuse_long(token: str) -> str:
    # What is said of a fault is cut, and this in the middle of the value.
    raise ValueError("x" * (284 - len(token) // 2) + token + "x" * 300)


def _break(token: str) -> str:
    raise RuntimeError(f"{token} is no token")


SPEECHES = ("exception", "cause", "group", "exit", "note", "ToolError", "long ToolError", "progress", "fraction")


class Stage:
    """One test on a Cloister with careless tools: all that is said meanwhile is heard by a witness."""

    def __init__(self, cloister: Cloister, careless: Careless, log: pytest.LogCaptureFixture) -> None:
        self.cloister = cloister
        self.careless = careless
        self.witness = Witness()
        self._log = log

    async def open(
        self, language: str, value: str, *, more: Mapping[str, str] | None = None, hooks: Sequence[Hook] = ()
    ) -> Session:
        values = {"TOKEN": value, **(more or {})}
        secrets = {name: {"value": given, "allowed": ["*"]} for name, given in values.items()}
        return await self.cloister.open_session("here", language=language, secrets=secrets, hooks=hooks)

    async def seen(self) -> list[str | bytes]:
        """Everything, but for what was there before this test."""
        lines = [part for line in self._log.records for part in (line.getMessage(), line.exc_text, str(line.args))]
        return [*await self.witness.all(self.cloister), *texts_in(lines)]


def call(language: str, name: str, **arguments: str) -> str:
    """`await name(...)`; a value that starts with `=` is code."""
    parts = {
        key: given[1:] if given.startswith("=") else json.dumps(given, ensure_ascii=False)
        for key, given in arguments.items()
    }
    if language == "python":
        return f"await {name}({', '.join(f'{key}={part}' for key, part in parts.items())})"
    return f"await tools.{name}({{{', '.join(f'{key}: {part}' for key, part in parts.items())}}})"


def attempts(language: str, calls: list[str]) -> str:
    """Every call, caught; what came of it printed to both streams and returned."""
    if language == "python":
        tries = "".join(
            f"try:\n    got = {one}\nexcept RuntimeError as e:\n    got = [str(e), repr(e)]\n"
            "print(got)\nprint(got, file=sys.stderr)\nout.append(got)\n"
            for one in calls
        )
        return f"import sys\nout = []\n{tries}out"
    tries = "".join(
        f"try {{ got = {one} }} catch (e: any) {{ got = [e.message, e.code, e.hint, e.tool, e.stack, String(e)] }}\n"
        "console.log(got); console.error(JSON.stringify(got)); out.push(got);\n"
        for one in calls
    )
    return f"let got: any, out: any[] = [];\n{tries}out"


TOKEN = "=secret('TOKEN')"
