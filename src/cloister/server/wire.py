"""The first to see what comes over a connection: uvicorn's reader on h11, whatever else is installed.

What is no request in HTTP never comes to the door. It is answered here as a problem like all others, once, and nothing
behind it is read; where an answer is under way already, the connection just ends.
"""

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from cloister.server.door import SECURE, new_request_id
from cloister.server.logs import access
from cloister.server.problems import MEDIA_TYPE, Problem

# Nothing of an answer has been sent.
_OWED = (h11.IDLE, h11.SEND_RESPONSE)


class Wire(H11Protocol):
    def send_400_response(self, msg: str) -> None:
        del msg
        if self.conn.our_state in _OWED:
            request_id = new_request_id()
            problem = Problem("MALFORMED", "this is no request in HTTP/1.1")
            body = problem.body(request_id)
            heads = [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
                (b"x-request-id", request_id.encode()),
                *SECURE,
            ]
            for event in (
                h11.Response(status_code=problem.status, headers=heads, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
            said = {"request_id": request_id, "method": "other", "route": "none", "status": problem.status}
            access.info("request", extra={"said": said})
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked for that; it is nothing to warn of."""
