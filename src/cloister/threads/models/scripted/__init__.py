"""Answers from a file, for demos, tests and first runs: no key, no network, no provider.

    reading   a file as nodes that know their lines
    script    what the nodes say, checked
    model     the port: which answer is next, and whether it was asked what it expects

Which answer is next is read off the conversation, never remembered: a script goes on after a restart and in a fork.
"""

from cloister.threads.models.scripted.model import ScriptedModel
from cloister.threads.models.scripted.script import Script, parse_script, read_script

__all__ = ["Script", "ScriptedModel", "parse_script", "read_script"]
