"""Names from elsewhere made into names that programs can write, in both languages.

What becomes of a name depends on nothing but the names that it came with: not on their order, and not on when they
were asked for. Two that would be written alike are told apart by a number; the one that is written so already keeps it.
"""

import keyword
import re
import unicodedata
from collections.abc import Iterable

from cloister.core.language import PYTHON_MODULES

LONGEST = 64

_OTHER = re.compile(r"[^A-Za-z0-9_]+")
# What TypeScript cannot have as the name of a variable, beside Python's own words.
_RESERVED = frozenset(
    "abstract any arguments await boolean break case catch class const constructor continue debugger default delete do "
    "else enum eval export extends false finally for function if implements import in instanceof interface let new "
    "null number object package private protected prototype public return static string super switch symbol this "
    "throw true try type typeof undefined unknown var void while with yield __proto__".split()
)


def identifier(text: str, otherwise: str = "tool", *, global_name: bool = False) -> str:
    """`text` as an identifier: letters without their accents, `_` for what cannot be written.

    With `global_name` it may stand alone in TypeScript too, and not only behind a dot, and is no module of Python.
    """
    plain = unicodedata.normalize("NFKD", text[: 4 * LONGEST]).encode("ascii", "ignore").decode()
    made = _OTHER.sub("_", plain)
    # What was cut off at the ends was no letter, but an underscore of its own stays.
    if not plain.startswith("_"):
        made = made.lstrip("_")
    if not plain.endswith("_"):
        made = made.rstrip("_")
    made = made[:LONGEST] or otherwise
    if made[0].isdigit():
        made = f"_{made}"[:LONGEST]
    reserved = keyword.iskeyword(made) or (global_name and (made in _RESERVED or made in PYTHON_MODULES))
    return f"{made}_" if reserved else made


def identifiers(originals: Iterable[str], otherwise: str = "tool") -> dict[str, str]:
    """Each of `originals` and the identifier that it is written as; no two are alike."""
    wanted = {original: identifier(original, otherwise) for original in sorted(set(originals))}
    # Those that need no change come first, whoever else would like to be called so.
    made = {original: name for original, name in wanted.items() if original == name}
    taken = set(made.values())
    # Nobody is pushed from its name by a number that was given to another.
    asked = set(wanted.values())
    numbers: dict[str, int] = {}
    for original, name in wanted.items():
        if original in made:
            continue
        candidate = name
        while candidate in taken or (candidate != name and candidate in asked):
            numbers[name] = numbers.get(name, 1) + 1
            suffix = f"_{numbers[name]}"
            candidate = name[: LONGEST - len(suffix)] + suffix
        made[original] = candidate
        taken.add(candidate)
    return made
