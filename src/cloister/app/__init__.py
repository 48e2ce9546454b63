"""The wiring: where adapters meet the kernel. The doors and the embedding API are built on this room only."""

from cloister.app.cloister import Cloister
from cloister.app.once import run_sync
from cloister.app.recovery import RecoveredCell, RecoveryReport
from cloister.app.runtime import LanguageRuntime
from cloister.app.spawn import SpawnOptions

__all__ = ["Cloister", "LanguageRuntime", "RecoveredCell", "RecoveryReport", "SpawnOptions", "run_sync"]
