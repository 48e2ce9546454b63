"""Looks at a Python program without running it: ty for types and names, Monty's own parser for the rest.

Both are in a Monty worker kept for checking, so no guest source is parsed in the host and no stub travels in a
session's bytes. One line in front of the program makes Monty check without running: a call of a name that is not
there. ty always refuses it, and its report is what we want; where types are skipped, the whole is parsed and
compiled and then stops at that call, which is never answered.

ty sees the earlier cells of the session, as far as they fit, in front of the program; their own lines are cut
from its report.
"""

import asyncio
import json
import re
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import pydantic_monty as monty

from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity, Span
from cloister.core.language import PYTHON_MODULES
from cloister.engines.monty import faults
from cloister.engines.monty.features import import_hint, module_hint, parse_hint
from cloister.engines.monty.imports import find_imports
from cloister.engines.warden import Warden, verdict_error
from cloister.ports.engine import Catalog, Checked, Program, Turn, TypeCheck

MAX_CONTEXT = 8 << 10
# All sessions share the checker, and no honest program takes this long to read.
_LONGEST_LOOK_MS = 2000.0
_MOST_KNOWN = 10_000
# Reports and programs up to this length are read on the event loop.
_SHORT = 32 << 10
_HALT = "__cloister_halt__()\n"
_AWAITED = re.compile(r"\bawait\s+([A-Za-z_]\w*)\s*\(")
# How models that have seen other systems reach for a tool: `tools.name`.
_THROUGH_TOOLS = re.compile(r"tools\.([A-Za-z_]\w{0,99})")
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([\w.]+)", re.MULTILINE)
_BINDS = re.compile(
    r"^(?:async def|def|class|import|from|with|for|[A-Za-z_][\w, ]{0,200}(?::[^=\n]{0,200})?=[^=])", re.MULTILINE
)
_MEMBER = re.compile(r"Module `(\w+)` has no member `(\w+)`")
_QUOTED = re.compile(r"`(\w+)`")
# How ty speaks of a helper, which its stubs must not declare as a function.
_HELPER = re.compile(r"bound method `_(\w+)_Helper\.__call__`")


def context_after(context: str, code: str) -> str:
    """What a type checker should have read before the next cell: this one too, if it binds names."""
    if len(code) > MAX_CONTEXT or not _BINDS.search(code) or code in context:
        return context
    grown = f"{context}{code}\n"
    if len(grown) <= MAX_CONTEXT:
        return grown
    # The oldest lines go first, cut at a line that starts a statement.
    cut = grown[len(grown) - MAX_CONTEXT :]
    start = _BINDS.search(cut)
    return cut[start.start() :] if start else f"{code}\n"


@dataclass(frozen=True, slots=True)
class _Finding:
    rule: str
    message: str
    span: Span
    name: str | None = None
    awaited: bool = False
    # In `tools.name`, where nothing is called `tools`: the name.
    member: str | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found, before it is known which names the live namespace has."""

    found: tuple[_Finding, ...] = ()
    errors: tuple[ErrorObject, ...] = ()
    wall_ms: float = 0.0

    @property
    def unresolved(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f.name for f in self.found if f.rule == "unresolved-reference" and f.name))[:20]

    def judge(self, defined: frozenset[str], catalog: Catalog, types: TypeCheck) -> Checked:
        out = [Diagnostic(Severity.ERROR, e.code, e.message, e.hint, e.span) for e in self.errors]
        for finding in self.found:
            diagnostic = _judge(finding, defined, catalog, types)
            if diagnostic is not None and diagnostic not in out:
                out.append(diagnostic)
        return Checked(tuple(out), self.wall_ms)


def _judge(finding: _Finding, defined: frozenset[str], catalog: Catalog, types: TypeCheck) -> Diagnostic | None:
    name, rule = finding.name or "", finding.rule
    if rule == "invalid-syntax":
        return Diagnostic(Severity.ERROR, Code.SYNTAX_ERROR, finding.message, parse_hint(finding.message), finding.span)
    if rule == "unresolved-reference":
        if name in defined or name in catalog.names:
            return None
        if finding.member is not None:
            message = f"there is no `tools` in Python, and so no `tools.{finding.member}`"
            return Diagnostic(
                Severity.ERROR, Code.UNKNOWN_TOOL, message, _own_name(finding.member, catalog), finding.span
            )
        if finding.awaited:
            close = faults.did_you_mean(name, catalog.names)
            known = _signature_hint(close, catalog)
            message = f"there is no tool `{faults.clip(name)}`"
            return Diagnostic(Severity.ERROR, Code.UNKNOWN_TOOL, message, known, finding.span)
    if rule == "unresolved-import":
        root = name.split(".")[0]
        if root in PYTHON_MODULES or any(full.startswith(f"{root}.") for full in catalog.names):
            return None
        message = f"this Python has no module `{name}`"
        hint = _own_name(root, catalog) if root == "tools" or root in catalog.names else module_hint(name)
        return Diagnostic(Severity.ERROR, Code.UNSUPPORTED_FEATURE, message, hint, finding.span)
    if types is TypeCheck.OFF:
        return None
    severity = Severity.ERROR if types is TypeCheck.STRICT else Severity.WARNING
    return Diagnostic(severity, Code.TYPE_ERROR, finding.message, _type_hint(finding.message, catalog), finding.span)


def _signature_hint(close: str | None, catalog: Catalog) -> str:
    if close is None:
        some = ", ".join(f"`{name}`" for name in sorted(catalog.names - catalog.own)[:10])
        return f"the tools here are {some}" if some else "this session has no tools"
    name = close.split("`")[1]
    signature = catalog.signatures.get(name)
    return f"{close} {signature}" if signature else close


def _own_name(name: str, catalog: Catalog) -> str:
    """How a tool is called, for somebody who looked for it where it is not."""
    if name in catalog.names:
        return f"call it by its own name, without an import: await {catalog.signatures.get(name) or f'{name}(...)'}"
    how = "a tool is called by its own name, without an import, as in `await name(...)`"
    close = None if name == "tools" else faults.did_you_mean(name, catalog.names)
    return f"{how}; {_signature_hint(close, catalog)}" if close else how


def _type_hint(message: str, catalog: Catalog) -> str | None:
    if "CoroutineType" in message:
        return "add `await` in front of the tool call"
    for name in _QUOTED.findall(message):
        if name in catalog.signatures:
            return catalog.signatures[name]
    return None


_UNCHECKED = Findings(
    errors=(
        ErrorObject(
            Code.SYNTAX_ERROR,
            "the program could not be checked: it is nested too deeply or too large for the checker",
            "split the program into smaller parts",
        ),
    )
)


class Checker:
    """One worker that checks, with the stubs of the catalogs it was asked about lately."""

    def __init__(self, pool: Any, *, keep: int = 2) -> None:
        self._pool = pool
        self._keep = keep
        # Import statements that Monty was asked about, and whether it has what they name.
        self._known: dict[str, bool] = {}
        self._desks: OrderedDict[str, _Reader] = OrderedDict()
        # One look at a time: a desk has one warden, and its timer belongs to one program.
        self._turnstile = asyncio.Lock()

    def needed(self, program: Program, catalog: Catalog, types: TypeCheck) -> bool:
        """Whether a program about to start must be looked at first. Without types: only when it might call a
        tool that is not there or import a module that is not there; the parser in `start` finds the rest."""
        if types is not TypeCheck.OFF:
            return True
        code = program.code
        if _THROUGH_TOOLS.search(code) and "tools" not in catalog.names:
            return True
        if "import" in code:
            if any(module.split(".")[0] not in PYTHON_MODULES for module in _IMPORT.findall(code)):
                return True
            if any(self._known.get(found.statement) is not True for found in find_imports(code)):
                return True
        return "await" in code and any(name not in catalog.names for name in _AWAITED.findall(code))

    async def check(self, program: Program, turn: Turn, *, context: str, starting: bool) -> Findings:
        try:
            async with asyncio.timeout(turn.wall_ms / 1000):
                await self._turnstile.acquire()
        except TimeoutError:
            return Findings(errors=(verdict_error("TIMEOUT_WALL"),))
        try:
            found = await self._look(program, turn, context, starting=starting)
            # A desk that was dead before it looked says nothing about the program: ask another one, once.
            return found or await self._look(program, turn, context, starting=starting) or _UNCHECKED
        finally:
            self._turnstile.release()

    async def _look(self, program: Program, turn: Turn, context: str, *, starting: bool) -> Findings | None:
        """What a desk finds; None when it broke."""
        catalog = turn.catalog
        desk = await self._desk(catalog)
        began = time.monotonic()
        bound = min(turn.wall_ms, _LONGEST_LOOK_MS)
        desk.warden.watch(bound, bound)
        try:
            found = await desk.look(program, context, starting=starting)
            return replace(found, wall_ms=(time.monotonic() - began) * 1000)
        except asyncio.CancelledError:
            desk.warden.kill()
            await asyncio.shield(self._drop(catalog.revision))
            raise
        except (monty.MontyCrashedError, RuntimeError):
            verdict = desk.warden.verdict
            await self._drop(catalog.revision)
            if verdict is None:
                return None
            return Findings(errors=(verdict_error(verdict),)) if bound == turn.wall_ms else _UNCHECKED
        finally:
            desk.warden.rest()

    async def _desk(self, catalog: Catalog) -> "_Reader":
        desk = self._desks.get(catalog.revision)
        if desk is None:
            while len(self._desks) >= self._keep:
                await self._drop(next(iter(self._desks)))
            desk = await _Reader.open(self._pool, catalog, self._known)
            self._desks[catalog.revision] = desk
        self._desks.move_to_end(catalog.revision)
        return desk

    async def _drop(self, revision: str) -> None:
        desk = self._desks.pop(revision, None)
        if desk is not None:
            await desk.close()

    async def close(self) -> None:
        for revision in list(self._desks):
            await self._drop(revision)


class _Reader:
    """A checked-out Monty session that only ever checks."""

    def __init__(self, session: Any, known: dict[str, bool]) -> None:
        self._session = session
        self._known = known
        self.warden = Warden(session.worker_pid)

    @classmethod
    async def open(cls, pool: Any, catalog: Catalog, known: dict[str, bool]) -> "_Reader":
        session = pool.checkout(
            type_check=True,
            type_check_stubs=catalog.stubs or None,
            type_check_format="jsonlines",
            limits={"max_suspensions": 10**9},
            external_modules={name: _module(text) for name, text in catalog.modules.items()},
        )
        await session.__aenter__()
        desk = cls(session, known)
        # The first look loads ty's own stubs; no program should pay for that.
        await desk.look(Program("0"), "", starting=True)
        return desk

    async def look(self, program: Program, context: str, *, starting: bool) -> Findings:
        found = await self._with_what_there_is(await self._types(program, context))
        errors = await self._imports(program, context)
        if not starting:
            errors += await self._compile(program.code)
        return Findings(found, errors)

    async def _imports(self, program: Program, context: str) -> tuple[ErrorObject, ...]:
        out: list[ErrorObject] = []
        for item in find_imports(program.code):
            if len(out) < 5 and not await self._has(item.statement):
                # A line inside a text only looks like an import: then ty does not mind what it says.
                changed = Program(item.replaced(program.code), program.inputs)
                span = item.span(program.code)
                if any(
                    f.rule == "unresolved-import" and f.span.line == span.line
                    for f in await self._types(changed, context)
                ):
                    message = f"this Python has no `{item.shown}`"
                    out.append(ErrorObject(Code.UNSUPPORTED_FEATURE, message, import_hint(item.shown), span))
        return tuple(out)

    async def _with_what_there_is(self, found: tuple[_Finding, ...]) -> tuple[_Finding, ...]:
        """Without complaints about parts of modules that Monty has and its stubs do not: os.walk is one."""
        out: list[_Finding] = []
        for finding in found:
            member = _MEMBER.match(finding.message)
            if member is None or not await self._has(f"from {member[1]} import {member[2]}"):
                out.append(finding)
        return tuple(out)

    async def _has(self, statement: str) -> bool:
        known = self._known.get(statement)
        if known is None:
            try:
                await self._session.feed_run(statement, external_lookup={}, skip_type_check=True)
                known = True
            except monty.MontyRuntimeError as error:
                known = not str(error).startswith(("ImportError", "ModuleNotFoundError"))
            if len(self._known) < _MOST_KNOWN:
                self._known[statement] = known
        return known

    async def _types(self, program: Program, context: str) -> tuple[_Finding, ...]:
        report = await self._halted(_HALT + context + program.code, skip_type_check=False)
        if not isinstance(report, monty.MontyTypingError):
            return ()
        text, skip = report.display(), 1 + context.count("\n")
        if len(text) + len(program.code) <= _SHORT:
            return _read(text, program.code, skip, frozenset(program.inputs))
        return await asyncio.to_thread(_read, text, program.code, skip, frozenset(program.inputs))

    async def _compile(self, code: str) -> tuple[ErrorObject, ...]:
        error = await self._halted(_HALT + code, skip_type_check=True)
        return (faults.compile_error(error, line_offset=1),) if faults.is_compile_error(error) else ()

    async def _halted(self, text: str, *, skip_type_check: bool) -> Any:
        """How Monty refuses a text whose first line calls what is not there. It always does."""
        try:
            await self._session.feed_run(text, external_lookup={}, skip_type_check=skip_type_check)
        except (monty.MontyTypingError, monty.MontySyntaxError, monty.MontyRuntimeError) as refusal:
            return refusal
        raise RuntimeError("a program under check was not halted")

    async def close(self) -> None:
        try:
            await self._session.__aexit__(None, None, None)
        except (monty.MontyError, RuntimeError):
            pass  # the worker is gone already
        self.warden.close()


def _module(stubs: str) -> Any:
    return monty.ExternalModule({}, stubs=stubs)


def _read(report: str, code: str, skip: int, inputs: frozenset[str]) -> tuple[_Finding, ...]:
    lines = code.split("\n")
    out: list[_Finding] = []
    for line in report.strip("\n").split("\n"):
        item = json.loads(line)
        row, rule = item["location"]["row"] - skip, item["code"]
        if row < 1:
            continue
        message = _HELPER.sub(r"function `\1`", faults.clip(item["message"]))
        column = item["location"]["column"]
        end_row, end_column = item["end_location"]["row"] - skip, item["end_location"]["column"]
        if row > len(lines):
            row, column = len(lines), len(lines[-1]) + 1
        if end_row > len(lines):
            end_row, end_column = len(lines), len(lines[-1]) + 1
        name = match[1] if (match := _QUOTED.search(message)) else None
        if rule == "unresolved-import":
            name = message.split("`")[1] if "`" in message else name
        if rule == "unresolved-reference" and name in inputs:
            continue
        awaited = _is_awaited(lines, row, column, end_column)
        through = _THROUGH_TOOLS.match(lines[row - 1], column - 1) if name == "tools" else None
        member = through[1] if through is not None else None
        out.append(_Finding(rule, message, Span(row, column, end_row, end_column), name, awaited, member))
        if len(out) == 50:
            break
    return tuple(out)


def _is_awaited(lines: list[str], row: int, column: int, end_column: int) -> bool:
    """Whether the name at this place is called and awaited, or called inside something that is gathered."""
    text = lines[row - 1]
    before, after = text[: column - 1].rstrip(), text[end_column - 1 :].lstrip()
    if not after.startswith("("):
        return False
    return before.endswith("await") or "gather(" in before or (not before and "gather(" in "".join(lines[:row]))


__all__ = ["Checker", "Findings", "context_after"]
