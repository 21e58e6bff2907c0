"""Reaches the language models that settings name."""
