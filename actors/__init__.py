"""One actor a session: what is decided there is totally ordered, batched, and then committed."""
