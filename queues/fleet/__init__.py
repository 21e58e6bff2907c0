"""Keeps the heartbeats of workers and the claims of their schedules."""
