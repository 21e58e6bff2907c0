"""Decides about evidence by a person, or by the rule in place of one (§13.6, §14.4)."""
