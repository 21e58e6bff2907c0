"""Pipelines on the event loop: recording what they do (seed 003)."""
