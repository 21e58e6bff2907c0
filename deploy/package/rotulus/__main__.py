"""Runs the command `rotulus`; `python -m rotulus` is the same."""

from workers.cli.main import main

# A process that verifies a part of a ledger loads its parent's module under another name.
if __name__ == "__main__":
    main()
