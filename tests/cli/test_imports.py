import sys
from pathlib import Path

import pytest

from cloister.cli.failures import UsageError
from cloister.cli.imports import import_tools
from cloister.tools import Tool


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_module_gives_its_tools_once_each(here: Path) -> None:
    (here / "imports_once.py").write_text(
        "from cloister import tool\n@tool\ndef a() -> int: return 1\nsame = a\ndef not_a_tool(): pass\n"
    )
    (found,) = import_tools(["imports_once"])
    assert isinstance(found, Tool)
    assert found.name == "a"


def test_module_that_fails_to_import_is_named(here: Path) -> None:
    (here / "imports_broken.py").write_text("1 / 0")
    with pytest.raises(UsageError, match="imports_broken: importing it failed: ZeroDivisionError"):
        import_tools(["imports_broken"])


def test_tool_that_is_declared_wrongly_says_itself_what_to_do(here: Path) -> None:
    (here / "imports_wrong.py").write_text("from cloister import tool\n@tool(approval_policy='often')\ndef a(): pass\n")
    with pytest.raises(UsageError, match=r"--tools imports_wrong: .*use 'none', 'auto' with a rule, or 'manual'"):
        import_tools(["imports_wrong"])


def test_missing_import_inside_a_module_is_not_blamed_on_its_name(here: Path) -> None:
    (here / "imports_needy.py").write_text("import no_such_dependency")
    with pytest.raises(UsageError, match="no_such_dependency"):
        import_tools(["imports_needy:tool"])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("no_such_module:x", "looked for in the current directory"),
        ("shop.py", "--tools shop"),
        ("./tools/shop.py", "--tools tools.shop"),
        (":x", "for example"),
        ("json:", "for example"),
        ("json", "@cloister.tool"),
        ("json:dunps", "did you mean 'dumps'?"),
        ("string:digits", "name a function"),
    ],
)
def test_name_that_is_no_tool_is_refused_with_a_hint(here: Path, name: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        import_tools([name])
    assert hint in (refused.value.hint or "")
