"""The file conformance suite: what a session's files do, as sentences, through whichever door they are reached.

Parametrize a test over `ALL` and call `await behaviour.check(door)` with a door of a session whose files are empty but
for what `INITIAL` says. The host's own door is `HostDoor`; one through a program is made by whoever runs programs.
"""

from cloister.testing.behaviour import Behaviour
from cloister.testing.files.door import INITIAL, FileDoor, Found, HostDoor, Refusal, Stat
from cloister.testing.files.suite import ALL

__all__ = ["ALL", "INITIAL", "Behaviour", "FileDoor", "Found", "HostDoor", "Refusal", "Stat"]
