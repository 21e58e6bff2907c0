"""Undoing what is on the record, in three tiers (§5, K2, K17, K21).

1. An operation that is wholly reversible is undone by its inverse.
2. An epoch is undone as far as it goes: inverses, then compensations, and a receipt that names what
   persists outside.
3. The state is built again from the log and proved equal to it.

A plan says exactly what would happen and changes nothing; carrying it out is bound to its digest.
Nothing on the record is ever removed: undoing is a new operation.
"""
