"""`cloister doctor`: whether programs can run here, how well they are sealed, and what to do about what is missing.

Everything is tried, nothing is inferred: a worker of each language really computes 1 + 1, and each layer is really
put on. A missing layer is a warning; a language in which nothing runs is an error.
"""

import platform
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cloister.cli.checkup import Checkup, LanguageCheck, examine
from cloister.cli.exits import FAILED, OK
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.options import AsJson
from cloister.cli.stock import Stock, in_words, take_stock
from cloister.cli.store import StoreUrl
from cloister.cli.terminal import console, one_json_object, safe

if TYPE_CHECKING:
    from rich.console import Console

_ACTIVE = "active"
_WALLS = "the interpreter's own walls and the limits still hold"
_LAYER_HINTS = {
    "rlimits": "the process limits of this container or service are too tight to be set; raise them",
    "no_new_privs": "needs Linux 3.5 or newer",
    "landlock": "needs Linux 5.13 or newer with landlock in the list of security modules (lsm=landlock,...)",
    "seccomp": "needs a kernel with CONFIG_SECCOMP_FILTER on x86-64 or arm64",
    "namespaces": "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or for Docker a "
    "seccomp profile that allows unshare)",
}


@dataclass(frozen=True, slots=True)
class Problem:
    severity: str
    message: str
    hint: str


def doctor(*, store: StoreUrl = None, as_json: AsJson = False) -> int:
    """Look whether programs can run here, and how well they are sealed."""
    from cloister import __version__

    found = run_interruptibly(examine())
    stock = run_interruptibly(take_stock(store))
    problems = [*_problems(found), *_of_the_store(stock)]
    healthy = not any(problem.severity == "error" for problem in problems)
    if as_json:
        report = {
            "ok": healthy,
            "cloister": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **asdict(found),
            "store": asdict(stock),
            "problems": [asdict(problem) for problem in problems],
        }
        with one_json_object() as write:
            write(report)
    else:
        screen = console()
        screen.print(f"cloister {__version__}, Python {platform.python_version()}, {platform.platform()}")
        _print_languages(screen, found)
        _print_confinement(screen, found)
        _print_directories(screen, found)
        _print_keys(screen, found)
        _heading(screen, "Store")
        sound = stock.error is None and stock.schema == stock.newest_schema
        _row(screen, sound, "sessions", in_words(stock), missing="warn")
        _print_problems(screen, problems)
    return OK if healthy else FAILED


def _problems(found: Checkup) -> list[Problem]:
    problems: list[Problem] = []
    for name, language in found.languages.items():
        if not language.runs:
            message = f"no {name} program can run: {language.error}"
            problems.append(
                Problem("error", message, "install it again with all it needs: pip install --force-reinstall cloister")
            )
        elif not language.confinement:
            message = f"the {name} engine reports no layer of the operating system around its workers"
            problems.append(Problem("warning", message, _WALLS))
        for layer, state in language.confinement.items():
            if state != _ACTIVE:
                message = f"{layer} is missing around the workers of {name}: {state}"
                problems.append(Problem("warning", message, _LAYER_HINTS.get(layer, _WALLS)))
    for name, directory in found.directories.items():
        if not directory.writable:
            message = f"the {name} directory {directory.path} cannot be written"
            problems.append(Problem("warning", message, f"set {directory.variable} to one that can"))
    for key in found.keys.values():
        if key.error is not None:
            problems.append(Problem("warning", key.error, key.hint or "look at where the key comes from"))
    return problems


def _of_the_store(stock: Stock) -> list[Problem]:
    if stock.error is not None:
        return [Problem("warning", stock.error, "name another with --store, or put it right: `cloister store check`")]
    if stock.schema is not None and stock.newest_schema is not None and stock.schema < stock.newest_schema:
        return [
            Problem("warning", in_words(stock), "opening it brings it up to date; so does `cloister store migrate`")
        ]
    return []


def _print_languages(screen: "Console", found: Checkup) -> None:
    _heading(screen, "Languages")
    for name, language in found.languages.items():
        _row(screen, language.runs, name, _how_it_runs(language))
    for name, language in found.languages.items():
        if language.unsupported:
            screen.print(f"\n  {name} does not support:")
            for item in language.unsupported:
                screen.print(f"    - {safe(item)}")


def _how_it_runs(language: LanguageCheck) -> str:
    if not language.runs:
        return language.error or "does not run"
    return f"{language.version}: 1 + 1 in {language.run_ms:.1f} ms, worker started in {language.start_ms:.0f} ms"


def _print_confinement(screen: "Console", found: Checkup) -> None:
    _heading(screen, "Layers of the operating system around the workers")
    for name, language in found.languages.items():
        screen.print(f"  {name}{'' if language.confinement else ': none is reported'}")
        for layer, state in language.confinement.items():
            _row(screen, state == _ACTIVE, layer, state, missing="warn", indent=4)


def _print_directories(screen: "Console", found: Checkup) -> None:
    _heading(screen, "Directories")
    for name, directory in found.directories.items():
        state = "writable" if directory.writable else "not writable"
        _row(screen, directory.writable, name, f"{directory.path} ({state})", missing="warn")


def _print_keys(screen: "Console", found: Checkup) -> None:
    _heading(screen, "Keys")
    for name, key in found.keys.items():
        state = f"{', '.join(key.ids)} ({key.where})" if key.ids else f"none yet, will be made in {key.where}"
        _row(screen, key.error is None, name, state if key.error is None else key.error, missing="warn")


def _print_problems(screen: "Console", problems: list[Problem]) -> None:
    from rich.text import Text

    screen.print()
    if not problems:
        screen.print("Everything is in place.", style="bold green")
    for problem in problems:
        style = "bold red" if problem.severity == "error" else "bold yellow"
        screen.print(Text.assemble((problem.severity, style), f": {safe(problem.message)}\n  hint: {problem.hint}"))


def _heading(screen: "Console", text: str) -> None:
    screen.print()
    screen.print(text, style="bold")


def _row(screen: "Console", good: bool, name: str, text: str, *, missing: str = "FAIL", indent: int = 2) -> None:
    from rich.text import Text

    mark = ("ok  ", "green") if good else (missing, "yellow" if missing == "warn" else "bold red")
    screen.print(Text.assemble(" " * indent, mark, f"  {name:<14}{safe(text)}"))
