"""Stands before every route: admission and the guard."""
