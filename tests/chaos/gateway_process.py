"""A gateway as its operator starts it, that takes the witness's triggers for part of the schema."""

from tests.chaos import witness
from workers.cli.main import main

if __name__ == "__main__":
    witness.admit()
    main(["gateway"])
