"""Cloister's own functions inside a cell, as programs are told of them. A tool of the same name comes first.

They are described by schemas like any tool, so the stubs of both languages come from one text.
"""

from collections.abc import Container
from typing import Any

from cloister.core.capability import Capability
from cloister.core.language import Language
from cloister.ports.helping import FILES_OBJECT, HELPERS

# Asked like tools, so engines must know their names. `secret` is not: it answers within the program.
OWN = ("list_tools", "search_tools", "describe_tool", "current_policy")

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "integer"}
_ANY_OBJECT: dict[str, Any] = {"type": "object"}
_FIRST_LINE: dict[str, Any] = {"type": "string", "description": "The first line."}


def _object(title: str, /, **fields: Any) -> dict[str, Any]:
    needed = [name for name in fields if not name.endswith("_")]
    properties = {name.rstrip("_"): value for name, value in fields.items()}
    return {"type": "object", "title": title, "properties": properties, "required": needed}


def _many(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_TERMS: dict[str, Any] = {"side_effect": _TEXT, "approval": {}}
_ENTRY = _object("ToolEntry", name=_TEXT, description=_FIRST_LINE, **_TERMS)
_FOUND = _object("ToolFound", name=_TEXT, description=_FIRST_LINE, signature={"type": ["string", "null"]})
_DESCRIPTION = _object(
    "ToolDescription",
    name=_TEXT,
    description=_TEXT,
    signature=_TEXT,
    input_schema=_ANY_OBJECT,
    output_schema=_ANY_OBJECT,
    idempotent={"type": "boolean"},
    limits=_ANY_OBJECT,
    **_TERMS,
)
_POLICY = _object(
    "CurrentPolicy",
    tools=_many(_object("ToolTerms", name=_TEXT, limits=_ANY_OBJECT, **_TERMS)),
    deny=_many(_object("DenyTerms", rule=_TEXT, tools_=_many(_TEXT), message_={"type": ["string", "null"]})),
    calls=_object("CallsLeft", limit=_NUMBER, left=_NUMBER),
)

OWN_CAPABILITIES = (
    Capability(
        "list_tools",
        description="The tools that this program may call, without those that wait to be searched for.",
        input_schema=_object(""),
        output_schema=_many(_ENTRY),
    ),
    Capability(
        "search_tools",
        description="The tools that have most to do with a few words, the best first. `describe_tool` says the rest.",
        input_schema=_object("", query=_TEXT, limit_={"type": "integer", "default": 10, "minimum": 1, "maximum": 50}),
        output_schema=_many(_FOUND),
    ),
    Capability(
        "describe_tool",
        description="All that is known about one tool.",
        input_schema=_object("", name=_TEXT),
        output_schema=_DESCRIPTION,
    ),
    Capability(
        "current_policy",
        description="What may be called, what asks a person first, and how many calls are left.",
        input_schema=_object(""),
        output_schema=_POLICY,
    ),
)

_SECRET = "A handle for a secret. Give it to a tool that may have it; the value is put in on the way."  # noqa: S105
_SECRETS = {
    Language.PYTHON: f'def secret(name: str) -> str:\n    """{_SECRET}"""\n',
    Language.TYPESCRIPT: f"/** {_SECRET} */\ndeclare function secret(name: string): string;\n",
}

_HELP = {
    "text": "Add to the output: text as it is, anything else as JSON.",
    "image": "Add an image to the output.",
    "notify": "Tell the host something now, while the program goes on.",
    "store": "Keep a JSON value under a key, for later.",
    "load": "The value that was stored under a key; {nothing} if there is none.",
    "yield_control": "Hand over what is there so far, and go on.",
    "exit": "End the program here, as a success.",
}
_PYTHON_HELPERS = {
    "text": "(value: {Any}) -> None",
    "image": "(source: {str} | {Mapping}[{str}, {Any}]) -> None",
    "notify": "(message: {Any}) -> None",
    "store": "(key: {str}, value: {Any}) -> None",
    "load": "(key: {str}) -> {Any}",
    "yield_control": "() -> None",
    "exit": "() -> _NoReturn",
}
# Names that programs like for variables. Declared as functions, no strict program could assign to them.
_PLAIN_WORDS = frozenset({"text", "image", "notify", "store", "load"})
# Where their words are found when a tool has the same name: see `header` in stubs.py.
_HOMES = {"Any": "_typing", "Mapping": "_collections_abc", "str": "_builtins"}
_TYPESCRIPT_HELPERS = {
    "text": "(value: unknown): void",
    "image": "(source: string | Record<string, unknown>): void",
    "notify": "(message: unknown): void",
    "store": "(key: string, value: unknown): void",
    "load": "(key: string): any",
    "yield_control": "(): void",
    "exit": "(): never",
}
# One text for people, models and the parser of our tests.
_TYPESCRIPT_FILES = """\
/** An entry of a directory. */
declare interface FileEntry { name: string; path: string; kind: "file" | "directory"; size_bytes: number }
/** What is known of a file or a directory. */
declare interface FileStat {
  path: string; kind: "file" | "directory"; size_bytes: number; modified_ms: number; hash: string | null;
  read_only: boolean;
}
/** The session's files. Answers are there at once; an error has a `code` such as FILE_NOT_FOUND. */
declare const files: {
  read(path: string): string;
  read_bytes(path: string): Uint8Array;
  /** Replaces the file; makes directories above it. The size in bytes. */
  write(path: string, content: string | Uint8Array): number;
  append(path: string, content: string | Uint8Array): number;
  /** Writes only if the file has that hash; null if it must not be there. The new hash. */
  write_if_match(path: string, content: string | Uint8Array, hash: string | null): string;
  /** False for a directory that is not empty, unless recursive. */
  delete(path: string, options?: { recursive?: boolean }): boolean;
  list(path?: string): FileEntry[];
  stat(path: string): FileStat;
  exists(path: string): boolean;
  mkdir(path: string, options?: { parents?: boolean; exist_ok?: boolean }): void;
  move(source: string, target: string): void;
  copy(source: string, target: string): void;
  /** Lines that match a regular expression, or contain a text. */
  grep(
    pattern: string, options?: { glob?: string; literal?: boolean; path?: string; limit?: number }
  ): { path: string; line: number; text: string }[];
};
"""


def own_capabilities(roots: Container[str]) -> list[Capability]:
    """Those that no tool and no namespace among `roots` stands in front of."""
    return [capability for capability in OWN_CAPABILITIES if capability.name not in roots]


def secret_stub(language: Language, roots: Container[str]) -> str:
    said = "" if "secret" in roots else _SECRETS[language]
    return said.replace("str", "_builtins.str") if "str" in roots and language is Language.PYTHON else said


def own_helpers(language: Language, roots: Container[str]) -> list[str]:
    """The helpers that no tool and no namespace among `roots` stands in front of. Python programs have their own ways
    to files; TypeScript has an object for them."""
    names = [*HELPERS, FILES_OBJECT] if language is Language.TYPESCRIPT else [*HELPERS]
    return [name for name in names if name not in roots]


def helper_stubs(
    language: Language, roots: Container[str], taken: Container[str] = (), *, checked: bool = False
) -> str:
    """Their declarations. `taken` are the words of a Python stub file that mean one of its tools there; `checked` is
    the form for a type checker, as against a reader."""
    names = own_helpers(language, roots)
    if language is Language.TYPESCRIPT:
        return "".join(map(_typescript_stub, names))
    words = {word: f"{home}.{word}" if word in taken else word for word, home in _HOMES.items()}
    first = "from typing import NoReturn as _NoReturn, Protocol as _Protocol\n" if names else ""
    said: list[str] = []
    for name in names:
        parameters, result = _PYTHON_HELPERS[name].format_map(words).split(" -> ")
        if checked and name in _PLAIN_WORDS:
            own = f"(self, {parameters.removeprefix('(')} -> {result}"
            said.append(f"class _{name}_Helper(_Protocol):\n    def __call__{own}: ...\n")
            said.append(f"{name}: _{name}_Helper | {words['Any']}\n")
        else:
            said.append(f'def {name}{parameters} -> {result}:\n    """{_help(name, "None")}"""\n')
    return "".join([first, *said])


def _typescript_stub(name: str) -> str:
    if name == FILES_OBJECT:
        return _TYPESCRIPT_FILES
    return f"/** {_help(name, 'null')} */\ndeclare function {name}{_TYPESCRIPT_HELPERS[name]};\n"


def _help(name: str, nothing: str) -> str:
    return _HELP[name].format(nothing=nothing)
