"""The engine conformance suite: what every engine does, as sentences, each with a check.

Parametrize a test over `BEHAVIOURS` and call `await behaviour.check(Lab(engine))` with an entered engine.
"""

from cloister.testing.behaviour import Behaviour
from cloister.testing.conformance.lab import Lab
from cloister.testing.conformance.suite import BEHAVIOURS

__all__ = ["BEHAVIOURS", "Behaviour", "Lab"]
