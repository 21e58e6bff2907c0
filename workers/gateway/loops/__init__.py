"""Runs what a gateway does by itself, each loop a file."""
