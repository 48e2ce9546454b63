"""Names that Monty's modules lack are refused before the run, and only where they are imported."""

import pytest

from cloister import Cloister, Code
from cloister.engines.monty.imports import find_imports

pytestmark = pytest.mark.anyio


def test_names_of_modules_that_are_here_are_found_with_their_places() -> None:
    code = "import json\nfrom typing import (\n    Any,\n    TypedDict as T,\n)\nimport collections.abc, os\n"
    assert [(item.statement, code[item.start : item.end]) for item in find_imports(code)] == [
        ("from typing import Any", "Any"),
        ("from typing import TypedDict", "TypedDict"),
        ("import collections.abc", "collections.abc"),
    ]


@pytest.mark.parametrize("type_check", ["warn", "off"])
async def test_name_that_monty_lacks_is_unsupported_before_anything_runs(type_check: str) -> None:
    async with Cloister(type_check=type_check) as cloister:
        session = await cloister.open_session()
        result = await session.run("print('no')\nfrom typing import Any, TypedDict")
        assert result.error is not None
        assert (result.error.code, result.stdout) == (Code.UNSUPPORTED_FEATURE, "")
        assert result.error.span is not None
        assert (result.error.span.line, result.error.span.column) == (2, 25)


@pytest.mark.parametrize("type_check", ["warn", "off"])
async def test_import_inside_a_text_is_no_import(type_check: str) -> None:
    async with Cloister(type_check=type_check) as cloister:
        session = await cloister.open_session()
        result = await session.run("s = '''\nfrom typing import TypedDict\n'''\nlen(s)")
        assert result.result == 30


async def test_names_that_monty_has_are_let_through() -> None:
    async with Cloister() as cloister:
        session = await cloister.open_session()
        result = await session.run(
            "from dataclasses import dataclass, field\nfrom typing import Any\nimport os.path\n1"
        )
        assert result.result == 1
