"""Adapters over interpreters. Each speaks the engine port and nothing above it; they do not know each other."""
