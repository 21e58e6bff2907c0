"""The handlers, one for each queue."""
