"""The two-layer algebra: effect kinds below, semantic verbs above, both as data."""
