"""The rules and the record: pure decisions over a ledger that is handed in."""
