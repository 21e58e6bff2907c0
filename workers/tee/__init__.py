"""The Tee contract: its messages, a store that speaks it, a service that answers it."""
