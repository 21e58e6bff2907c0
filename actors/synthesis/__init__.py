"""Asking a model, and reading its answer."""
