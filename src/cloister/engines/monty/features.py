"""What Monty cannot do yet, and what to write instead. One table, used for hints and by `cloister doctor`."""

from cloister.core.language import PYTHON_MODULES

# What Monty's parser says it does not support -> what to do about it. Matched as a part of its message.
SYNTAX_HINTS: dict[str, str] = {
    "yield": "build a list and return it; generators are not supported",
    "class inheritance": "write a plain class without bases, or use functions and dicts",
    "method decorators": "write a plain method and call it with ()",
    "'del'": "assign None, or build a new dict or list without the item (dict.pop and list.pop work)",
    "async for": "await the calls in a plain `for` loop, or gather them with asyncio.gather",
    "async with": "use plain calls",
    "exception groups": "use plain `except`",
    "type aliases": "assign the type to a name: X = int",
    "star": "write the names out",
    "comprehension": "use a plain `for` loop",
}

# What the type checker's parser says of a text that is no program -> what to do about it.
PARSE_HINTS: dict[str, str] = {
    "`return` statement outside": "the value of a cell is its last expression; drop `return`",
    "`async with` outside": "use plain calls: there is nothing here that needs `async with`",
    "`async for` outside": "await the calls in a plain `for` loop, or gather them with asyncio.gather",
}

MODULE_HINTS: dict[str, str] = {
    "enum": "use plain constants or a dict",
    "heapq": "use sorted() or bisect",
    "statistics": "sum() and len() do for means; sort for medians",
    "string": "write the characters out",
    "textwrap": "use str methods",
    "uuid": "ask a tool for an id",
    "io": "use lists of text and ''.join",
    "operator": "use a lambda",
    "urllib": "the network is reached through tools only",
    "shutil": "copy with Path(b).write_bytes(Path(a).read_bytes()), move with Path.rename",
    "glob": "use Path(folder).glob(pattern)",
    "tempfile": "write to a file of your own",
    "requests": "the network is reached through tools only",
    "httpx": "the network is reached through tools only",
    "socket": "the network is reached through tools only",
    "subprocess": "programs cannot start processes",
    "threading": "use asyncio.gather over tool calls",
    "numpy": "write it with lists, or ask a tool",
    "pandas": "write it with lists and dicts, or ask a tool",
}

UNSUPPORTED: tuple[str, ...] = (
    "generators (yield)",
    "class inheritance and metaclasses",
    "@property, @classmethod, @staticmethod",
    "the del statement",
    "async for, async with",
    "exception groups (except*)",
    "type aliases (type X = ...)",
    "open() with mode x or +, with buffering, or with another encoding than UTF-8",
    "the environment (os.environ, os.getenv); of os and pathlib what is not about files",
    "modules other than " + ", ".join(sorted(PYTHON_MODULES)),
)


# What Monty says when a program runs -> what to do about it. Matched as a part of its message.
RUN_HINTS: dict[str, str] = {
    "gather() does not yet support": "catch errors in an async function of your own, and gather calls of that one",
    "module 'asyncio' has no attribute": "await the calls, several together with asyncio.gather(...)",
    "exceptions can only be called with": "raise ValueError(str(value))",
    "has no attribute 'touch'": "open(path, 'a').close() makes an empty file",
    "has no attribute 'writelines'": "f.write(''.join(lines))",
    "has no attribute 'relative_to'": "str(path).removeprefix(folder)",
    "read_text() takes no keyword arguments": "text is always UTF-8: leave the encoding out",
    "write_text() takes exactly one argument": "text is always UTF-8: leave the encoding out",
    "'encoding' argument is not yet supported": "text is always UTF-8; read anything else with mode 'rb'",
    "argument is not yet supported": "leave it out",
    "exclusive creation mode is not supported": "look with Path(path).exists() first, and write with mode 'w'",
    "update modes ('+') are not yet supported": "read the file, change the text, and write it with mode 'w'",
    "print() 'file' argument": "f.write(text + '\\n')",
    "iterating an unread": "write `for line in f`, or use f.readlines()",
    "'os.environ' is not supported": "programs have no environment: give them what they need as inputs",
    "'os.getenv' is not supported": "programs have no environment: give them what they need as inputs",
}


def run_hint(message: str) -> str | None:
    return next((hint for part, hint in RUN_HINTS.items() if part in message), None)


def parse_hint(message: str) -> str | None:
    return next((hint for part, hint in PARSE_HINTS.items() if part in message), None)


def syntax_hint(message: str) -> str:
    for part, hint in SYNTAX_HINTS.items():
        if part in message:
            return hint
    return "write it another way: this Python is a subset"


def module_hint(module: str) -> str:
    root = module.split(".")[0]
    hint = MODULE_HINTS.get(root)
    known = f"the modules here are {', '.join(sorted(PYTHON_MODULES))}"
    return f"{hint}; {known}" if hint else known


IMPORT_HINTS: dict[str, str] = {
    "typing.TypedDict": "use dict[str, Any], or a dataclass",
    "typing.NamedTuple": "use a dataclass, or a plain tuple",
    "collections.abc": "the names are not needed to run: leave the hint out, or use list and dict",
}


def import_hint(shown: str) -> str:
    root = shown.split(".")[0]
    return IMPORT_HINTS.get(shown, f"`{root}` is here in part: do without it, or ask a tool")
