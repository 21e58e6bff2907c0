"""The gateway process: sessions, kernel, ledger, and the doors to them."""
