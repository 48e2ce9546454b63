"""The whole suite, in the order in which it is best read."""

from cloister.testing.conformance import asleep, calls, errors, limits, namespace, own, secrets, values
from cloister.testing.conformance.behaviour import Behaviour

BEHAVIOURS: list[Behaviour] = [
    behaviour
    for part in (values, namespace, calls, own, secrets, errors, limits, asleep)
    for behaviour in part.chapter.behaviours
]
