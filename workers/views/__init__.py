"""JSON documents that any door may show."""
