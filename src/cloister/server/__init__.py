"""The door for HTTP: sessions, cells and what they hold, approvals and events, over one `Cloister`.

It decides who may come in and what is a well-formed request; what programs may do is decided below. Nobody else in the
code base knows FastAPI, Starlette or uvicorn.
"""

from cloister.server.application import make_application
from cloister.server.exposure import Exposure
from cloister.server.running import Ready, serve
from cloister.server.service import Service
from cloister.server.tokens import Scope, Token, TokenBook, load_tokens, own_token

__all__ = [
    "Exposure",
    "Ready",
    "Scope",
    "Service",
    "Token",
    "TokenBook",
    "load_tokens",
    "make_application",
    "own_token",
    "serve",
]
