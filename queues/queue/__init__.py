"""Keeps the work queues: items, priorities, claims, and the relay of open requests."""
