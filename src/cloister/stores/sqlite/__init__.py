"""The SQLite store: one file, one writer thread, a few reading ones. Knows `apsw`; nobody outside does.

store.py                         what the port promises, as one class that hands work to threads
opening.py, m001_initial.py      from a path to a connection: whose file it is, its permissions, its migrations
link.py, shapes.py               a connection; a row as columns, and back
writer.py, steps.py, receipt.py  the writer thread; a write as what it does for it; what `write` returns
reader.py, queries.py            the reading threads, and what is read
owners.py, upkeep.py, watch.py   leases; prune, collect, check; who waits for events
trouble.py                       what SQLite's errors mean
"""

from cloister.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
