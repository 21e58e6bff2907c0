"""Sessions of thoughts and rounds on the record: what operations do to them, how they are read."""
