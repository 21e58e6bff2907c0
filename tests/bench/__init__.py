"""Benchmarks: scripts, not tests; every figure is a ratio to a peer or a raw limit of the same run."""
