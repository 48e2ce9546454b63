"""What a session is: a namespace that lives on, the tools it may call, its limits, its snapshots."""

from cloister.sessions.session import Session, SessionOptions

__all__ = ["Session", "SessionOptions"]
