"""The Redis-compatible server that runs where none is configured."""
