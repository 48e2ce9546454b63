"""Python cells on Monty. Knows pydantic-monty's sync pool, its workers and its dumps; nothing above the port."""

from cloister.engines.monty.engine import MontyEngine

__all__ = ["MontyEngine"]
