"""Takes an envelope through its checks, its effects and its seal, in one transaction."""
