"""A session's own secrets: what the host gave it while it is open, kept sealed where the session is kept.

They can be listed, without their values, replaced and deleted; nothing here gives a value back. Of several secrets with
one name a program gets that which was given in code for its session, then the one here, then the runtime's.
"""

import asyncio
import builtins
import difflib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from cloister.core.errors import InvalidInput, QuotaExceeded
from cloister.core.held import SecretInfo
from cloister.gate.secrets import MemorySecrets
from cloister.ports.clock import Clock, moment
from cloister.ports.keys import KeyRing
from cloister.ports.rows import Drop, Put, SecretRow, Write
from cloister.ports.secrets import Secret, SecretProvider
from cloister.sessions.vault import Vault, reseal, seal_row

MAX_SECRETS = 256

# Writes down what was changed.
Keep: TypeAlias = Callable[[Sequence[Write]], Awaitable[object]]


class Named(Protocol):
    """What knows the names of a session's tools."""

    def names(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class _Times:
    created_ms: int
    updated_ms: int


class SessionSecrets:
    def __init__(
        self,
        session_id: str,
        clock: Clock,
        tools: Named,
        vault: Vault,
        given: MemorySecrets,
        base: SecretProvider,
        keep: Keep | None = None,
    ) -> None:
        """`given` in code for this session; `base` for all. With `keep` they are written down."""
        self._session_id = session_id
        self._clock = clock
        self._tools = tools
        self._vault = vault
        self._keep = keep
        self._given = given
        self._held = MemorySecrets()
        self._times: dict[str, _Times] = {}
        # What is here is what was written down last: two changes of one name must not pass each other.
        self._changing = asyncio.Lock()
        self.provider = given.over(self._held.over(base))

    async def set(self, name: str, value: str, *, allow: Iterable[str] | None = None) -> None:
        """Add a secret, or replace the one of that name: the next call of a program has the new value.

        `allow` names the tools that may have it: full names, `shop.*` for a namespace, `*` for every tool. Without it
        a secret that is replaced is allowed for what it was, and a new one for none.
        """
        async with self._changing:
            # Looked at first: what is refused is refused before anything changes.
            old = self._held.get(name) if isinstance(cast("object", name), str) else None
            allowed = _names(allow) if allow is not None else old.allowed if old is not None else ()
            try:
                secret = Secret(value, allowed)
            except InvalidInput as refusal:
                raise InvalidInput(f"secret {str(name)[:64]!r}: {refusal.message}", hint=refusal.hint) from None
            trial = self._held.copy()
            trial.set(name, secret)
            if self._given.get(name) is not None:
                raise InvalidInput(
                    f"the secret {name!r} was given in code when the session was opened, and that one comes first",
                    hint="choose another name, or leave it out of secrets= of open_session",
                )
            if allow is not None:
                _check_known(name, allowed, self._tools)
            if len(trial.names()) > MAX_SECRETS:
                raise QuotaExceeded(f"a session has at most {MAX_SECRETS} secrets", hint="delete those not needed")
            now = self._clock.now_ms()
            times = _Times(self._times[name].created_ms if name in self._times else now, now)
            if self._keep is not None:
                ring = await self._vault.ring(make=True)
                await self._keep([Put(self._row(name, secret, times, ring))])
            self._held.set(name, secret)
            self._times[name] = times

    async def delete(self, name: str) -> bool:
        """False if there is none of that name here. Its value is scrubbed all the same as long as the session lives."""
        async with self._changing:
            if name not in self._times:
                return False
            if self._keep is not None:
                await self._keep([Drop("secrets", (self._session_id, name))])
            self._held.delete(name)
            del self._times[name]
            return True

    async def list(self) -> builtins.list[SecretInfo]:
        """Names, times, and what they are allowed for, sorted by name."""
        return [
            SecretInfo(name, secret.allowed, moment(times.created_ms), moment(times.updated_ms))
            for name, times in sorted(self._times.items())
            if (secret := self._held.get(name)) is not None
        ]

    # -- for the runtime -------------------------------------------------------------------------------------

    def names(self) -> builtins.list[str]:
        return sorted(self._times)

    async def take_up(self, rows: Sequence[SecretRow]) -> None:
        """What was written down; sealed anew if it was sealed with a key that is not the newest any more. Raises
        `SecretsLocked`, and then nothing has changed."""
        opened = await self._vault.open(rows)
        for row in rows:
            self._held.set(row.name, opened[row.name])
            self._times[row.name] = _Times(row.created_ms, row.updated_ms)
        if rows and self._keep is not None and (stale := reseal(rows, await self._vault.ring())):
            await self._keep([Put(row) for row in stale])

    def inherit(self, parent: "SessionSecrets") -> None:
        """What a fork has from the session that it is a fork of."""
        for name, times in parent._times.items():
            if (secret := parent._held.get(name)) is not None:
                self._held.set(name, secret)
                self._times[name] = times

    def rows(self) -> builtins.list[SecretRow]:
        """All of them as they are written down, sealed for this session."""
        if not self._times:
            return []
        ring = self._vault.ring_now()
        held = [(name, self._held.get(name), times) for name, times in sorted(self._times.items())]
        return [self._row(name, secret, times, ring) for name, secret, times in held if secret is not None]

    def _row(self, name: str, secret: Secret, times: _Times, ring: KeyRing) -> SecretRow:
        return seal_row(self._session_id, name, secret, ring, created_ms=times.created_ms, updated_ms=times.updated_ms)


def _names(allow: object) -> tuple[str, ...]:
    if isinstance(allow, (str, bytes)) or not isinstance(allow, Iterable):
        raise InvalidInput(
            f"`allow` is a list of tools, not {type(allow).__name__}", hint='write them one by one: ["shop.buy"]'
        )
    return tuple(dict.fromkeys(cast("Iterable[str]", allow)))


def _check_known(name: str, allowed: Sequence[str], tools: Named) -> None:
    """A secret for a tool that is not there is a slip of the pen."""
    there = tools.names()
    for one in allowed:
        if any(Secret("only to look", (one,)).allows(tool) for tool in there) or one == "*":
            continue
        near = difflib.get_close_matches(one, there, n=1)
        shown = ", ".join(there[:8]) + (" and more" if len(there) > 8 else "")
        raise InvalidInput(
            f"the secret {name!r} cannot be allowed for {one!r}: this session has no such tool",
            hint=f"did you mean {near[0]!r}?" if near else f"it has {shown or 'none'}",
        )
