"""For producers: work is asked for over HTTP, without Redis."""
