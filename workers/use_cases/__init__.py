"""Use cases that the HTTP interface and the command line share."""
