"""The whole suite, in the order in which it is best read."""

from cloister.testing.behaviour import Behaviour
from cloister.testing.conformance import (
    asleep,
    calls,
    errors,
    filing,
    helping,
    leaving,
    limits,
    namespace,
    own,
    secrets,
    values,
)
from cloister.testing.conformance.lab import Lab

BEHAVIOURS: list[Behaviour[Lab]] = [
    behaviour
    for part in (values, namespace, calls, own, helping, filing, leaving, secrets, errors, limits, asleep)
    for behaviour in part.chapter.behaviours
]
