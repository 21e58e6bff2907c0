"""Effects outside the process: performed after their commit, once, and reported to the record."""
