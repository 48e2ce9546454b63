"""The way out of a cell: every call passes here, and there is no second way. Knows no engine and no session."""

from cloister.gate.gate import Budget, Gate, Outcome

__all__ = ["Budget", "Gate", "Outcome"]
