"""The exit codes, in one table: what a shell learns of a run."""

from cloister.core.codes import RunStatus

OK = 0
FAILED = 1
USAGE = 2
INVALID = 3
LIMIT = 4
DENIED = 5
# Of `cloister replay`: the cell does something else than it did.
DIVERGED = 1
INTERRUPTED = 130

EXIT_OF: dict[RunStatus, int] = {
    RunStatus.OK: OK,
    RunStatus.RUNTIME_ERROR: FAILED,
    RunStatus.CANCELLED: FAILED,
    RunStatus.VALIDATION_ERROR: INVALID,
    RunStatus.TIMEOUT: LIMIT,
    RunStatus.RESOURCE_EXHAUSTED: LIMIT,
    RunStatus.PERMISSION_DENIED: DENIED,
    RunStatus.WAITING_FOR_APPROVAL: DENIED,
    RunStatus.INTERRUPTED: INTERRUPTED,
}

# Of `cloister threads send`: how the turn ended.
EXIT_OF_TURN: dict[str, int] = {
    "completed": OK,
    "failed": FAILED,
    "cancelled": FAILED,
    "interrupted": INTERRUPTED,
}

# Shown by `--help`; kept next to the table so that they change together.
HELP = """\
Exit codes:
  0    the program ran to its end
  1    the program failed
  2    the command or its input is wrong; nothing ran
  3    validation error: the check or the gate refused it
  4    a time or resource limit was reached
  5    permission denied, or waiting for an approval
  130  interrupted (Ctrl-C)"""
