"""The runtime's own run (ruling L1): records of what the ledger says, made when they are asked for.

Nothing of it is stored but its seals (decision kernel/0474).
"""
