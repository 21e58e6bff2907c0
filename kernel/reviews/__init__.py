"""What a person, or the rule in place of one, decides about evidence (§13.6, §14.4)."""
