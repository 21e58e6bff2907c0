"""Keeps the tables in a SQLite file."""
