"""Conversation: threads, turns, and the models that drive them.

May know sessions and everything below. Never an engine, a store or a web framework; a provider's SDK only in `models`.
"""
