"""Where the keys of this installation come from: given in code, by the environment, by a command, or from a file.

Keys are never logged, never shown and never part of a message; their ids are.
"""

from cloister.app.keys.directory import data_directory
from cloister.app.keys.keys import Keys
from cloister.app.keys.ring_file import KEY_BYTES, FiledKey, RingFile

__all__ = ["KEY_BYTES", "FiledKey", "Keys", "RingFile", "data_directory"]
