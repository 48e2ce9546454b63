"""Snapshots keep the contents of files: a list of blobs as JSON."""

SCHEMA = """
ALTER TABLE snapshots ADD COLUMN blobs TEXT NOT NULL DEFAULT '[]';
"""
