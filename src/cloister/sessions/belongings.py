"""What a session holds that no program writes and no snapshot has: its secrets, its attachments and environments.

A fork has them as they are when it is made, whatever moment it is a fork of; a copy made of a snapshot has none.
"""

from dataclasses import dataclass

from cloister.ports.rows import Put, Write
from cloister.sessions.attachments import Attachments
from cloister.sessions.environments import Environments
from cloister.sessions.grounds import Grounds
from cloister.sessions.keeper import Keeper
from cloister.sessions.secrets import SessionSecrets


@dataclass(frozen=True, slots=True)
class Belongings:
    secrets: SessionSecrets
    attachments: Attachments
    environments: Environments
    # Whose all of it is.
    tenant: str = ""

    @classmethod
    def of(
        cls,
        session_id: str,
        grounds: Grounds,
        keeper: Keeper | None,
        parent: "Belongings | None" = None,
        tenant: str = "",
        environments: tuple[str, ...] = (),
    ) -> "Belongings":
        clock, keep = grounds.wiring.clock, keeper.write if keeper is not None else None
        store = grounds.ledger.store if grounds.ledger is not None and keeper is not None else None
        made = cls(
            SessionSecrets(
                session_id, clock, grounds.catalog.registry, grounds.vault, grounds.own_secrets, grounds.secrets, keep
            ),
            Attachments(session_id, clock, store=store, keep=keep),
            Environments(environments, grounds.environments),
            tenant,
        )
        if parent is not None:
            made.secrets.inherit(parent.secrets)
            made.attachments.inherit(parent.attachments)
        return made

    async def load(self) -> "Belongings":
        """From here on all is known: for a fork, and for what a snapshot leaves out."""
        await self.attachments.load()
        return self

    def first_writes(self) -> list[Write]:
        return [*map(Put, self.secrets.rows()), *self.attachments.first_writes()]

    def left_out(self) -> tuple[str, ...]:
        """What is in no snapshot of the session."""
        secrets = [f"secret {name}" for name in self.secrets.names()]
        return (*secrets, *(f"attachment {name}" for name in self.attachments.names()))
