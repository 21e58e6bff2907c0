"""The audit of pipelines: by which way each piece of work came to what it came to (seed 003)."""
