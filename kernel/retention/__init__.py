"""Moves what is old to the archive, and erases what is to be erased."""
