"""The actor model: one actor for each session, its verbs and what it remembers."""
