"""What begins with a colon: looking at cells and calls, answering questions, keeping and forking the session."""

import difflib
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cloister.cli.approve import described, in_full
from cloister.cli.calls import call_line, duration
from cloister.cli.failures import UsageError
from cloister.cli.repl.sessions import Sessions
from cloister.cli.terminal import flat, safe
from cloister.core.approval import Approval, ApprovalState
from cloister.core.cell import CellInfo

_PREVIEW = 60


@dataclass(frozen=True, slots=True)
class Command:
    usage: str
    help: str
    # What follows the name is given as it was typed.
    run: Callable[[Sessions, str], Awaitable[None]]


class Quit(Exception):
    """Whoever types wants to leave."""


async def run_command(sessions: Sessions, line: str) -> None:
    """Raises `UsageError` for what cannot be done, a `CloisterError` for what was refused, and `Quit`."""
    name, _, rest = line.strip().removeprefix(":").partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        raise UsageError(
            f"there is no command :{name}", f"did you mean :{near[0]}?" if near else ":help shows what there is"
        )
    await command.run(sessions, rest.strip())


def pick(what: str, part: str, ids: Iterable[str]) -> str:
    """The id that is meant: by its beginning, or by its end, which is shorter to type."""
    known, word = list(ids), part.lower()
    found = [one for one in known if one.lower() == word]
    found = found or [one for one in known if one.lower().startswith(word)]
    found = found or [one for one in known if one.lower().endswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{part!r} fits several: {', '.join(found)}", "give more of it")
    raise UsageError(f"there is no {what} {part!r}", f"there are {', '.join(known)}" if known else "no cell waits now")


# -- looking ---------------------------------------------------------------------------------------------------


async def _cells(sessions: Sessions, _rest: str) -> None:
    cells = await sessions.current.session.cells()
    _answer(sessions, [f"{cell.id}  {cell.state}  {_age(cell)}{_awaited(cell)}" for cell in cells], "no open cells")


def _age(cell: CellInfo) -> str:
    return duration(max((datetime.now(UTC) - cell.created_at).total_seconds(), 0) * 1000)


def _awaited(cell: CellInfo) -> str:
    if not cell.waiting_for:
        return ""
    return f"  waiting for {', '.join(cell.waiting_for)}" + "".join(f", approval {one}" for one in cell.approvals)


async def _calls(sessions: Sessions, _rest: str) -> None:
    _answer(sessions, [call_line(record) for record in sessions.calls.of(sessions.current.session.id)], "no calls yet")


async def _tools(sessions: Sessions, _rest: str) -> None:
    sessions.output.value(safe(sessions.current.session.stubs))


async def _values(sessions: Sessions, _rest: str) -> None:
    values = sessions.current.session.values
    stored = await values.all()
    lines: list[str] = []
    for info in await values.list():
        shown = json.dumps(stored[info.key], ensure_ascii=False)
        shown = shown if len(shown) <= _PREVIEW else shown[: _PREVIEW - 1] + "…"
        lines.append(f"{info.key}  {info.size_bytes} bytes  {shown}")
    _answer(sessions, lines, "nothing is stored")


async def _help(sessions: Sessions, _rest: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        sessions.output.value(f"{command.usage:<{width}}  {command.help}")


def _answer(sessions: Sessions, lines: list[str], none: str) -> None:
    for line in lines or [none]:
        sessions.output.value(flat(line))


# -- doing -----------------------------------------------------------------------------------------------------


async def _approve(sessions: Sessions, rest: str) -> None:
    pending = await sessions.cloister.approvals(state=ApprovalState.PENDING)
    if not rest:
        for approval in pending:
            sessions.output.value(_question(approval))
        if not pending:
            sessions.output.value("nobody is asked anything")
        return
    part, _, said = rest.partition(" ")
    decision, _, message = said.strip().partition(" ")
    chosen = pick("question", part, [approval.id for approval in pending])
    decided = await sessions.cloister.decide(chosen, decision or "allow", message=message.strip() or None)
    await sessions.answered(decided.session_id, decided.cell_id)


def _question(approval: Approval) -> str:
    return f"{approval.id} of {approval.session_id}\n{described(approval, 'below')}{in_full(approval)}"


async def _wait(sessions: Sessions, rest: str) -> None:
    await sessions.wait(_cell(sessions, "wait", rest))


async def _stop(sessions: Sessions, rest: str) -> None:
    await sessions.stop(_cell(sessions, "stop", rest))


def _cell(sessions: Sessions, command: str, rest: str) -> str:
    if not rest:
        raise UsageError(f":{command} needs a cell", ":cells shows them; the end of an id is enough")
    return pick("cell", rest, sessions.current.open)


async def _snapshot(sessions: Sessions, rest: str) -> None:
    await _keep(sessions, rest, over=False)


async def _snapshot_over(sessions: Sessions, rest: str) -> None:
    await _keep(sessions, rest, over=True)


async def _keep(sessions: Sessions, rest: str, *, over: bool) -> None:
    if not rest:
        raise UsageError(":snapshot needs the name of a file")
    data = await sessions.current.session.snapshot()
    try:
        _write(rest, data, over=over)
    except FileExistsError:
        raise UsageError(f"there is a file {rest!r} already", f":snapshot! {rest} writes over it") from None
    except OSError as error:
        raise UsageError(f"{rest!r} cannot be written: {error.strerror or error}") from None
    sessions.output.value(flat(f"{rest}: {len(data)} bytes"))


def _write(file: str, data: bytes, *, over: bool) -> None:
    """The file is there as a whole or not at all, and only its owner reads it."""
    path = Path(file).expanduser()
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as written:
            written.write(data)
        if over:
            os.replace(draft, path)
        else:
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


async def _fork(sessions: Sessions, rest: str) -> None:
    before = sessions.current.session.id
    forked = await sessions.fork(rest or None)
    sessions.output.value(f"{forked.session.id} is a copy of {before}; :session {before} goes back")


async def _session(sessions: Sessions, rest: str) -> None:
    if rest:
        sessions.switch(rest)
        return
    for name, conversation in sessions.all.items():
        sessions.output.value(f"{'*' if conversation is sessions.current else ' '} {name}")


async def _quit(_sessions: Sessions, _rest: str) -> None:
    raise Quit


COMMANDS = {
    "cells": Command(":cells", "the cells that have not ended", _cells),
    "calls": Command(":calls", "the calls of this session so far", _calls),
    "tools": Command(":tools", "what a cell may call", _tools),
    "values": Command(":values", "what cells have stored", _values),
    "approve": Command(
        ":approve [ID [allow|deny|allow_always] [MESSAGE]]", "answer a question, or list them", _approve
    ),
    "wait": Command(":wait CELL", "how a cell stands that waits", _wait),
    "stop": Command(":stop CELL", "end a cell that waits", _stop),
    "snapshot": Command(":snapshot FILE", "write the session to a new file", _snapshot),
    "snapshot!": Command(":snapshot! FILE", "the same, over a file that is there", _snapshot_over),
    "fork": Command(":fork [NAME]", "go on in a copy of the session", _fork),
    "session": Command(":session [NAME]", "go on in another session, or list them", _session),
    "help": Command(":help", "this list", _help),
    "quit": Command(":quit", "leave (Ctrl-D does the same)", _quit),
}
