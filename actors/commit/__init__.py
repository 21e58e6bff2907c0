"""One transaction for many callers."""
