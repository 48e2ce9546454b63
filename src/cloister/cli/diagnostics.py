"""What a run found wrong, as a person reads it: what happened, where, and what to do.

error[TYPE_ERROR]: Argument to function `refund` is incorrect: Expected `int`, found `str`
  at order.py:2:24
  2 | await refund("A7", "all")
    |                    ^^^^^
  hint: refund(order_id: str, cents: int) -> bool
"""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from cloister.cli.source import Source, excerpt
from cloister.cli.terminal import safe
from cloister.core.cell import Completed, Failed, Interrupted, Terminated
from cloister.core.codes import Code
from cloister.core.diagnostic import Diagnostic, Severity
from cloister.core.run import RunResult

if TYPE_CHECKING:
    from rich.text import Text

CellEnd: TypeAlias = Completed | Failed | Terminated | Interrupted
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}


def findings(result: "RunResult | CellEnd", *, lasting: bool = False) -> list[Diagnostic]:
    """All that a result says, each thing once, what ended the run last. In a session that goes on (`lasting`) it
    matters that variables went back; in one that ends with the run it does not."""
    found = [note for note in result.diagnostics if lasting or note.code != Code.ROLLED_BACK]
    error = None if isinstance(result, (Completed, Terminated)) else result.error
    if error is None:
        return found
    ended = Diagnostic(Severity.ERROR, error.code, error.message, error.hint, error.span)
    # What ended the run may have got a hint on its way.
    return [note for note in found if replace(note, hint=ended.hint) != ended] + [ended]


def render(found: Diagnostic, source: Source) -> "Text":
    """One finding as text with styles; without a terminal the styles vanish and the text stays."""
    from rich.text import Text

    style = _STYLES[found.severity]
    text = Text()
    text.append(f"{found.severity.value}[{found.code}]", style)
    text.append(f": {_indented(found.message)}")
    if found.span is not None:
        text.append(f"\n  at {safe(source.name)}:{found.span.line}:{found.span.column}", "dim")
        for number, (margin, shown) in enumerate(excerpt(source.code, found.span)):
            text.append(f"\n  {margin}", "dim")
            text.append(shown, style if number else "")
    if found.hint:
        text.append("\n  hint: ", "bold")
        text.append(_indented(found.hint))
    return text


def count(found: list[Diagnostic]) -> str:
    """`1 error, 2 warnings`, or that there is nothing."""
    parts: list[str] = []
    for severity in Severity:
        number = sum(1 for note in found if note.severity is severity)
        if number:
            parts.append(f"{number} {severity.value}{'s' if number > 1 and severity is not Severity.INFO else ''}")
    return ", ".join(parts) or "no problems found"


def _indented(text: str) -> str:
    return safe(text.rstrip()).replace("\n", "\n  ")
