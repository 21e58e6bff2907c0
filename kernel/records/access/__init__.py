"""Says who may do what: principals, the table of actions, and grants and keys on the record."""
