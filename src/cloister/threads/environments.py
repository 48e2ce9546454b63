"""What a thread asks for of environments: the workspaces that its turns may target.

Which there are is the host's to say, and what they are among the files of a session is the session's.
"""

import logging

from cloister.core.errors import InvalidInput
from cloister.core.thread import DriverKind, Thread, ThreadParams
from cloister.core.turn import LOCAL, TurnEnvironmentParams
from cloister.sessions.session import Session

log = logging.getLogger("cloister.threads")


def check_driven(params: ThreadParams) -> None:
    """Environments are where programs work. A driver that runs none would take them and ignore them."""
    if params.driver is DriverKind.NATIVE:
        for one in params.environments:
            if one != TurnEnvironmentParams(LOCAL):
                raise InvalidInput(
                    f"the environment {one.environment_id!r} is of no use to driver 'native', which runs no programs",
                    hint="use the driver 'code', or tools that know the directory",
                )


async def add_environments(session: Session, thread: Thread) -> None:
    """Those that this host has. A turn that targets another is refused when it is begun."""
    for one in thread.environments:
        try:
            await session.add_environment(one.environment_id)
        except InvalidInput as error:
            log.warning("thread %s goes on without an environment: %s", thread.id, error)
