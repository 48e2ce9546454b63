"""The words of a rule: the facts and functions that there are, and what is said about one that there is not."""

import difflib
from collections.abc import Iterable, Mapping

# What a rule may look at. The fields of `args` are the caller's; a text or a flag has none.
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "name": (),
    "args": (),
    "side_effect": (),
    "idempotent": (),
    "session": ("id", "labels", "language"),
    "calls": ("count", "by_name"),
    "tool": ("name", "namespace", "full_name"),
}
TYPES = frozenset("bool int uint double string bytes list map null_type type".split())
# How many arguments each takes, written `size(x)` or `x.size()`.
FUNCTIONS = {name: 1 for name in "size int uint double string bytes timestamp duration type dyn".split()}
METHODS = {
    "size": 0,
    **{name: 1 for name in "contains startsWith endsWith matches".split()},
    **{name: 0 for name in "getFullYear getMonth getDate getDayOfMonth getDayOfYear getDayOfWeek".split()},
    **{name: 0 for name in "getHours getMinutes getSeconds getMilliseconds".split()},
}
MACROS = {"all": (2,), "exists": (2,), "exists_one": (2,), "filter": (2,), "map": (2, 3)}


class Unreadable(ValueError):
    """`reason` says what the source may not do, `hint` what to write instead."""

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def unknown(kind: str, word: str, choices: Iterable[str], otherwise: str = "") -> Unreadable:
    known = sorted(choices)
    near = difflib.get_close_matches(word, known, n=1)
    guess = f"did you mean {near[0]!r}? " if near else otherwise
    return Unreadable(f"there is no {kind} {word!r}", hint=f"{guess}there are {', '.join(known)}")


def uncounted() -> Unreadable:
    # Whether a tool is in there would depend on what the rule mentions, and not only on what was called.
    hint = 'write calls.by_name["shop.refund"], which is 0 before the first call'
    return Unreadable("calls.by_name can only be asked for the count of one tool", hint=hint)
