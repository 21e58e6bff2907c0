"""Kits of hypotheses and probes, the adapters and oracles that play them, and who else has some."""
