"""A small ledger of each version of the rules, kept for ever."""
