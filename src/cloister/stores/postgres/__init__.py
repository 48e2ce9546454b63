"""The store in PostgreSQL: one writer connection that commits in groups, a few for reading, one that listens.

It knows the ports and core, and nothing of who writes or what a doc means. `store.py` is the way in.
"""

from cloister.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
