"""The files of one session: a tree of its own, real directories mounted in it, and two ways in.

`Files` is the host's way, `Files.door` a program's. What is in a store is said by `Book`. This room within a room knows
the store's rows, and neither cells nor stores.
"""

from cloister.sessions.files.book import Book, Page, files_at
from cloister.sessions.files.host import Files
from cloister.sessions.files.mounting import check_file_limits, parse_files, parse_mounts
from cloister.sessions.files.paths import MAX_PATH, normal_path

__all__ = [
    "MAX_PATH",
    "Book",
    "Files",
    "Page",
    "check_file_limits",
    "files_at",
    "normal_path",
    "parse_files",
    "parse_mounts",
]
