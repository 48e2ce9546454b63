"""Conversation: threads, turns, and the models that drive them.

May know sessions and everything below. Never an engine, a store or a web framework; a provider's SDK only in `models`.
"""

from cloister.threads.begun import Begun, ThreadList
from cloister.threads.client_tools import ClientTools, check_input_schema
from cloister.threads.driver import Driver, TurnEnd
from cloister.threads.open_turn import BudgetSpent, OpenTurn, SettledAnswer, compacted
from cloister.threads.projection import Projection
from cloister.threads.streams import Stream
from cloister.threads.threads import Threads

__all__ = [
    "Begun",
    "BudgetSpent",
    "ClientTools",
    "Driver",
    "OpenTurn",
    "Projection",
    "SettledAnswer",
    "Stream",
    "ThreadList",
    "Threads",
    "TurnEnd",
    "check_input_schema",
    "compacted",
]
