"""Speaks Redis: connections, keys, scripts, refusals, and what replies say."""
