"""The commands that come in groups, and what their help says.

Commands are named, not imported: the module of one is loaded when it is given. A group that nobody asks for is made
without its commands, which keeps a plain `cloister run` quick.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from cloister.cli.paragraphs import flowing

if TYPE_CHECKING:
    from cyclopts import App

_STORE = """\
A store is named by --store; otherwise it is that of the configuration, or cloister.db in the data directory."""
_EXITS = "Exit codes: 0 it is done, 1 it could not be done, 2 the command is wrong or there is no such store."
_READS = "Changes nothing, and may be done while the session is in use."
_CLAIMS = "Refused while another process has the session open, which is named."
_ANSWERS = (
    "The answer is written into the store. A host that has the session takes it from there, and this waits --wait-ms "
    "to say what became of it. Where nobody has the session, the program goes on where it is opened with its tools."
)


@dataclass(frozen=True, slots=True)
class Command:
    # MODULE:FUNCTION in this room.
    target: str
    help: str
    examples: tuple[str, ...] = ()
    exits: str = _EXITS

    @property
    def epilogue(self) -> str:
        examples = "".join(f"  cloister {example}\n" for example in self.examples)
        return f"Examples:\n{examples}\n{self.exits}" if examples else self.exits


@dataclass(frozen=True, slots=True)
class Group:
    help: str
    commands: Mapping[str, Command]
    examples: tuple[str, ...] = ()
    more: str = ""
    # What the group does without a command.
    default: str = ""


_SESSION = Group(
    "Look at the sessions in a store, copy them, remove them.",
    {
        "list": Command(
            "kept.session:list_", f"Show the sessions in a store.\n\n{_READS}", ("session list", "session list --json")
        ),
        "show": Command(
            "kept.session:show_",
            "Show one session: what it has, its cells and their calls.\n\n"
            f"The ids are those that fork, snapshot and replay take. {_READS}",
            ("session show notes",),
        ),
        "snapshot": Command(
            "kept.session:snapshot",
            "Write a session to a file that `session restore` takes.\n\n"
            f"Needs none of its tools. Secrets and attachments are left out, and named. {_READS}",
            (
                "session snapshot notes -o notes.snapshot",
                "session snapshot notes -o - --at cel_01M7R1G5Y5EAR2RF91RSZBHS1Y | ssh host cloister session restore -",
            ),
        ),
        "restore": Command(
            "kept.session:restore",
            "Make a session in the store from a snapshot.\n\n"
            "Its tools have to be there as they were: --tools or the configuration names them. A program that waited "
            "in it sleeps until somebody goes on with it. Limits may be narrower than they were, and not wider.",
            ("session restore notes.snapshot --as copy", "session restore notes.snapshot --tools shop"),
        ),
        "fork": Command(
            "kept.session:fork",
            "Copy a session, with its variables, values, files, secrets and attachments.\n\n"
            "The original is left as it is, and may be in use if --at says which moment is meant. Its tools have to be "
            "there as they were: --tools or the configuration names them. Limits may be narrower than they were, and "
            "not wider.",
            ("session fork notes --as trial", "session fork notes --at cel_01M7R1G5Y5EAR2RF91RSZBHS1Y"),
        ),
        "destroy": Command(
            "kept.session:destroy",
            f"Remove a session and all that is its own, for good.\n\n{_CLAIMS}",
            ("session destroy trial", "session destroy trial --yes"),
        ),
    },
    ("session list", "session show notes", "session fork notes --as trial"),
    _STORE,
)
_TOOLS = Group(
    "Look at what programs may call, as --tools and the configuration say.",
    {
        "list": Command("tools:list_", "Show the tools.", ("tools list --tools shop", "tools list --json")),
        "describe": Command(
            "tools:describe", "Show all that is known about one tool.", ("tools describe shop.get_order --tools shop",)
        ),
        "search": Command(
            "tools:search",
            "Find tools by words, as `search_tools` does within a program.",
            ('tools search "refund an order" --limit 3',),
            "Exit codes: 0 something was found, 1 nothing was, 2 the command is wrong.",
        ),
        "stubs": Command(
            "tools:stubs",
            "Write what programs may call as declarations in their language.",
            ("tools stubs --tools shop", "tools stubs --language typescript > tools.d.ts"),
        ),
    },
    ("tools list --tools shop", 'tools search "refund an order"'),
)
_APPROVALS = Group(
    "Questions that calls have raised: look at them and answer them.",
    {
        "list": Command(
            "kept.approvals:list_",
            f"Show the questions that are open.\n\n{_READS}",
            ("approvals list", "approvals list --state all --session notes --json"),
        ),
        "show": Command(
            "kept.approvals:show_",
            f"Show one question with its arguments in full.\n\n{_READS}",
            ("approvals show ZBHS1Y",),
        ),
        "allow": Command(
            "kept.approvals:allow",
            f"Allow the call.\n\n{_ANSWERS}",
            ("approvals allow apr_01M7R1G5Y5EAR2RF91RSZBHS1Y", "approvals allow ZBHS1Y --always"),
        ),
        "deny": Command(
            "kept.approvals:deny",
            f"Deny the call; the program is told so, and may go on.\n\n{_ANSWERS}",
            ('approvals deny ZBHS1Y --message "ask me tomorrow"',),
        ),
        "watch": Command(
            "kept.watching:watch",
            "Show the questions that are open, and each that is asked or answered from now on, until Ctrl-C.\n\n"
            "With --decide each is put to you, and your answer goes the way of `approvals allow`. "
            f"With --json each is an object on a line of its own. {_READS}",
            ("approvals watch", "approvals watch --decide", "approvals watch --json --timeout-ms 60000"),
            "Exit codes: 0 the time is over or so many lines were shown, 2 the command is wrong, 130 Ctrl-C.",
        ),
    },
    ("approvals list", "approvals allow ZBHS1Y", 'approvals deny ZBHS1Y --message "not today"'),
    _STORE,
)
_VALUES = Group(
    "What the programs of a session have stored.",
    {
        "list": Command("kept.values:list_", f"Show what is stored, by key.\n\n{_READS}", ("values list notes",)),
        "get": Command(
            "kept.values:get",
            f"Print one value as JSON.\n\n{_READS}",
            ("values get notes total",),
            "Exit codes: 0 it is printed, 1 there is none, 2 the command is wrong or there is no such store.",
        ),
        "set": Command(
            "kept.values:set_",
            f"Store a value, over the one that is there.\n\n{_CLAIMS}",
            ("values set notes total 42", "echo '[1, 2]' | cloister values set notes list -"),
        ),
        "delete": Command("kept.values:delete", f"Remove a value.\n\n{_CLAIMS}", ("values delete notes total",)),
    },
    ("values list notes", "values set notes total 42"),
    _STORE,
)
_SECRETS = Group(
    "Secrets that the programs of a session use and never see.",
    {
        "set": Command(
            "kept.secrets:set_",
            "Keep a secret for a session, sealed, or replace the one of that name.\n\n"
            "Its value is read from standard input, or typed at the terminal without being shown; never given on the "
            f"command line. {_CLAIMS}",
            ("secrets set notes TOKEN --allow http_get", "secrets set notes TOKEN --allow shop.* < token.txt"),
        ),
        "list": Command(
            "kept.secrets:list_",
            f"Show names, times, and which tools may have them; never a value.\n\n{_READS}",
            ("secrets list notes",),
        ),
        "delete": Command("kept.secrets:delete", f"Forget a secret.\n\n{_CLAIMS}", ("secrets delete notes TOKEN",)),
    },
    ("secrets set notes TOKEN --allow http_get < token.txt", "secrets list notes"),
    _STORE,
)
_FILES = Group(
    "The files of a session.",
    {
        "ls": Command("kept.files:ls", f"List a directory.\n\n{_READS}", ("files ls notes", "files ls notes out -r")),
        "cat": Command("kept.files:cat", f"Write a file to standard output.\n\n{_READS}", ("files cat notes a.txt",)),
        "put": Command(
            "kept.files:put",
            f"Write a file, or a directory with all that is in it, into a session.\n\n{_CLAIMS}",
            ("files put notes report.csv", "files put notes data /in", "date | cloister files put notes - now.txt"),
        ),
        "get": Command(
            "kept.files:get",
            f"Take a file or a directory out of a session.\n\n{_READS}",
            ("files get notes report.csv", "files get notes /out ./out"),
        ),
        "grep": Command(
            "kept.files:grep",
            f"Show the lines that a pattern fits, in all text files.\n\n{_READS}",
            ("files grep notes 'total: [0-9]+'", "files grep notes TODO / --glob '*.py' --literal"),
            "Exit codes: 0 there are some, 1 there are none, 2 the command is wrong or there is no such store.",
        ),
        "rm": Command("kept.files:rm", f"Remove a file or a directory.\n\n{_CLAIMS}", ("files rm notes /out -r",)),
        "diff": Command(
            "kept.files:diff",
            f"Show in what the files of two sessions differ, or those of a session and a directory here.\n\n{_READS}",
            ("files diff notes trial", "files diff notes ./data"),
            "Exit codes: 0 they are the same, 1 they differ or could not be compared, 2 the command is wrong.",
        ),
    },
    ("files ls notes", "files put notes report.csv", "files cat notes report.csv"),
    _STORE,
)
_MCP = Group(
    """\
Be an MCP server on standard input and output: programs instead of tool calls.

A client, which starts this command, gets `exec`, `wait` and `search_tools`; what its programs may call are the tools
given here and those of the MCP servers in the configuration, which the subcommands look after.""",
    {
        "add": Command(
            "mcp_config:add",
            "Add an MCP server to the configuration.\n\nNothing is started: `cloister mcp test` does that.",
            (
                "mcp add git -- mcp-server-git --repository .",
                "mcp add docs https://example.com/mcp --header 'Authorization=Bearer ${TOKEN}'",
            ),
            "Exit codes: 0 it is in the file, 2 it is not.",
        ),
        "list": Command("mcp_config:list_", "Show the MCP servers of the configuration.", ("mcp list",)),
        "test": Command(
            "mcp_config:try_",
            "Start the MCP servers of the configuration, or one of them, and list their tools.",
            ("mcp test", "mcp test git --json"),
            "Exit codes: 0 all of them work, 1 one does not, 2 the command is wrong.",
        ),
    },
    (
        "mcp --tools shop",
        "mcp --mcp-config servers.json --session work",
        "mcp --store sqlite:///var/lib/agent/cloister.db --allow-approve",
        "mcp add git -- mcp-server-git --repository .",
        "mcp test git",
    ),
    """\
A client goes on with a session under --session, under the environment variable CLOISTER_SESSION, or under
"cloister/session" in the _meta of its requests; otherwise each connection has a new one. Needs the extra: pip install
'cloister[mcp]'.

Exit codes: 0 the client has left, 2 the command is wrong, 130 and 143 a signal ended it.""",
    default="mcp:mcp",
)
_MODELS = Group(
    "The models that threads can be driven by.",
    {
        "list": Command(
            "models:list_",
            "Show the models of the configuration and the providers, and what is missing before they can be used.",
            ("models list", "models list --json"),
            "Exit codes: 0 they are listed, 2 the command or the configuration is wrong.",
        ),
        "test": Command(
            "models:try_",
            "Ask the models of the configuration, or one model, a question of one word.\n\nCosts as much as that does.",
            ("models test", "models test anthropic:NAME", "models test scripted:demo.yaml --json"),
            "Exit codes: 0 all of them answer, 1 one does not, 2 the command or the configuration is wrong.",
        ),
    },
    ("models list", "models test openai:NAME"),
    "Providers need the extra: pip install 'cloister[models]'.",
)
_CONFIG = Group(
    "What commands take for granted here, and why.",
    {
        "show": Command(
            "config:show_",
            "Show what was said, where, and what holds. Secrets are masked.",
            ("config show", "config show --all", "config show --json"),
            "Exit codes: 0 the configuration can be used, 2 it cannot.",
        ),
        "init": Command(
            "config:init",
            "Write a configuration that has all that can be said, as comments.",
            ("config init", "config init agent.toml"),
            "Exit codes: 0 it is written, 2 it is not.",
        ),
    },
    ("config show", "config init"),
    """\
A flag comes before a variable of the environment, that before the project's file (--config, CLOISTER_CONFIG, or
./cloister.toml), that before the user's (~/.config/cloister/cloister.toml), that before the default.""",
)
_SERVED = "Exit codes: 0 it is done, 1 the server refused it or cannot be reached, 2 the command is wrong."
_THREADS = Group(
    "The threads of a server: conversations with models that write programs.",
    {
        "list": Command(
            "remote.threads:list_",
            "Show the threads of the server, the newest first.",
            ("threads list", "threads list --search refund --json"),
            _SERVED,
        ),
        "show": Command(
            "remote.threads:show_",
            "Show one thread: what was said and done in it, and what it waits for.",
            ("threads show thr_01M7R1G5Y5EAR2RF91RSZBHS1Y",),
            _SERVED,
        ),
        "new": Command(
            "remote.threads:new",
            "Begin a thread, and print its id.",
            ("threads new --title Refunds", "threads new --model openai:NAME --language typescript --label team=a"),
            _SERVED,
        ),
        "send": Command(
            "remote.threads:send",
            "Say something in a thread, and show the turn until it ends.\n\n"
            "The words of the model go to stdout, its programs and calls to stderr. A call that needs approval is "
            "asked about at the terminal; where there is none the turn is left waiting, which `cloister threads "
            "answer` ends. Ctrl-C leaves the turn as it is.",
            (
                'threads send thr_01M7R1G5Y5EAR2RF91RSZBHS1Y "refund order A7"',
                "threads send thr_01M7R1G5Y5EAR2RF91RSZBHS1Y - --approve deny --json < question.txt",
            ),
            "Exit codes: 0 the turn is completed (or begun, with --no-wait), 1 it failed or the server refused it, "
            "2 the command is wrong, 5 it waits for an approval, 130 it was interrupted, or we were.",
        ),
        "answer": Command(
            "remote.threads:answer",
            "Answer a question that a call has raised.",
            ("threads answer apr_01M7R1G5Y5EAR2RF91RSZBHS1Y allow", 'threads answer apr_… deny -m "not today"'),
            "Exit codes: 0 the answer counts, 1 somebody or time was first, or the server refused it, 2 the command is "
            "wrong.",
        ),
        "steer": Command(
            "remote.threads:steer",
            "Say something in the middle of a turn; prints whether it is queued or delivered.",
            ('threads steer thr_01M7R1G5Y5EAR2RF91RSZBHS1Y "in euros, please"',),
            "Exit codes: 0 it was taken, 1 the turn ended first or the server refused it, 2 the command is wrong, or "
            "no turn goes on.",
        ),
        "interrupt": Command(
            "remote.threads:interrupt",
            "End the turn that goes on. What its programs have stored stays.",
            ("threads interrupt thr_01M7R1G5Y5EAR2RF91RSZBHS1Y",),
            "Exit codes: 0 it has ended, 1 the server refused it, 2 the command is wrong, or no turn goes on.",
        ),
        "fork": Command(
            "remote.threads:fork",
            "Copy a thread up to the end of a turn, with its session as it was then, and print the id of the copy.",
            ("threads fork thr_01M7R1G5Y5EAR2RF91RSZBHS1Y",),
            _SERVED,
        ),
        "compact": Command(
            "remote.threads:compact",
            "Have the model told a summary in place of what was said. The log keeps all of it.",
            ("threads compact thr_01M7R1G5Y5EAR2RF91RSZBHS1Y --keep-last 4",),
            _SERVED,
        ),
        "archive": Command(
            "remote.threads:archive",
            "Put a thread away, or take it out again.",
            ("threads archive thr_01M7R1G5Y5EAR2RF91RSZBHS1Y", "threads archive thr_… --undo"),
            _SERVED,
        ),
        "events": Command(
            "remote.threads:events",
            "Show the events of a thread, each once and in order whatever becomes of the connection.\n\n"
            "With --json each is an object on a line of its own.",
            ("threads events thr_01M7R1G5Y5EAR2RF91RSZBHS1Y", "threads events thr_… --since 120 -f --json"),
            "Exit codes: 0 they are shown, 1 the server refused it or is gone, 2 the command is wrong, 130 Ctrl-C.",
        ),
    },
    ("threads list", 'threads send thr_01M7R1G5Y5EAR2RF91RSZBHS1Y "what is new?"', "threads new --title Refunds"),
    """\
The server is that of --url or of CLOISTER_URL; `cloister serve` starts one. Needs the extra: pip install
'cloister[client]'.""",
)
GROUPS: Mapping[str, Group] = {
    "session": _SESSION,
    "tools": _TOOLS,
    "approvals": _APPROVALS,
    "values": _VALUES,
    "secrets": _SECRETS,
    "files": _FILES,
    "mcp": _MCP,
    "models": _MODELS,
    "threads": _THREADS,
    "config": _CONFIG,
}


def add_groups(app: "App", wanted: str | None) -> None:
    """All groups; `wanted` is the one that is made whole, None for all of them."""
    import cyclopts

    for name, group in GROUPS.items():
        examples = "".join(f"  cloister {example}\n" for example in group.examples)
        epilogue = f"{group.more}\n\nExamples:\n{examples}" if group.more else f"Examples:\n{examples}"
        made = cyclopts.App(name=name, help=flowing(group.help), help_epilogue=flowing(epilogue))
        for verb, command in group.commands.items() if wanted in (name, None) else ():
            about, more = flowing(command.help), flowing(command.epilogue)
            made.command(f"cloister.cli.{command.target}", name=verb, help=about, help_epilogue=more)
        if group.default and wanted in (name, None):
            module, _, function = group.default.partition(":")
            made.default(getattr(import_module(f"cloister.cli.{module}"), function))
        app.command(made)
