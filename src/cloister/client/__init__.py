"""What speaks to a Cloister server: the routes as methods, their answers as the types of the core, streams that come
back by themselves.

Knows the core and the wire, and nothing of what serves it: no session, no store and no model is in here. Needs the
extra `client`; `import cloister` does not import it.
"""

from cloister.client.answers import (
    Attachment,
    Begun,
    Catalog,
    FileAt,
    Outcome,
    Page,
    RuntimeInfo,
    StoredFile,
)
from cloister.client.asynchronous import AsyncClient
from cloister.client.errors import (
    AnswerUnreadable,
    EventsMissed,
    RequestRefused,
    ServerUnreachable,
)
from cloister.client.events import AsyncEventStream, EventStream
from cloister.client.retry import Retry
from cloister.client.synchronous import Client

__all__ = [
    "AnswerUnreadable",
    "AsyncClient",
    "AsyncEventStream",
    "Attachment",
    "Begun",
    "Catalog",
    "Client",
    "EventStream",
    "EventsMissed",
    "FileAt",
    "Outcome",
    "Page",
    "RequestRefused",
    "Retry",
    "RuntimeInfo",
    "ServerUnreachable",
    "StoredFile",
]
