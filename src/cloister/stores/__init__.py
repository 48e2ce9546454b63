"""What survives: adapters of the store ports. Imports ports and core only, and knows neither gate nor engine."""

from cloister.stores.memory import MemoryJournal

__all__ = ["MemoryJournal"]
