"""A request that was let in: who it is from, and what it is served with. Routes get it from the request's scope."""

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from cloister.server.service import Service
from cloister.server.tenants import row_tenant
from cloister.server.tokens import Token
from cloister.sessions import Session

KEY = "cloister"


@dataclass(frozen=True, slots=True)
class Visit:
    service: Service
    token: Token
    request_id: str

    @property
    def tenant(self) -> str:
        return self.token.tenant

    @property
    def owner(self) -> str:
        """The tenant, as rows have it."""
        return row_tenant(self.token.tenant)

    async def session(self, session_id: str) -> Session:
        """The session of that id, if it is of this tenant. Raises `SessionNotFound`."""
        return await self.service.session(self.token.tenant, session_id)


def visit_of(request: Request) -> Visit:
    return cast("Visit", request.scope[KEY])
