"""Asking the record what happened and why, and taking it elsewhere; nothing here writes."""
