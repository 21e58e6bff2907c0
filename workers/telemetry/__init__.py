"""Tells Prometheus and a collector of traces what the processes do."""
