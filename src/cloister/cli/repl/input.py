"""Whether what was typed so far is a cell, or the beginning of one.

Python: an unclosed bracket or string goes on, and so does a block, until an empty line. TypeScript: an unclosed
bracket, template string or comment goes on. What can never become right is complete: the engine says what is wrong.
"""

import ast
import codeop
import io
import tokenize
import warnings

from cloister.core.language import Language

_PAIRS = {")": "(", "]": "[", "}": "{"}
# After one of these words a slash begins a regular expression; after any other word or value it divides.
_BEFORE_REGEX = frozenset("return typeof case in of delete void instanceof throw new do else yield await".split())
INDENT = "    "


def is_complete(text: str, language: Language) -> bool:
    if text.lstrip().startswith(":"):
        return True
    return _is_complete_python(text) if language is Language.PYTHON else _is_complete_typescript(text)


def indentation(text: str, language: Language) -> str:
    """What the next line begins with."""
    line = text.rpartition("\n")[2]
    blanks = line[: len(line) - len(line.lstrip())]
    opens = ":" if language is Language.PYTHON else "{"
    return blanks + INDENT if line.rstrip().endswith((opens, "(", "[", "{")) else blanks


# -- Python ----------------------------------------------------------------------------------------------------


def _is_complete_python(text: str) -> bool:
    lines = text.split("\n")
    ended = len(lines) > 1 and not lines[-1].strip()
    try:
        is_whole = _compiles(text)
    # What the compiler chokes on is not for us to tell.
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return True
    if not is_whole:
        return ended and not _is_open(text)
    return ended or not _ends_in_block(text)


def _compiles(text: str) -> bool:
    """False when more could make it right; raises when nothing could."""
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compiler(text, "<repl>", "exec") is not None


def _ends_in_block(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statements = ast.parse(text).body
    return bool(statements) and (hasattr(statements[-1], "body") or isinstance(statements[-1], ast.Match))


def _is_open(text: str) -> bool:
    """Whether the end is inside brackets or a string, where an empty line ends nothing."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text).readline):
            pass
    except tokenize.TokenError:
        return True
    except SyntaxError:
        return False
    return False


# -- TypeScript ------------------------------------------------------------------------------------------------


def _is_complete_typescript(text: str) -> bool:
    # Brackets that are open; "`" stands for a template string, and "{" on top of one for code within it.
    opened: list[str] = []
    # The last word or sign of code, which says what a slash means.
    before = ""
    at = 0
    while at < len(text):
        if opened and opened[-1] == "`":
            at = _template(text, at, opened)
            continue
        sign, two = text[at], text[at : at + 2]
        if two == "//":
            at = _find(text, "\n", at)
        elif two == "/*":
            end = text.find("*/", at + 2)
            if end < 0:
                return False
            at = end + 2
        elif sign in "'\"":
            at, before = _quoted(text, at + 1, sign), "text"
        elif sign == "/" and _begins_regex(before):
            at, before = _regex(text, at + 1), "text"
        elif sign in _PAIRS:
            if not opened or opened.pop() != _PAIRS[sign]:
                return True
            at, before = at + 1, sign
        elif sign in "([{`":
            opened.append(sign)
            at, before = at + 1, sign
        elif sign.isalnum() or sign in "_$":
            end = at
            while end < len(text) and (text[end].isalnum() or text[end] in "_$"):
                end += 1
            at, before = end, text[at:end]
        else:
            before = before if sign.isspace() else sign
            at += 1
    return not opened


def _begins_regex(before: str) -> bool:
    if before in _BEFORE_REGEX:
        return True
    return not before or (before not in ")]}`" and not (before[-1].isalnum() or before[-1] in "_$"))


def _template(text: str, at: int, opened: list[str]) -> int:
    """On through a template string, to where it ends or code begins in it."""
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == "`":
            opened.pop()
            return at + 1
        elif text.startswith("${", at):
            opened.append("{")
            return at + 2
        else:
            at += 1
    return at


def _quoted(text: str, at: int, quote: str) -> int:
    """After the string, which ends with its line at the latest."""
    while at < len(text) and text[at] not in (quote, "\n"):
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _regex(text: str, at: int) -> int:
    within = False
    while at < len(text) and text[at] != "\n":
        if text[at] == "\\":
            at += 1
        elif text[at] == "/" and not within:
            return at + 1
        elif text[at] in "[]":
            within = text[at] == "["
        at += 1
    return at


def _find(text: str, what: str, at: int) -> int:
    found = text.find(what, at)
    return len(text) if found < 0 else found
