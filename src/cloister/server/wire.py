"""The first to see what comes over a connection: uvicorn's reader on h11, whatever else is installed.

What is no request in HTTP never comes to the door, and neither does one whose head does not come whole in time. It is
answered here as a problem like all others, once, and nothing behind it is read; where an answer is under way already,
the connection just ends.
"""

import asyncio
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from cloister.core.serving import ServerLimits
from cloister.server.door import SECURE, new_request_id
from cloister.server.logs import access
from cloister.server.problems import MEDIA_TYPE, Problem

# Nothing of an answer has been sent.
_OWED = (h11.IDLE, h11.SEND_RESPONSE)


def wire_for(limits: ServerLimits) -> type["Wire"]:
    """For the connections of one server."""

    class Bounded(Wire):
        head_ms = limits.head_timeout_ms

    return Bounded


class Wire(H11Protocol):
    head_ms: int
    # Runs while the head of a request is waited for: of the first from the beginning, of another once some of it came.
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._unwatch_head()
        elif self._head_timer is None and self.conn.our_state is h11.IDLE and not self.transport.is_closing():
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch_head()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_ms / 1000, self._head_is_late)

    def _unwatch_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        begun, _ = self.conn.trailing_data
        if begun:
            self._refuse(Problem("UPLOAD_TIMEOUT", f"the head has not come whole within {self.head_ms} ms"))
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        del msg
        self._refuse(Problem("MALFORMED", "this is no request in HTTP/1.1"))

    def _refuse(self, problem: Problem) -> None:
        if self.conn.our_state in _OWED:
            request_id = new_request_id()
            body = problem.body(request_id)
            heads = [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
                (b"x-request-id", request_id.encode()),
                *SECURE,
            ]
            reason = HTTPStatus(problem.status).phrase.encode()
            for event in (
                h11.Response(status_code=problem.status, headers=heads, reason=reason),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            said = {"request_id": request_id, "method": "other", "route": "none", "status": problem.status}
            access.info("request", extra={"said": said})
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked for that; it is nothing to warn of."""
