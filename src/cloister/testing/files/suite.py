"""The behaviours, chapter by chapter."""

from cloister.testing.behaviour import Behaviour
from cloister.testing.files import changing, finding, naming, writing
from cloister.testing.files.door import FileDoor

ALL: list[Behaviour[FileDoor]] = [
    *naming.chapter.behaviours,
    *writing.chapter.behaviours,
    *changing.chapter.behaviours,
    *finding.chapter.behaviours,
]
