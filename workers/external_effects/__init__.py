"""Effects outside the process: performed once, after their commit, and reported to the record."""
