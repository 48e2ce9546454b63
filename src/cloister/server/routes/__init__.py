"""The routes, a file for each noun. They turn requests into calls of the runtime and what comes back into JSON."""

from cloister.server.routes.order import ROUTERS

__all__ = ["ROUTERS"]
