"""Detectors of implications: what they have read and emitted, and what is halted (§19.1)."""
