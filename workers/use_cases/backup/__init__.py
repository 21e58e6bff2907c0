"""Backups of a ledger and of what belongs to it, and their restore."""
