"""Going over a finished cell again: what is on record of it, and whether its program does the same once more.

Reads a store and uses an engine. Knows no tools and no people, calls nothing, writes nothing and needs no session.
"""

from cloister.sessions.replay.replay import replay_cell

__all__ = ["replay_cell"]
