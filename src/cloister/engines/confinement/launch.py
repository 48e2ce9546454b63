"""The program that turns into a foreign worker: puts the layers on, then executes the binary with no environment.

Run by path with `python -I -S`, never imported by the host: it loads its sibling files without their package, so
that neither `cloister` nor site-packages is read on the way to each worker. Its command line, written by
`launcher.py`, is a list of `key=value`, then `--`, then the command. Leaves with 126 when a required layer is missing.
"""

from __future__ import annotations

import os
import sys

_CANNOT_EXECUTE = 126
_TASKS = 16
_complaints = 2


def main(arguments: list[str]) -> int:
    from cloister.engines.confinement import layers

    cut = arguments.index("--")
    settings: dict[str, list[str]] = {}
    for argument in arguments[:cut]:
        key, _, value = argument.partition("=")
        settings.setdefault(key, []).append(value)
    command = arguments[cut + 1 :]
    own = settings.get("kind") == ["own"]
    outcome = _own(settings) if own else _foreign(settings)
    if "report" in settings:
        for name, state in outcome.items():
            sys.stdout.write(f"{name}={state}\n")
        sys.stdout.flush()
        return 0
    if settings.get("required") == ["1"] and (gaps := layers.missing(outcome)):
        return _refuse(f"confinement layer {gaps[0]!r} is {outcome[gaps[0]]}; enable it, or allow workers without it")
    try:
        os.execve(command[0], command, {})
    except OSError as error:
        return _refuse(f"cannot execute the worker {command[0]!r} under confinement: {error}")


def _foreign(settings: dict[str, list[str]]) -> dict[str, str]:
    from cloister.engines.confinement import descriptors, landlock, lifeline, namespaces, privileges, rlimits, seccomp
    from cloister.engines.confinement.layers import ACTIVE, attempt

    complaints = _silence()
    keep = [0, 1, 2, complaints, *(lifeline.tie(path) for path in settings.get("lifeline", ()))]
    descriptors.close_all_but(keep)
    os.chdir("/")
    if os.getpgrp() != os.getpid():
        os.setsid()  # no controlling terminal: /dev/tty is nobody's, and Ctrl-C stays with the host

    # SIGXFSZ stays ignored, as Python sets it: with a file for stderr a worker gets EFBIG there instead of dying.
    outcome = {"namespaces": attempt(namespaces.enter)}
    cpu = [int(seconds) for seconds in settings.get("cpu", ())]
    limits = rlimits.ceilings(
        data_bytes=int(settings["data"][0]),
        cpu_seconds=cpu[0] if cpu else None,
        # Outside a user namespace the count would include everything else that the user runs.
        tasks=_TASKS if outcome["namespaces"] == ACTIVE else None,
    )
    execute, read = settings.get("execute", []), settings.get("read", [])
    policy = seccomp.foreign_policy(os.getpid(), look_around="look" in settings)
    outcome["rlimits"] = attempt(lambda: rlimits.lower(limits))
    outcome["no_new_privs"] = attempt(privileges.give_up)
    outcome["landlock"] = attempt(lambda: landlock.restrict(execute=execute, read=read))
    outcome["seccomp"] = attempt(lambda: seccomp.install(policy))
    return outcome


def _silence() -> int:
    """Lead the worker's stderr nowhere: it must not write into the host's log, nor read its terminal. The real one
    stays for a refusal, until the worker is executed."""
    global _complaints
    _complaints = os.dup(2)  # not inheritable: gone with the exec
    nowhere = os.open("/dev/null", os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return _complaints


def _own(settings: dict[str, list[str]]) -> dict[str, str]:
    from cloister.engines.confinement.seal import seal

    return seal(data_bytes=int(settings["data"][0]), die_with_parent=False).layers


def _refuse(line: str) -> int:
    try:
        os.write(_complaints, f"cloister: {line}\n".encode(errors="replace"))
    except OSError:
        pass  # stderr is a file, which by now may not grow: the exit code and the host's probe still tell
    return _CANNOT_EXECUTE


if __name__ == "__main__":
    # Stand-ins for our package and those above it: the siblings are found in this folder, and no __init__ is run.
    for name in ("cloister", "cloister.engines", "cloister.engines.confinement"):
        package = type(sys)(name)
        package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
        sys.modules[name] = package
    sys.exit(main(sys.argv[1:]))
