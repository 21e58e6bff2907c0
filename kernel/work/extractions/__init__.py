"""Extractions that the runtime performs: how one is asked for, how it ends, what stands (§16)."""
