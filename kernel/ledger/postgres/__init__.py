"""Keeps the tables in PostgreSQL."""
