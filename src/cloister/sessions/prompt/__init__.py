"""What a model is told about a session: texts, the order they stand in, and how they fit a budget. Runs nothing."""

from cloister.sessions.prompt.parts import SLOTS, PromptPart
from cloister.sessions.prompt.preamble import Preamble, PreambleWriter, tokens_of

__all__ = ["SLOTS", "Preamble", "PreambleWriter", "PromptPart", "tokens_of"]
