"""The Tee contract: its messages, a store that speaks it, a service that answers it.

Generated code is committed, so that installing needs no compiler; a test generates it again. gRPC
is imported only where a Tee is spoken to.
"""
