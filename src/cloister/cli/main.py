"""The entry point: finds the command, runs it, turns whatever happens into an exit code and a short message."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cloister.cli.ending import Ending
from cloister.cli.exits import FAILED, HELP, INTERRUPTED, USAGE
from cloister.cli.failures import UsageError, complain, debugging, explain, set_up_logging
from cloister.cli.interrupt import Interrupted
from cloister.cli.paragraphs import flowing
from cloister.cli.source import STANDARD_INPUT
from cloister.cli.terminal import forgiving_streams, silence

if TYPE_CHECKING:
    from cyclopts import App

_CONFIG = "CLOISTER_CONFIG"
_HELP = "Run programs of AI agents sealed, with the tools you give them."
_EPILOGUE = """\
Examples:
  cloister run -e "1 + 1"
  cloister repl --tools shop
  cloister run report.ts --tools shop:get_order --input 'order="A7"'
  cloister validate report.py --tools shop --type-check strict
  cloister store check
  cloister keys list
  cloister session list
  cloister approvals list
  cloister chat
  cloister threads list
  cloister config show
  cloister doctor
  cloister demo

cloister --config FILE COMMAND has any command take FILE for its configuration."""
_RUN = """\
Run a program and print its value.

What it prints is passed on as it comes; its value, that of its last expression, follows as JSON. Errors go to
stderr with the place in the source and a hint. A call that needs approval is asked about on stderr and answered at
the terminal. On a terminal each call is shown on stderr when it is over. Ctrl-C stops the program, a second one at
once."""
_RUN_EPILOGUE = f"""\
Examples:
  cloister run hello.py
  cloister run -e "await get_order('A7')" --tools shop:get_order
  cloister run sum.ts --input 'items=[1, 2, 3]' --timeout-ms 2000
  cloister run refunds.py --tools shop --approve deny
  cloister run fetch.py --tools web --secret TOKEN=http_get
  cloister run -e "total = 40" --session sums; cloister run -e "total + 2" --session sums
  echo "6 * 7" | cloister run - --json

{HELP}"""
_REPL = """\
Type into a session: each input is a cell, and what it defines stays for the next.

A block of Python ends with an empty line; whatever is not closed goes on. A cell that needs approval waits to be
answered with :approve, and those after it wait with it. Ctrl-C stops the cell that runs, a second one everything;
Ctrl-D leaves. When standard input is no terminal, lines are read from it by the same rules."""
_REPL_EPILOGUE = """\
Commands: :cells :calls :tools :values :approve :wait :stop :snapshot :fork :session :help :quit

Examples:
  cloister repl --tools shop
  cloister repl --language typescript --memory-mb 128
  cloister repl --session notes
  printf 'x = 20\\nx + 1\\n' | cloister repl

Exit codes: 0 at the end, even if cells failed; 2 the command is wrong, or, without a terminal, a :command was;
130 interrupted (Ctrl-C)."""
_SERVE = """\
Serve sessions over HTTP: programs, cells, files, approvals and events, and MCP at /mcp.

Listens on 127.0.0.1:8787. The API is described at /docs and /openapi.json of the server. The first Ctrl-C or SIGTERM
ends its streams, puts programs that wait to sleep and stops; the second stops at once."""
_SERVE_EPILOGUE = """\
Examples:
  cloister serve --tools shop
  cloister serve --port 0 --ready-file ready.json
  cloister serve --host 10.0.0.5 --tokens tokens.toml

Exit codes: 0 it was stopped, 1 it could not be started, 2 the command or its configuration is wrong."""
_CHAT = """\
Talk to a model that writes programs, at a server.

A line is a turn. While one goes on its words, programs and calls are shown as they come, calls that need approval are
asked about, and what you type is said in its middle. Ctrl-C ends the turn, a second one leaves it to the server; Ctrl-D
leaves. When standard input is no terminal, each line of it is a turn. The server is that of --url or CLOISTER_URL."""
_CHAT_EPILOGUE = """\
Commands: /steer /interrupt /approve /threads /open /new /title /model /fork /compact /help /quit

Examples:
  cloister chat
  cloister chat --new --title Refunds --model anthropic:NAME
  cloister chat thr_01M7R1G5Y5EAR2RF91RSZBHS1Y
  echo "what does tea cost?" | cloister chat --new

Exit codes: 0 at the end; 1 the server cannot be reached or, without a terminal, the last turn failed; 2 the command is
wrong or, without a terminal, a /command was; 5 without a terminal, a turn waits for an approval; 130 interrupted."""
_VALIDATE = """\
Check a program without running it.

Looks for syntax errors, unknown tools and, in Python, wrong types. A type error is a warning unless --type-check
strict is given."""
_VALIDATE_EPILOGUE = """\
Examples:
  cloister validate report.py --tools shop
  cloister validate -e "await get_order(7)" --tools shop --type-check strict

Exit codes: 0 no errors, 2 the command or its input is wrong, 3 errors were found."""
_DOCTOR = """\
Look whether programs can run here, and how well they are sealed.

Starts a worker of each language, puts each layer of the operating system on one, and looks at the directories and at
what is in the store."""
_DEMO = """\
A short tour: calls at once, an error caught before any effect, a program that sleeps in the middle of a call, one
that waits for a person, cells that go on while nobody looks, and a model at a server that is killed meanwhile.

Needs no key and no network, and leaves nothing behind."""
_DEMO_EPILOGUE = """\
Examples:
  cloister demo

Exit codes: 0 every act went as it should, 1 one did not."""
_DOCTOR_EPILOGUE = """\
Examples:
  cloister doctor
  cloister doctor --store sqlite:///var/lib/agent/cloister.db --json

Exit codes: 0 programs can run in every language, 1 they cannot."""
_REPLAY = """\
Go over a finished cell again, held against its journal, and show where it first does something else.

The journal is held against its digests; then the program runs once more, sealed as ever, and is told what it was
told. No tool is called, nobody is asked, nothing is written, and the store may be in use meanwhile."""
_REPLAY_EPILOGUE = """\
A store is named by its URL, sqlite:///path/to/file.db or postgresql://user@host/database. Without one it is
that of the configuration, or cloister.db in the data directory, which `cloister doctor` shows.

Examples:
  cloister replay cel_01M7R1G5Y5EAR2RF91RSZBHS1Y
  cloister replay cel_01M7R1G5Y5EAR2RF91RSZBHS1Y --store sqlite:///var/lib/agent/cloister.db --json

Exit codes: 0 it does what it did, 1 it does something else, 2 the command is wrong or there is no such store or cell,
3 it cannot be replayed: it has not ended, or not all that is needed is on record."""
_STORE = "Look after a store: check it, make it small, take it elsewhere."
_STORE_EPILOGUE = """\
A store is named by its URL, sqlite:///path/to/file.db or postgresql://user@host/database. Without one it is
that of the configuration, or cloister.db in the data directory, which `cloister doctor` shows.

Examples:
  cloister store check sqlite:///var/lib/agent/cloister.db
  cloister store vacuum
  cloister store export agent.cloister
  cloister store import agent.cloister --store postgresql://agent@db/agent"""
_STORE_CHECK = """\
Look whether a store is sound: its tables, and whether every blob is there and is what was written.

Changes nothing, and may be done while the store is in use."""
_STORE_CHECK_EPILOGUE = """\
Examples:
  cloister store check
  cloister store check sqlite:///var/lib/agent/cloister.db --json

Exit codes: 0 it is sound, 1 it is not or cannot be used, 2 there is no such store."""
_STORE_VACUUM = """\
Remove blobs that nothing refers to any more, and give room back to the system.

May be done while the store is in use, which has to wait meanwhile."""
_STORE_VACUUM_EPILOGUE = """\
Examples:
  cloister store vacuum
  cloister store vacuum postgresql://agent@db/agent

Exit codes: 0 it is done, 1 it could not be done, 2 there is no such store."""
_STORE_MIGRATE = """\
Bring a store to the newest schema.

Opening it does the same: this is for doing it beforehand, with a backup at hand. A store of a newer Cloister is refused
and left as it is."""
_STORE_MIGRATE_EPILOGUE = """\
Examples:
  cloister store migrate
  cloister store migrate postgresql://agent@db/agent

Exit codes: 0 it has the newest schema now, 1 it cannot be changed, 2 the command is wrong."""
_STORE_PRUNE = """\
Drop old events from a store's log.

Those of sessions with cells that have not ended all stay. A host does the same by itself if it is told how long to keep
them."""
_STORE_PRUNE_EPILOGUE = """\
Examples:
  cloister store prune --max-age-days 30
  cloister store prune sqlite:///srv/agent/cloister.db --max-events 100000

Exit codes: 0 they are gone, 1 they are not, 2 the command is wrong."""
_STORE_EXPORT = """\
Write all that is in a store to one file, to keep it or to take it to another store.

Stop the hosts that use the store before. The file has everything that the programs had, and only its owner may read
it. Snapshots and secrets need the keys that they were made with, which do not travel."""
_STORE_EXPORT_EPILOGUE = """\
Examples:
  cloister store export agent.cloister
  cloister store export agent.cloister --store sqlite:///var/lib/agent/cloister.db

Exit codes: 0 the file is whole, 1 there is none, 2 the command is wrong or there is no such store."""
_STORE_IMPORT = """\
Fill an empty store from a file that `cloister store export` made.

The file is read to its end before anything is written. The store is made if it is not there; whatever is refused
leaves it empty. Sessions go on there, so do not go on with them in the store that they came from."""
_STORE_IMPORT_EPILOGUE = """\
Examples:
  cloister store import agent.cloister --store postgresql://agent@db/agent
  cloister store import agent.cloister --store sqlite:///srv/agent/cloister.db

Exit codes: 0 everything is there, 1 nothing is, 2 the command is wrong or the store is not empty."""

_COMPLETION = "Print what has a shell complete commands and options."
_COMPLETION_EPILOGUE = """\
Examples:
  cloister completion bash > ~/.local/share/bash-completion/completions/cloister
  cloister completion zsh > ~/.zfunc/_cloister
  cloister completion fish > ~/.config/fish/completions/cloister.fish

Exit codes: 0 it is printed, 2 there is no such shell."""

_KEYS = "Look after the keys that snapshots and stored secrets are made with."
_KEYS_EPILOGUE = """\
Keys are never shown; their ids are. They are in the data directory, unless CLOISTER_SNAPSHOT_KEY and
CLOISTER_SECRET_KEY have them (base64 or hex of 32 bytes, the newest first) or CLOISTER_SNAPSHOT_KEY_COMMAND and
CLOISTER_SECRET_KEY_COMMAND print them.

Examples:
  cloister keys list
  cloister keys rotate
  cloister keys rotate secret --store postgresql://agent@db/agent
  cloister keys retire 4f1c09aa"""
_KEYS_LIST = """\
Show the keys by their ids, the newest first, and where they come from."""
_KEYS_LIST_EPILOGUE = """\
Examples:
  cloister keys list
  cloister keys list --json

Exit codes: 0 they are shown, 2 they cannot be used."""
_KEYS_ROTATE = """\
Make a new key. What is made from now on is made with it; what was made with the keys before it is still accepted.

With a new secret key the secrets in the store are sealed anew, but for those of sessions that another process has
open: these are when they are opened the next time, or by `cloister keys reseal`. Hosts that run notice the new key."""
_KEYS_ROTATE_EPILOGUE = """\
Examples:
  cloister keys rotate
  cloister keys rotate snapshot
  cloister keys rotate secret --store sqlite:///var/lib/agent/cloister.db

Exit codes: 0 it is done, 1 there is a new key and some secrets are sealed with an older one still, 2 the command is
wrong or the keys are not ours to change."""
_KEYS_RESEAL = """\
Seal the secrets in a store with the newest key, wherever that comes from.

Secrets that no key here opens are left as they are."""
_KEYS_RESEAL_EPILOGUE = """\
Examples:
  cloister keys reseal
  cloister keys reseal --store postgresql://agent@db/agent
  cloister keys reseal --forget-locked

Exit codes: 0 all have the newest key, 1 some have an older one still, 2 there is no such store."""
_KEYS_RETIRE = """\
Remove a key for good: nothing that was made with it is accepted from now on.

The key in use cannot go, nor one that stored secrets are still sealed with."""
_KEYS_RETIRE_EPILOGUE = """\
Examples:
  cloister keys retire 4f1c09aa31b7c2de
  cloister keys retire 4f1c --store sqlite:///var/lib/agent/cloister.db

Exit codes: 0 it is gone, 2 it is not: there is no such key, or it is needed."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Without `tokens` it is what this process is for."""
    if tokens is not None:
        return _run(tokens)
    ending = Ending()
    ending.code = code = _run(sys.argv[1:])
    return code


def _run(tokens: Sequence[str]) -> int:
    forgiving_streams()
    set_up_logging()
    named = os.environ.get(_CONFIG)
    try:
        code = _dispatch(list(tokens))
        sys.stdout.flush()
        return code
    except Interrupted as stopped:
        complain(str(stopped))
        return stopped.exit_code
    except KeyboardInterrupt:
        complain("stopped by SIGINT")
        return INTERRUPTED
    except BrokenPipeError:
        silence(sys.stdout)
        return FAILED
    # Containment: whatever a command raises ends here, as words and an exit code.
    except Exception as error:  # noqa: BLE001
        return explain(error)
    finally:
        # `--config` is for this command, and not for what its process does next.
        if named is None:
            os.environ.pop(_CONFIG, None)
        else:
            os.environ[_CONFIG] = named


def _dispatch(tokens: list[str]) -> int:
    from cyclopts import CycloptsError

    tokens = _with_config(tokens)
    app = _app(tokens[0] if tokens else "")
    try:
        # A lone dash is no option: it is the name that shells give to standard input.
        given = [STANDARD_INPUT if word == "-" else word for word in tokens]
        code = app(given, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        if debugging():
            raise
        complain(_plain(error), f"{' '.join(['cloister', *_command_of(tokens, app)])} --help shows what can be given")
        return USAGE
    return code if isinstance(code, int) else 0


def _command_of(tokens: list[str], app: "App") -> list[str]:
    """The words that name a command."""
    found: list[str] = []
    for word in tokens:
        if word.startswith("-") or word not in app:
            break
        found.append(word)
        app = app[word]
    return found


def _with_config(tokens: list[str]) -> list[str]:
    """`cloister --config FILE COMMAND` is for all commands what the environment would be."""
    if not tokens or tokens[0].partition("=")[0] != "--config":
        return tokens
    _, equals, file = tokens[0].partition("=")
    rest = tokens[1:] if equals else tokens[2:]
    if not equals:
        file = tokens[1] if len(tokens) > 1 else ""
    if not file:
        raise UsageError("--config names no file")
    os.environ[_CONFIG] = file
    return rest


def every_command() -> "App":
    """The whole of the command line, for who must know all of it."""
    return _app(None)


def _app(wanted: str | None) -> "App":
    """`wanted` is the word that the command begins with: a group of another name is made without its commands."""
    import cyclopts

    from cloister import __version__
    from cloister.cli.groups import add_groups

    app = cyclopts.App(
        name="cloister",
        help=_HELP,
        help_epilogue=flowing(_EPILOGUE),
        help_format="plaintext",
        version=f"cloister {__version__}",
        suppress_keyboard_interrupt=False,
    )
    # By name, not by object: a command's module is imported when that command is given.
    _add(app, "run:run", "run", _RUN, _RUN_EPILOGUE, usage="Usage: cloister run [OPTIONS] FILE | -e CODE")
    _add(app, "repl.loop:repl", "repl", _REPL, _REPL_EPILOGUE)
    _add(app, "serve:serve", "serve", _SERVE, _SERVE_EPILOGUE)
    _add(app, "remote.chat:chat", "chat", _CHAT, _CHAT_EPILOGUE)
    check = "Usage: cloister validate [OPTIONS] FILE | -e CODE"
    _add(app, "validate:validate", "validate", _VALIDATE, _VALIDATE_EPILOGUE, usage=check)
    _add(app, "doctor:doctor", "doctor", _DOCTOR, _DOCTOR_EPILOGUE)
    _add(app, "replay:replay", "replay", _REPLAY, _REPLAY_EPILOGUE)
    store = cyclopts.App(name="store", help=_STORE, help_epilogue=flowing(_STORE_EPILOGUE))
    _add(store, "store:check", "check", _STORE_CHECK, _STORE_CHECK_EPILOGUE)
    _add(store, "store:vacuum", "vacuum", _STORE_VACUUM, _STORE_VACUUM_EPILOGUE)
    _add(store, "store:migrate", "migrate", _STORE_MIGRATE, _STORE_MIGRATE_EPILOGUE)
    _add(store, "store:prune", "prune", _STORE_PRUNE, _STORE_PRUNE_EPILOGUE)
    _add(store, "store:export", "export", _STORE_EXPORT, _STORE_EXPORT_EPILOGUE)
    _add(store, "store:import_", "import", _STORE_IMPORT, _STORE_IMPORT_EPILOGUE)
    app.command(store)
    keys = cyclopts.App(name="keys", help=_KEYS, help_epilogue=flowing(_KEYS_EPILOGUE))
    _add(keys, "keys:list_", "list", _KEYS_LIST, _KEYS_LIST_EPILOGUE)
    _add(keys, "keys:rotate", "rotate", _KEYS_ROTATE, _KEYS_ROTATE_EPILOGUE)
    _add(keys, "keys:reseal", "reseal", _KEYS_RESEAL, _KEYS_RESEAL_EPILOGUE)
    _add(keys, "keys:retire", "retire", _KEYS_RETIRE, _KEYS_RETIRE_EPILOGUE)
    app.command(keys)
    add_groups(app, wanted)
    _add(app, "completion:completion", "completion", _COMPLETION, _COMPLETION_EPILOGUE)
    _add(app, "demo.tour:demo", "demo", _DEMO, _DEMO_EPILOGUE)
    _add(app, "demo.wake:demo_wake", "demo-wake", "Part of `demo`.", show=False)
    _add(app, "demo.host:demo_host", "demo-host", "Part of `demo`.", show=False)
    return app


def _add(app: "App", target: str, name: str, about: str, epilogue: str = "", **more: Any) -> None:
    app.command(
        f"cloister.cli.{target}", name=name, help=flowing(about), help_epilogue=flowing(epilogue) or None, **more
    )


def _plain(error: Exception) -> str:
    return os.linesep.join(line.rstrip() for line in str(error).splitlines() if line.strip())
