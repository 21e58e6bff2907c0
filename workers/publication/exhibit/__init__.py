"""Writes a decision with its grounds as one page that verifies itself (decision workers/0490)."""
