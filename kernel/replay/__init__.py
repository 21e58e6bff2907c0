"""Replay: what an operation did, done again from the record alone; no model is ever asked (§6)."""
