"""The environments of a session: workspaces of its host among its files, and where the programs of a turn begin in one.

An environment is known by its id alone: the session is written down with the ids that it has, and what they stand for
is said by each host that has it open. Where a directory lies on the host's machine is told to nobody.
"""

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import cast

from cloister.core.errors import CloisterError, InvalidInput, within
from cloister.core.file import Mount
from cloister.core.turn import LOCAL, TurnEnvironmentParams
from cloister.sessions.files import Files, normal_path
from cloister.sessions.files.mounted import RealDirectory
from cloister.sessions.files.mounting import ENVIRONMENTS
from cloister.sessions.files.paths import ROOT
from cloister.sessions.files.refusal import Refused

log = logging.getLogger("cloister.sessions")
_ID = re.compile(r"[a-zA-Z0-9_\-]{1,64}")
_MOST = 32


def parse_environments(given: object) -> dict[str, Mount]:
    """What a host has, by id; raises `InvalidInput`, also for a directory that cannot be opened now."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput("environments are a mapping of ids to Mount", hint="write environments={'repo': Mount(...)}")
    found: dict[str, Mount] = {}
    for name, mount in cast("Mapping[object, object]", given).items():
        if not isinstance(name, str) or _ID.fullmatch(name) is None:
            raise InvalidInput(
                f"{name!r:.80} cannot be the id of an environment", hint="use letters, digits, '_' and '-', up to 64"
            )
        if name == LOCAL:
            raise InvalidInput(f"{LOCAL!r} is the environment of a session's own files: use another id")
        if not isinstance(mount, Mount):
            raise InvalidInput(f"the environment {name!r} is a Mount, not {type(mount).__name__}")
        RealDirectory(mount).close()
        found[name] = mount
    if len(found) > _MOST:
        raise InvalidInput(f"a host has at most {_MOST} environments, not {len(found)}")
    return found


def place_of(environment_id: str) -> str:
    """Where it is among a session's files; the root for those files themselves."""
    return ROOT if environment_id == LOCAL else f"{ENVIRONMENTS}/{environment_id}"


def base_of(environment_id: str, cwd: str) -> str:
    """Where relative paths begin. Raises `InvalidInput` for a `cwd` that can name nothing in the environment."""
    place = place_of(environment_id)
    try:
        inner = normal_path(cwd or ROOT)
        base = inner if place == ROOT else normal_path(place + inner.rstrip("/"))
    except Refused as refused:
        raise _wrong_cwd(environment_id, refused.message) from None
    return base


def check_known(environment_id: str, known: Collection[str]) -> None:
    if environment_id != LOCAL and environment_id not in known:
        raise InvalidInput(
            f"there is no environment {environment_id!r:.80}", hint=f"there is {', '.join(sorted({LOCAL, *known}))}"
        )


def check_for_new_session(environments: Iterable[TurnEnvironmentParams], known: Mapping[str, Mount]) -> None:
    """Refuse what a session that is yet to be made could not have."""
    for number, one in enumerate(environments):
        with within("environments", number):
            _check_one(one, known)


def _check_one(one: TurnEnvironmentParams, known: Mapping[str, Mount]) -> None:
    check_known(one.environment_id, known)
    base = base_of(one.environment_id, one.cwd)
    place = place_of(one.environment_id)
    if base == place:
        return
    if one.environment_id == LOCAL:
        raise _wrong_cwd(LOCAL, "a new session has no directories yet")
    directory = _opened(one.environment_id, known[one.environment_id])
    try:
        real = directory.look(base[len(place) + 1 :].split("/"))
    except Refused as refused:
        raise _wrong_cwd(one.environment_id, refused.message) from None
    finally:
        directory.close()
    if real is None or real.kind != "directory":
        raise _wrong_cwd(one.environment_id, "there is no such directory")


class Environments:
    """Those that one session has, in the order in which they came. `known` are the host's."""

    def __init__(self, names: Iterable[str], known: Mapping[str, Mount]) -> None:
        self.names = list(dict.fromkeys(names))
        self._known = known

    def mounts(self) -> dict[str, Mount]:
        """Of those that its host has. The others are there again when they are configured again."""
        return {place_of(name): self._known[name] for name in self.names if name in self._known}

    def base(self, environment_id: str, cwd: str) -> str:
        """Where relative paths begin in an environment that it has. Raises `InvalidInput`."""
        check_known(environment_id, [name for name in self.names if name in self._known])
        return base_of(environment_id, cwd)

    def add(self, environment_id: str, files: Files) -> bool:
        """Whether it is new here."""
        check_known(environment_id, self._known)
        if environment_id == LOCAL or environment_id in self.names:
            return False
        place = place_of(environment_id)
        # Once more by itself, so that what is wrong with it does not say where it lies.
        _opened(environment_id, self._known[environment_id]).close()
        files.mount(place, self._known[environment_id])
        self.names.append(environment_id)
        return True


async def check_directory(files: Files, base: str, environment_id: str) -> None:
    """Raises `InvalidInput` if programs cannot begin there now."""
    try:
        await files.check_directory(base)
    except CloisterError as error:
        raise _wrong_cwd(environment_id, error.message) from None


def _opened(environment_id: str, mount: Mount) -> RealDirectory:
    try:
        return RealDirectory(mount)
    except InvalidInput as error:
        log.error("the environment %s: %s", environment_id, error.message)
        raise InvalidInput(f"the environment {environment_id!r} cannot be opened on this host") from None


def _wrong_cwd(environment_id: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the cwd of environment {environment_id!r} is no directory in it: {why}",
        hint="write a directory of the environment, such as '/'",
    )
