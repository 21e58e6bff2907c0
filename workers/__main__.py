"""`python -m workers` is the command `rotulus`; children of a tree are started this way."""

from workers.cli.main import main

main()
