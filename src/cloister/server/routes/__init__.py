"""The routes, a file for each noun. They turn requests into calls of the runtime and what comes back into JSON."""

from fastapi import APIRouter

from cloister.server.routes import (
    approvals,
    attachments,
    cells,
    events,
    files,
    health,
    runtime,
    secrets,
    sessions,
    values,
)

ROUTERS: tuple[APIRouter, ...] = (
    runtime.routes,
    sessions.routes,
    cells.routes,
    files.routes,
    values.routes,
    secrets.routes,
    attachments.routes,
    events.routes,
    approvals.routes,
    health.routes,
)

__all__ = ["ROUTERS"]
