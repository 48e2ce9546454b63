"""A line for each command, as it is typed, and what is seen of it then: in a pipe, and at a terminal.

Names in braces are of what is there for it: see `test_every_command`. A command that changes something has a thing of
its own to change, so that no line depends on another.
"""

from collections.abc import Mapping
from dataclasses import dataclass

ENTER, END = "\r", "\x04"
# What an MCP client says first.
HELLO = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", '
    '"capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}}'
)


@dataclass(frozen=True, slots=True)
class Line:
    # What follows the command.
    words: str
    # On standard output, or on the screen.
    said: str
    code: int = 0
    # In a pipe: more words, and standard input.
    piped: str = ""
    stdin: str = ""
    # At a terminal: what is waited for, and what is typed then.
    typed: tuple[tuple[str, str], ...] = ()
    # It goes on until somebody stops it: when this is seen, that is done.
    stopped_at: str | None = None
    # It has words of its own for --json, or none for --json at all.
    has_json: bool = True


LINES: Mapping[str, Line] = {
    "run": Line("-e 20+22", "42"),
    "repl": Line(
        "",
        "42",
        stdin="20 + 22\n",
        typed=(("repl>", f"20 + 22{ENTER}"), ("42", ""), ("repl>", f":quit{ENTER}")),
        has_json=False,
    ),
    "validate": Line("-e 20+22", "no problems found"),
    "serve": Line("--port 0 --tools bank", "listening on http://127.0.0.1:", stopped_at="127.0.0.1"),
    "chat": Line(
        "--new",
        "Hello, said the model.",
        stdin="hello\n",
        typed=(("you>", f"hello{ENTER}"), ("Hello, said the model.", ""), ("you>", END)),
        has_json=False,
    ),
    "doctor": Line("", "1 + 1 in"),
    "demo": Line("", "The tour took", has_json=False),
    "replay": Line("{cell}", "does what it did"),
    "completion": Line("bash", "complete -F", has_json=False),
    # -- a store and its keys
    "store check": Line("", "is sound."),
    "store vacuum": Line("", "went from"),
    "store migrate": Line("", "which is the newest"),
    "store prune": Line("--max-age-days 1", "events went from"),
    "store export": Line("new.cloister", "new.cloister"),
    "store import": Line("there.cloister --store sqlite://{here}/new.db", "sessions"),
    "keys list": Line("", "{key}"),
    "keys rotate": Line("secret", "the secret key is"),
    "keys reseal": Line("", "secret"),
    "keys retire": Line("{key}", "is gone"),
    # -- sessions
    "session list": Line("", "s"),
    "session show": Line("s", "total"),
    "session snapshot": Line("r -o new.snapshot", "new.snapshot: "),
    "session restore": Line("there.snapshot --as restored --tools bank", "session restored is in the store"),
    "session fork": Line("s --as forked --tools bank", "session forked is a copy of s"),
    "session destroy": Line("gone", "session gone is gone", piped="--yes", typed=(("[y/N] ", f"y{ENTER}"),)),
    "values list": Line("s", "total"),
    "values get": Line("s total", "42"),
    "values set": Line("s made [1,2]", ""),
    "values delete": Line("s gone", ""),
    "secrets list": Line("s", "TOKEN"),
    "secrets set": Line(
        "s MADE --allow fetch", "", stdin="hunter2-hunter2\n", typed=(("value of MADE: ", f"hunter2-hunter2{ENTER}"),)
    ),
    "secrets delete": Line("s GONE", ""),
    "files ls": Line("s", "/a.txt"),
    "files cat": Line("s a.txt", "one", has_json=False),
    "files put": Line("s shop.py", ""),
    "files get": Line("s a.txt new.txt", ""),
    "files grep": Line("s on.", "/a.txt:1:one"),
    "files rm": Line("s gone.txt", ""),
    "files diff": Line("s r", "--- s:/a.txt", code=1),
    # -- questions
    "approvals list": Line("", "{question}"),
    "approvals show": Line("{question}", "refund"),
    "approvals allow": Line("{allowed}", "is allowed"),
    "approvals deny": Line("{denied} -m no", "is denied"),
    "approvals watch": Line("--max-lines 1", "asks"),
    # -- what may be called
    "tools list": Line("--tools shop", "get_order"),
    "tools describe": Line("get_order --tools shop", "An order."),
    "tools search": Line("order --tools shop", "get_order"),
    "tools stubs": Line("--tools shop", "def get_order", has_json=False),
    "mcp": Line(
        "", '"serverInfo"', stdin=f"{HELLO}\n", typed=(("", f"{HELLO}{ENTER}"), ("serverInfo", END)), has_json=False
    ),
    "mcp add": Line("git --config more.toml -- mcp-server-git --repository .", "more.toml has [mcp.git]"),
    "mcp list": Line("--config small.toml", "small"),
    "mcp test": Line("--config small.toml", "small.go"),
    "models list": Line("", "scripted:PATH"),
    "models test": Line("scripted:ready.yaml", "'ready'"),
    # -- threads
    "threads list": Line("", "{thread}"),
    "threads show": Line("{thread}", "Hello, said the model."),
    "threads new": Line("--title New", "thr_"),
    "threads send": Line("{fresh} hello", "Hello, said the model."),
    "threads answer": Line("{asked} allow", "{asked}: executed"),
    "threads steer": Line("{steered} sooner", "queued"),
    "threads interrupt": Line("{interrupted}", "is interrupted"),
    "threads fork": Line("{thread}", "thr_"),
    "threads compact": Line("{compacted} --summary Short. --keep-last 0", "Short."),
    "threads archive": Line("{archived}", "{archived} is put away"),
    "threads events": Line("{thread}", "turn.completed"),
    # -- the configuration
    "config show": Line("--config small.toml", "mcp.small"),
    "config init": Line("new.toml", "new.toml has all that can be said"),
}
