"""The log's chain, walked the short way: numbers, hashes and links, nothing else.

Bytes are searched for the link instead of being read as JSON. That is exact: inside a JSON string
every quote is escaped, so the bytes that are looked for can only be a key and its value; and the
bytes are those that the row's hash, and so the next row, vouches for. What does not fit is not
judged here, but by the walk that reads every row.
"""

import hashlib
from dataclasses import dataclass

from kernel.ledger import schema
from kernel.ledger.tables import TablesView
from kernel.verify.chains import GENESIS
from kernel.verify.reading import PAGE_ROWS


@dataclass(frozen=True, slots=True)
class Walk:
    """How far the chain holds, and where it stops holding."""

    rows: int
    tail_hash: str
    """SHA-256 of the last row that holds, 64 zeros where there is none."""

    broken_at: int | None = None
    """Number of the first row that does not follow the one before; None when all do."""


def walk_log(tables: TablesView) -> Walk:
    """Hash every row of the log in pages and compare number, hash and link with the row before."""
    sequence, link = 0, GENESIS
    sha256 = hashlib.sha256
    while True:
        page = tables.select(schema.kernel_event_log, after=sequence, limit=PAGE_ROWS)
        for row in page:
            content = row["row_bytes"]
            follows = (
                row["ec_sequence_number"] == sequence + 1
                and isinstance(content, bytes)
                and b'"prior_row_hash":"%b"' % link.encode() in content
            )
            row_hash = sha256(content).hexdigest() if follows else ""
            if row_hash != row["row_hash"] or row["prior_row_hash"] != link:
                return Walk(sequence, link, sequence + 1)
            sequence, link = sequence + 1, row_hash
        if len(page) < PAGE_ROWS:
            return Walk(sequence, link)
