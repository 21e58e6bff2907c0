"""Clients of what a process speaks to: a gateway, a model."""
