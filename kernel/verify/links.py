"""Walks the log's chain the short way: numbers, hashes and links, nothing else.

Bytes are searched for the link instead of being read as JSON. That is exact: inside a JSON string
every quote is escaped, so the bytes that are looked for can only be a key and its value; and the
bytes are those that the row's hash, and so the next row, vouches for. A misfit is not judged here,
but by the walk that reads every row.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from kernel.ledger import schema
from kernel.ledger.store.tables import PAGE_ROWS, TableQuery, TablesView
from kernel.values.canonical import GENESIS_HASH

_READ = ("ec_sequence_number", "row_bytes", "row_hash", "prior_row_hash")
_KEY = '"prior_row_hash":"'
_KEY_BYTES = _KEY.encode()  # looked for alone and from the end, where it is found soonest


@dataclass(frozen=True, slots=True)
class Walk:
    """How far the chain holds, and where it stops holding."""

    rows: int
    tail_hash: str
    """SHA-256 of the last row that holds, 64 zeros where there is none."""

    broken_at: int | None = None
    """Number of the first row that does not follow the one before; None when all do."""


def walk_log(tables: TablesView, each: Callable[[bytes], None] | None = None) -> Walk:
    """Hash every row of the log in pages and compare number, hash and link with the row before.

    `each` is called with the bytes of every row that holds.
    """
    sequence, link = 0, GENESIS_HASH
    sha256 = hashlib.sha256
    while True:
        page = tables.scan(
            TableQuery(schema.kernel_event_log, columns=_READ, after=sequence, limit=PAGE_ROWS)
        )
        for number, content, stated_hash, prior_hash in page:
            if (
                number != sequence + 1
                or prior_hash != link
                or type(content) is not bytes
                or not content.startswith(f'{_KEY}{link}"'.encode(), content.rfind(_KEY_BYTES))
            ):
                return Walk(sequence, link, sequence + 1)
            row_hash = sha256(content).hexdigest()
            if row_hash != stated_hash:
                return Walk(sequence, link, sequence + 1)
            sequence, link = number, row_hash
            if each is not None:
                each(content)
        if len(page) < PAGE_ROWS:
            return Walk(sequence, link)
