"""A shell to type `cloister` in: the installed script in a process of its own, in a directory of its own."""

import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

SCRIPT = Path(sysconfig.get_path("scripts")) / "cloister"

TOOLS = '''
    import asyncio
    import time

    from cloister import ToolError, tool


    @tool(side_effect="read")
    def get_order(order_id: str) -> dict[str, int]:
        """An order."""
        return {"size": len(order_id)}


    @tool
    async def nap() -> str:
        """Sleeps for long, and says when it began."""
        print("begun", flush=True)
        await asyncio.sleep(600)
        return "rested"


    @tool
    def block() -> str:
        """Blocks a thread for long, and says when it began."""
        print("begun", flush=True)
        time.sleep(600)
        return "rested"


    @tool
    def explode() -> str:
        """Fails with something the program must not learn."""
        raise ValueError("host's secret")


    def add(a: int, b: int = 2) -> int:
        return a + b


    several = [get_order, add]
    number = 7
'''


class Shell:
    """Where commands are typed. `here` holds `shop.py`, a module with tools."""

    def __init__(self, directory: Path) -> None:
        self.here = directory / "here"
        self.data = directory / "data"
        self.here.mkdir()
        (self.here / "shop.py").write_text(dedent(TOOLS))
        self.environment = {**os.environ, "CLOISTER_DATA_DIR": str(self.data), "COLUMNS": "80"}
        for name in ("CLOISTER_DEBUG", "FORCE_COLOR", "NO_COLOR"):
            self.environment.pop(name, None)

    def command(self, *words: str) -> list[str]:
        return [str(SCRIPT), *words]

    def __call__(
        self, *words: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            input=stdin,
            cwd=self.here,
            env={**self.environment, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=60,
        )
