"""`--secret NAME=TOOL,TOOL`: which tools may have what the environment variable NAME holds.

A value is never taken from the command line, where histories and process lists would keep it. Somebody may write one
there all the same, so no message repeats anything but NAME.
"""

import difflib
import os
from collections.abc import Collection, Mapping, Sequence

from cloister.cli.failures import UsageError
from cloister.core.errors import InvalidInput
from cloister.ports.secrets import SECRET_NAME, Secret

_EXAMPLE = "for example --secret TOKEN=http_get,http_post takes the value from the environment variable TOKEN"


def parse_secrets(given: Sequence[str], environment: Mapping[str, str] = os.environ) -> dict[str, Secret]:
    """The secrets that the options name, with their values."""
    secrets: dict[str, Secret] = {}
    for option in given:
        name, equals, tools = option.partition("=")
        if not SECRET_NAME.match(name) or not equals:
            raise UsageError("--secret takes NAME=TOOL[,TOOL]", _EXAMPLE)
        if name in secrets:
            raise UsageError(f"--secret {name} is given twice", f"name all its tools at once: --secret {name}=one,two")
        secrets[name] = _secret(name, tools, environment)
    return secrets


def _secret(name: str, tools: str, environment: Mapping[str, str]) -> Secret:
    allowed = tuple(tool.strip() for tool in tools.split(","))
    try:
        Secret("only to look at the tools", allowed)
    except InvalidInput:
        raise UsageError(
            f"--secret {name}: after the = come the tools that may have it, with commas between them",
            f"the value is taken from the environment variable {name}, never from the command line",
        ) from None
    value = environment.get(name)
    if value is None:
        raise UsageError(
            f"--secret {name}: the environment variable {name} is not set",
            f"set it without a trace in the history: read -rs {name} && export {name}",
        )
    try:
        return Secret(value, allowed)
    except InvalidInput as error:
        raise UsageError(f"--secret {name}: {error.message}", error.hint) from None


def check_tools(secrets: Mapping[str, Secret], names: Collection[str]) -> None:
    """A secret for a tool that is not there is a slip of the pen. `names` are the full names of those that are."""
    for name, secret in secrets.items():
        for tool in secret.allowed:
            if any(Secret("only to look", (tool,)).allows(known) for known in names):
                continue
            near = difflib.get_close_matches(tool, [*names], n=1)
            there = ", ".join(sorted(names)[:8]) or "none: --tools names them"
            hint = f"did you mean {near[0]!r}?" if near else f"the tools are {there}"
            raise UsageError(f"--secret {name} names a tool that is not there", hint)
