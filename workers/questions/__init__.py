"""Questions about the record, each declared once for every door."""
