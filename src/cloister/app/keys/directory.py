"""Where this installation keeps what lasts."""

import os
from pathlib import Path


def data_directory() -> Path:
    """`CLOISTER_DATA_DIR`, or the user's data directory."""
    chosen = os.environ.get("CLOISTER_DATA_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "cloister"
