"""The store conformance suite: what every store does, as sentences, each with a check.

Parametrize a test over `ALL` (or those of its parts that a store can claim) and call `await behaviour.check(lab)` with
a fresh `StoreLab`. `cloister.testing.stores.history` compares a store with the one in memory; it needs hypothesis.
"""

from cloister.testing.behaviour import Behaviour
from cloister.testing.stores.lab import StoreLab
from cloister.testing.stores.suite import ALL, BEHAVIOURS, SHARED, SHARED_TIMED, TIMED

__all__ = ["ALL", "BEHAVIOURS", "SHARED", "SHARED_TIMED", "TIMED", "Behaviour", "StoreLab"]
