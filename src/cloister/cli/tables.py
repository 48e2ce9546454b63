"""Lists for people: a table at a terminal; aligned columns, whole and without colours, in a pipe.

What is in a cell was chosen by a program or a tool, so each stays on its line and drives no terminal.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from cloister.cli.terminal import flat


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], none: str) -> None:
    """`none` is said on stderr where there is nothing to list, so that a pipe gets nothing."""
    if not rows:
        print(none, file=sys.stderr)
        return
    cells = [[flat(_text(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _at_a_terminal(columns, cells)
        return
    lines = [[column.upper() for column in columns], *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def facts(pairs: Sequence[tuple[str, object]]) -> None:
    """One thing, as a line for each thing to know about it."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        if text := _text(value):
            print(f"{name:<{width}}  {flat(text)}")


def _at_a_terminal(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        # The first says which one it is: it is never cut.
        table.add_column(column, overflow="fold", no_wrap=place == 0)
    for row in cells:
        table.add_row(*row)
    Console(highlight=False, markup=False, emoji=False).print(table)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case bool():
            return "yes" if value else ""
        case list() | tuple():
            return ", ".join(map(str, value))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return str(value)
