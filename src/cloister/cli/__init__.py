"""The command line: a door. Reads options, runs programs through `app`, writes for people or as JSON.

`cyclopts`, `rich` and `prompt_toolkit` live here only, and are imported when they are needed: a plain run that
succeeds never pays for `rich`, and only a prompt for `prompt_toolkit`.
"""

from cloister.cli.main import main

__all__ = ["main"]
