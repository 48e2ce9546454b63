"""All routes, in the order in which they are looked through."""

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
    threads,
    turns,
    values,
)

# Looked through in this order: what is asked for most comes first.
ROUTERS: tuple[APIRouter, ...] = (
    cells.routes,
    runtime.routes,
    sessions.routes,
    threads.routes,
    turns.routes,
    files.routes,
    values.routes,
    secrets.routes,
    attachments.routes,
    events.routes,
    approvals.routes,
    health.routes,
)

__all__ = ["ROUTERS"]
