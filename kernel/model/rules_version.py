"""States the version of the rules under which this program records (K30)."""

RULES_VERSION = 3
"""The newest entry of the table of rules; every log row and every receipt states its own."""
