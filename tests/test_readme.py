"""What the README shows is true: its programs run, its conversation goes as it is written, its links lead somewhere."""

import ast
import inspect
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cloister import Cloister
from tests.cli.shell import Shell, Work

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    *(f"docs/{one.name}" for one in (ROOT / "docs").glob("*.md")),
]


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    return [text for said, text in found if said == language]


def test_first_program_runs_and_prints_what_stands_beside_it() -> None:
    program = blocks("python")[0]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110)
    assert (done.stdout, done.stderr) == ("ok 25.0\n", "")
    assert "# ok 25.0" in program


@pytest.mark.anyio
async def test_program_that_asks_a_person_goes_on_as_its_comments_say() -> None:
    made, rest = blocks("python")[1].split("\n\n\n")
    names: dict[str, Any] = {}
    exec(f"from cloister import tool\n{made}", names)
    async with Cloister(tools=[names["refund"]]) as cloister:
        names |= {"cloister": cloister, "session": await cloister.open_session("demo")}
        seen: list[str] = []
        for line in rest.splitlines():
            done = eval(compile(line, "README", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.isawaitable(done):
                await done
            seen.append(f"{names['result'].status} {names['result'].result!r}")
    assert seen == ["waiting_for_approval None", "waiting_for_approval None", "ok 'paid 250.0'"]
    assert [line.partition("#")[2].split(",")[0].split(":")[0].strip() for line in rest.splitlines()][::2] == [
        "waiting_for_approval",
        "ok",
    ]


# -- the conversation -------------------------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """In the directory that the README goes to, as a copy, with a port that is free."""
    made = Shell(tmp_path)
    place = _serving()[0].removeprefix("cd ")
    made.here = shutil.copytree(ROOT / place, tmp_path / "first", ignore=shutil.ignore_patterns("__pycache__"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    export = blocks("sh")[2].splitlines()[0]
    name, _, url = export.removeprefix("export ").partition("=")
    made.environment |= {"CLOISTER_SERVER_PORT": port, name: url.replace("8787", port)}
    return made


def _serving() -> list[str]:
    return blocks("sh")[1].splitlines()


@contextmanager
def served(shell: Shell) -> Generator[Work, None, None]:
    with shell.at_work(*_serving()[1].split()[1:]) as (work, out):
        assert "listening on" in out.readline(), (shell.here / "errors").read_text()
        yield work


@pytest.mark.timeout(300)
def test_conversation_goes_as_it_is_written_also_when_the_server_is_killed_at_the_question(shell: Shell) -> None:
    chat = blocks("sh")[2].splitlines()[1].split()[1:]
    written = blocks("")[0].splitlines()
    with ExitStack() as stack:
        first = stack.enter_context(served(shell))
        screen = stack.enter_context(shell.terminal(*chat))
        for line in written:
            if line.startswith("you> "):
                screen.until("you>")
                screen.type(line.removeprefix("you> ") + "\r")
            elif line.startswith("Allow it?"):
                screen.until(line[:-1])
                os.kill(first.pid, signal.SIGKILL)
                first.wait(60)
                stack.enter_context(served(shell))
                screen.type(line[-1] + "\n")
            else:
                # How long a call took depends on the machine.
                screen.match("(" + re.sub(r"\\ \d+\\ ms\\ ", r" [\\d.,]+ m?s ", re.escape(line)) + ")")
        screen.until("you>")
        screen.type("\x04")
        assert screen.end() == 0


def test_client_of_the_readme_has_the_answer_that_stands_beside_it(shell: Shell) -> None:
    program = blocks("python")[2]
    with served(shell):
        done = subprocess.run(
            [sys.executable, "-c", program], env=shell.environment, capture_output=True, text=True, timeout=110
        )
    assert done.stderr == ""
    assert done.stdout.strip() == program.rstrip().rpartition("# ")[2]


# -- links and bounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings_that_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http:", "https:")):
            continue
        name, _, heading = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (heading and heading not in _headings(target)):
            missing.append(link)
    assert missing == []


def _headings(page: Path) -> set[str]:
    """As anchors: small letters, hyphens for spaces, nothing else."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", one.lower()).replace(" ", "-") for one in found}


def test_extras_that_the_pages_name_are_there() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named: set[str] = set()
    for page in PAGES:
        for given in re.findall(r"cloister\[([a-z,]+)\]", (ROOT / page).read_text(encoding="utf-8")):
            named |= set(given.split(","))
    assert named
    assert named <= extras


def test_readme_fits_on_a_few_screens() -> None:
    assert len(TEXT.splitlines()) <= 180
