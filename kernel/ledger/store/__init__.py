"""Defines the port of the tables, and what every store behind it shares."""
