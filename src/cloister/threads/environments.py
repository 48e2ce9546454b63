"""What a thread asks for of environments: the workspaces that its turns may target.

Which there are is the host's to say, and what they are among the files of a session is the session's.
"""

import logging

from cloister.core.errors import InvalidInput, InvalidLanguage, within
from cloister.core.thread import DriverKind, Thread, ThreadParams
from cloister.core.turn import LOCAL, TurnEnvironmentParams
from cloister.sessions.files.paths import ROOT
from cloister.sessions.session import Session
from cloister.threads.open_turn import OpenTurn

log = logging.getLogger("cloister.threads")


def check_driven(params: ThreadParams) -> None:
    """Environments are where programs work. A driver that runs none would take them and ignore them."""
    if params.driver is DriverKind.NATIVE:
        for place, one in enumerate(params.environments):
            if one != TurnEnvironmentParams(LOCAL):
                with within("environments", place):
                    raise InvalidInput(
                        f"the environment {one.environment_id!r} is of no use to driver 'native', which runs no "
                        "programs",
                        hint="use the driver 'code', or tools that know the directory",
                    )


async def check_asked(params: ThreadParams, session: Session) -> None:
    """Refuse what the session of a thread that is yet to be made is not; its environments it gets."""
    if params.language not in (None, session.language):
        with within("language"):
            raise InvalidLanguage(f"session {session.id!r} speaks {session.language}, not {params.language}")
    for place, one in enumerate(params.environments):
        with within("environments", place):
            await session.add_environment(one.environment_id)
            await session.base_in(one.environment_id, one.cwd)


def environment_of(thread: Thread, environment_id: str | None) -> str:
    """The one that is meant, of those that the thread has. Raises `InvalidInput`."""
    known = {LOCAL, *(one.environment_id for one in thread.environments)}
    wanted = LOCAL if environment_id is None else environment_id
    if wanted not in known:
        with within("environment_id"):
            raise InvalidInput(
                f"there is no environment {wanted!r} in thread {thread.id!r}",
                hint=f"there is {', '.join(sorted(known))}",
            )
    return wanted


def place_told(turn: OpenTurn) -> str:
    """Where the programs of a turn begin, for the model that writes them; nothing if it is where they always do."""
    if turn.base in (None, ROOT):
        return ""
    where = turn.turn.environment_id
    return f"Files: the environment of this turn is `{where}`. Relative paths of programs begin in {turn.base}."


async def add_environments(session: Session, thread: Thread) -> None:
    """Those that this host has. A turn that targets another is refused when it is begun."""
    for one in thread.environments:
        try:
            await session.add_environment(one.environment_id)
        except InvalidInput as error:
            log.warning("thread %s goes on without an environment: %s", thread.id, error)
