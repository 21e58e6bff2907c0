"""Benchmarks: scripts, not tests; each figure is a ratio to a peer or a raw limit of its run."""
