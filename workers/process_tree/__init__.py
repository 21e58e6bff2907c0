"""The parent of one machine's processes."""
