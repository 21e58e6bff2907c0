"""Detection of implications: the port of a detector, and what one is shown of the log (§19.1)."""
