"""Makes `python -m workers` the command `rotulus`; children of a tree are started this way."""

from workers.cli.main import main

# A process that verifies a part of a ledger loads its parent's module under another name.
if __name__ == "__main__":
    main()
