"""Defines values that everything else is made of: canonical forms, errors, spans, clocks."""
