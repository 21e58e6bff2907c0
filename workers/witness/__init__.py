"""A door: a witness of logs (C2SP tlog-witness), which cosigns what goes on from what it saw."""
