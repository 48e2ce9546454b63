"""How the tour is shown: headings, programs, plain lines. Readable on a terminal and in a pipe of 80 columns."""

from cloister.cli.diagnostics import findings, render
from cloister.cli.source import Source
from cloister.cli.terminal import console, safe
from cloister.core.language import Language
from cloister.core.run import RunResult

TITLES = {Language.PYTHON: "Python", Language.TYPESCRIPT: "TypeScript"}


class Stage:
    def __init__(self) -> None:
        self._screen = console()

    def heading(self, text: str) -> None:
        self._screen.print()
        self._screen.print(text, style="bold")
        self._screen.print("=" * len(text), style="dim")

    def program(self, source: Source) -> None:
        self._screen.print()
        self._screen.print(f"  {TITLES[source.language]}", style="bold cyan")
        for line in source.code.rstrip().split("\n"):
            self._screen.print(f"    {line}".rstrip(), style="dim")

    def line(self, text: str) -> None:
        self._screen.print(f"  {safe(text)}")

    def findings(self, result: RunResult, source: Source) -> None:
        for found in findings(result):
            # Wrapped here and not by the terminal, so that a long message keeps its margin in a pipe too.
            for line in render(found, source).wrap(self._screen, self._screen.width - 2):
                line.rstrip()
                line.pad_left(2)
                self._screen.print(line)

    def table(self, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=True)
        for number, column in enumerate(columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self._screen.print(table)


def size(count: int) -> str:
    return f"{count:,} bytes"


def duration(milliseconds: float) -> str:
    return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
