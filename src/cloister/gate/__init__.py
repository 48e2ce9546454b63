"""The way out of a cell: every call passes here, and there is no second way. Knows no engine and no session."""

from cloister.gate.approvals import ApprovalDesk
from cloister.gate.budget import Budget
from cloister.gate.gate import Gate, Wiring
from cloister.gate.hooks import Hooks
from cloister.gate.passage import Asked, Caller, Outcome, Passed, Scope
from cloister.gate.policy import Policy
from cloister.gate.secrets import Handles

__all__ = [
    "ApprovalDesk",
    "Asked",
    "Budget",
    "Caller",
    "Gate",
    "Handles",
    "Hooks",
    "Outcome",
    "Passed",
    "Policy",
    "Scope",
    "Wiring",
]
