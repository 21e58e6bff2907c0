"""Defines source bindings and which source events concern them (§13); pure, without I/O."""
