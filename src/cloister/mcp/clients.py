"""Which sessions a client has: one for each language, opened when it is first needed.

A connection names its session, or has the server's, or a new one. The language that clients have by default is in the
session of that name, the other in one beside it. What a client may see of cells and questions is what is in these.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator

import anyio

from cloister.core.approval import Approval
from cloister.core.errors import ApprovalNotFound, CellNotFound, InvalidLanguage
from cloister.core.ids import check_session_id
from cloister.core.language import Language
from cloister.mcp.host import Host
from cloister.mcp.options import McpOptions
from cloister.sessions import Session

# A host that went on with the session lets go of it within that time, when it is stopped.
_WAIT_MS = 2_000


class Client:
    """The sessions under one name."""

    def __init__(
        self, cloister: Host, options: McpOptions, name: str, *, is_kept: bool, on_open: Callable[[Session], None]
    ) -> None:
        self.name = name
        self._cloister = cloister
        self._options = options
        # Whether there may be sessions under that name that were not opened here.
        self._is_kept = is_kept
        self._on_open = on_open
        self._sessions: dict[Language, Session] = {}
        # One opening at a time: two requests at once must not both make the session.
        self._opening = asyncio.Lock()

    async def session(self, language: Language | None = None) -> Session:
        """Raises what `open_session` raises."""
        language = language or self._options.language
        found = self._sessions.get(language)
        if found is not None and not found.closed:
            return found
        # A request that is cancelled leaves no half of a session behind.
        with anyio.CancelScope(shield=True):
            async with self._opening:
                found = await self._open(language)
        assert found is not None
        return found

    async def _open(self, language: Language) -> Session:
        found = self._sessions.get(language)
        if found is not None and not found.closed:
            return found
        session_id = self.id_for(language)
        session = self._cloister.find(session_id)
        if session is None:
            session = await self._cloister.open_session(session_id, language=language, wait_ms=_WAIT_MS)
            if session.language is language:
                self._on_open(session)
        if session.language is not language:
            raise InvalidLanguage(
                f"session {session_id!r} speaks {session.language}, not {language}",
                hint=f"start the server with --language {session.language}, or name another session",
            )
        self._sessions[language] = session
        return session

    def id_for(self, language: Language) -> str:
        return self.name if language is self._options.language else check_session_id(f"{self.name}-{language}")

    def _languages(self) -> Iterator[Language]:
        """The default one first."""
        yield self._options.language
        for language in Language:
            if language is not self._options.language and (language in self._sessions or self._is_kept):
                yield language

    async def with_cell(self, cell_id: str) -> Session:
        """The session of that cell. Raises `CellNotFound`, also for cells of other clients."""
        for language in self._languages():
            session = await self.session(language)
            if any(info.id == cell_id for info in await session.cells()):
                return session
        raise CellNotFound(
            f"exec cell {cell_id[:80]} not found",
            hint="it may have ended and been read; each end is told once. `exec` begins another",
        )

    async def opened(self) -> list[tuple[Language, Session]]:
        return [(language, await self.session(language)) for language in self._languages()]

    async def question(self, approval_id: str) -> Approval:
        """Raises `ApprovalNotFound`, also for those of other clients."""
        for _, session in await self.opened():
            for approval in await self._cloister.approvals(session_id=session.id):
                if approval.id == approval_id:
                    return approval
        raise ApprovalNotFound(f"there is no approval {approval_id[:80]!r}")


class Clients:
    """By whatever tells one connection from another; None is the only one there is."""

    def __init__(
        self, cloister: Host, options: McpOptions, *, is_kept: bool, on_open: Callable[[Session], None]
    ) -> None:
        self._cloister = cloister
        self._options = options
        self._is_kept = is_kept
        self._on_open = on_open
        self._names: dict[str | None, str] = {}
        self._clients: dict[str, Client] = {}

    def of(self, connection: str | None, wanted: object) -> Client:
        """`wanted` is the session that the client has named, if it has. Raises `InvalidSessionId`."""
        named = wanted is not None or self._options.session is not None
        name = check_session_id(wanted) if wanted is not None else self._options.session or self._own(connection)
        client = self._clients.get(name)
        if client is None:
            client = Client(self._cloister, self._options, name, is_kept=self._is_kept and named, on_open=self._on_open)
            self._clients[name] = client
        return client

    def _own(self, connection: str | None) -> str:
        return self._names.setdefault(connection, f"mcp-{uuid.uuid4().hex}")
