"""Text from anywhere as text in source code: descriptions, keys and constants that cannot break out of their place.

Nothing is hidden either: what cannot be seen (controls, text direction marks, lone surrogates) is written as an escape.
"""

import json


def visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def line(text: str) -> str:
    """A text as one line, for a comment."""
    return visible(" ".join(text.split()))


def docstring(text: str, indent: str = "    ") -> str:
    """A Python docstring, whose second line begins with `indent`."""
    said = text.strip().replace("\\", "\\\\")
    if '"""' in said or said.endswith('"'):
        said = said.replace('"', '\\"')
    first, *others = (visible(row.rstrip()) for row in said.split("\n"))
    if not others:
        return f'"""{first}"""'
    return "\n".join([f'"""{first}', *(f"{indent}{row}" if row else "" for row in others), f'{indent}"""'])


def jsdoc(text: str, indent: str = "") -> str:
    """A comment in front of a TypeScript declaration, with the end of its line; nothing for no text."""
    rows = [visible(row.rstrip()).replace("*/", "*\\/") for row in text.strip().split("\n")]
    if len(rows) == 1:
        return f"{indent}/** {rows[0]} */\n" if rows[0] else ""
    return "".join([f"{indent}/**\n", *(f"{indent} * {row}".rstrip() + "\n" for row in rows), f"{indent} */\n"])


def quoted(text: str) -> str:
    """A text as TypeScript writes it."""
    said = json.dumps(text, ensure_ascii=False)
    if said.isprintable():
        return said
    # JSON's own escape: Python has others, with letters that JavaScript reads as themselves.
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in said)
