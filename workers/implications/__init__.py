"""Detection of implications in a fleet: one gateway runs the detectors, in a process of its own."""
