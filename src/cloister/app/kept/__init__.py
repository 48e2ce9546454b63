"""Sessions in a store, looked after without opening them: no tool, no engine and no plugin of theirs is needed.

Looking changes nothing and takes nothing over. A change is made as its owner makes one: the session is claimed for the
moment, which is refused while another process has it, and no cell of it goes on here.
"""

from cloister.app.kept.answering import Answered, answer, questions
from cloister.app.kept.belongings import Belongings, belongings, look_at
from cloister.app.kept.bench import Workbench
from cloister.app.kept.claimed import Claimed, claimed, found
from cloister.app.kept.copying import copy_belongings, moment_of
from cloister.app.kept.listing import Overview, overview, overviews

__all__ = [
    "Answered",
    "Belongings",
    "Claimed",
    "Overview",
    "Workbench",
    "answer",
    "belongings",
    "claimed",
    "copy_belongings",
    "found",
    "look_at",
    "moment_of",
    "overview",
    "overviews",
    "questions",
]
