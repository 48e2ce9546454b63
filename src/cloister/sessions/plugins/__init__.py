"""Plugins: what adds tools, sources, texts and hooks to a session, and keeps a state with it. Knows no app."""

from cloister.sessions.plugins.notes import Notes
from cloister.sessions.plugins.plugin import Contribution, Plugin, PluginContext, PluginInfo
from cloister.sessions.plugins.web import Web

__all__ = ["Contribution", "Notes", "Plugin", "PluginContext", "PluginInfo", "Web"]
