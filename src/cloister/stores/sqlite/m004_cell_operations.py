"""Cells have the keys under which clients asked for them."""

SCHEMA = """
ALTER TABLE cells ADD COLUMN operation_key TEXT;
CREATE INDEX cells_by_operation ON cells (session_id, operation_key) WHERE operation_key IS NOT NULL;
"""
