"""The HTTP door: translates requests into messages and answers into JSON; holds no rules."""
