"""`cloister repl`: a session to type into. `prompt_toolkit` lives here only, and only where somebody types.

One rule keeps the screen in order: the prompt comes back when nothing runs any more. Every cell has then ended, waits
for a person's answer, or stands in line behind one that does.
"""

from cloister.cli.repl.loop import repl

__all__ = ["repl"]
