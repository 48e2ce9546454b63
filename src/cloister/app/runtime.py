"""One language behind the names that other runtimes use, with requests and results as data.

For hosts that dispatch `RunRequest`s, as a server does. Everything is a thin call into `Cloister`; sessions are
named in each request, and one that is not open yet is opened with the defaults.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cloister.core.errors import InvalidLanguage
from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.run import RunRequest, RunResult
from cloister.core.session import SessionMeta

if TYPE_CHECKING:
    from cloister.app.cloister import Cloister


class LanguageRuntime:
    """Made by `Cloister.runtime(language)`."""

    def __init__(self, cloister: "Cloister", language: Language) -> None:
        self._cloister = cloister
        self.language = language

    async def create_session(
        self, session_id: str = "default", *, limits: SessionLimits | None = None, tools: Iterable[object] = ()
    ) -> SessionMeta:
        session = await self._cloister.open_session(session_id, language=self.language, limits=limits, tools=tools)
        return session.meta()

    async def run(self, request: RunRequest) -> RunResult:
        """Run a request in its session. A request in another language than its session's is refused."""
        if request.language is not self.language:
            raise InvalidLanguage(f"this runtime runs {self.language}, the request says {request.language}")
        session = self._cloister.find(request.session_id)
        if session is None:
            session = await self._cloister.open_session(request.session_id, language=self.language)
        elif session.language is not self.language:
            raise InvalidLanguage(f"session {session.id!r} speaks {session.language}, not {self.language}")
        return await session.run(
            request.code,
            inputs=request.inputs,
            limits=request.limits,
            timeout_ms=request.timeout_ms,
            return_snapshot=request.return_snapshot,
            validate_only=request.validate_only,
        )

    async def destroy_session(self, session_id: str) -> bool:
        return await self._cloister.destroy_session(session_id)

    async def list_sessions(self) -> list[SessionMeta]:
        return [meta for meta in await self._cloister.list_sessions() if meta.language is self.language]

    async def snapshot_session(self, session_id: str) -> bytes:
        return await self._cloister.session(session_id).snapshot()

    async def restore_session(self, snapshot: bytes, *, session_id: str | None = None) -> SessionMeta:
        return (await self._cloister.restore_session(snapshot, session_id=session_id)).meta()

    def can_restore_snapshot(self, snapshot: bytes) -> bool:
        return self._cloister.can_restore(snapshot)
