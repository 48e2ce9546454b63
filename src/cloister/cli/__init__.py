"""The command line: a door. Reads options, runs programs through `app`, writes for people or as JSON.

`cyclopts` and `rich` live here only, and are imported when they are needed: a plain run that succeeds never pays
for `rich`.
"""

from cloister.cli.main import main

__all__ = ["main"]
