"""Chains of rows: each row's bytes hold the hash of the row before.

The bytes are the truth. A row is sound when its bytes hash to its hash, its columns repeat its
bytes, its number is the next one and its prior hash is the hash of the row before it. If two sound
rows do not fit together, the next row decides which of them is the stranger: a row that its
successor names is the row that was there, so the one in front of it is not.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.store.tables import Row, TableQuery
from kernel.values.canonical import GENESIS_HASH, CanonicalizationError, canonicalize
from kernel.verify.names import check_receipt
from kernel.verify.reading import (
    Document,
    Findings,
    Reader,
    load_object,
    parts,
    printable,
    time_us,
)

_EPHEMERAL_US = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class ChainShape:
    """The names that a chain has in its table."""

    table: Table
    sequence: str
    prior: str
    hash: str
    content: str
    repeated: tuple[str, ...]
    """Columns that repeat a field of the bytes; null where the bytes hold no such text."""

    head_sequence: str
    head_hash: str
    """Columns of the head row where the chain's end is kept."""

    numbers: tuple[str, ...] = ()
    """Columns that repeat a number of the bytes."""


LOG = ChainShape(
    schema.kernel_event_log,
    "ec_sequence_number",
    "prior_row_hash",
    "row_hash",
    "row_bytes",
    (
        "prior_row_hash",
        "operation_id",
        "envelope_payload_blob_ref",
        "semantic_intent",
        "session_id",
        "commit_epoch_id",
        "committed_at",
    ),
    "ec_sequence_number",
    "row_hash",
    ("rules_version",),
)

RECEIPTS = ChainShape(
    schema.receipts,
    "receipt_sequence",
    "prior_receipt_hash",
    "receipt_hash",
    "receipt_bytes",
    ("prior_receipt_hash", "receipt_id", "receipt_kind", "reason_code", "operation_id"),
    "receipt_sequence",
    "receipt_hash",
)


class Chain:
    """One walk along a chain, row by row and to its head."""

    def __init__(self, shape: ChainShape, findings: Findings) -> None:
        self.rows = 0
        self.last = 0
        """Number of the newest row."""
        self.tail_hash = GENESIS_HASH
        """Hash of the newest row's bytes."""
        self._shape = shape
        self._findings = findings
        self._expected: str | None = GENESIS_HASH
        """What the next row names as its prior; None behind a row that is not sound."""
        self._prior_of_last: object = None
        self._misfit: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether no row waits for the next one to say whether it is a stranger."""
        return self._misfit is None

    def go_on_after(self, sequence: int, row_hash: str) -> None:
        """Begin after a row that was checked before, and not at the first."""
        self.last, self.tail_hash, self._expected = sequence, row_hash, row_hash

    def step(self, row: Row) -> Document | None:
        """Check the next row; return what its bytes say, None when they cannot be relied on."""
        shape, sequence = self._shape, row[self._shape.sequence]
        self.rows += 1
        self._check_number(sequence)
        content = row[shape.content]
        self.tail_hash = sha256_hex(content) if isinstance(content, bytes) else ""
        document = load_object(content)
        if self.tail_hash != row[shape.hash]:
            message = f"{shape.content} do not hash to {shape.hash}"
            self._findings.add(shape.table, sequence, "bytes_changed", message)
            document = None
        elif document is None:
            message = f"{shape.content} are not a JSON object"
            self._findings.add(shape.table, sequence, "unreadable", message)
        elif not self._repeats(row, document):
            document = None
        if document is None:
            self._settle(vouched=False)
            self._expected = self._prior_of_last = None
            return None
        self._check_link(sequence, document[shape.prior])
        self._check_canonical(sequence, content, document)
        self._expected, self._prior_of_last = self.tail_hash, document[shape.prior]
        return document

    def finish(self, head: Row, *, witness: str | None) -> None:
        """Compare the end of the chain with the head row.

        `witness` is the hash of the newest row as some other row remembers it; it decides whether
        the row or the head is the stranger.
        """
        shape = self._shape
        sequence, claimed = head[shape.head_sequence], head[shape.head_hash]
        if self._misfit is not None:
            self._settle(vouched=claimed == self.tail_hash)
        elif sequence != self.last and (claimed == self.tail_hash or not isinstance(sequence, int)):
            self._blame_head(shape.head_sequence, sequence, self.last)
        elif sequence > self.last:
            message = f"the head stands at {sequence}, the last row is {self.last}"
            self._findings.add(shape.table, self.last + 1, "missing", message)
        elif sequence < self.last:
            message = f"the head stands at {sequence}"
            self._findings.add(shape.table, sequence + 1, "extra", message)
        elif self._expected not in (None, claimed):
            if witness == claimed:
                message = "the head, and what was answered, name another row here"
                self._findings.add(shape.table, self.last, "link_broken", message)
            else:
                self._blame_head(shape.head_hash, claimed, self.tail_hash)

    def _blame_head(self, column: str, stored: object, is_: object) -> None:
        message = (
            f"{column} is {printable(stored)}, {self._shape.table.name} ends with {printable(is_)}"
        )
        self._findings.add(schema.chain_head, "main", "column_differs", message)

    def _check_number(self, sequence: int) -> None:
        if sequence < 1:
            self._findings.add(self._shape.table, sequence, "extra", "rows are numbered from 1")
            self._expected = None
            return
        if sequence > self.last + 1:
            self._settle(vouched=False)
            message = f"no rows from {self.last + 1} to {sequence - 1}"
            self._findings.add(self._shape.table, self.last + 1, "gap", message)
            self._expected = self._prior_of_last = None
        self.last = sequence

    def _repeats(self, row: Row, document: Document) -> bool:
        shape = self._shape
        pairs = [(name, row[name], _text(document.get(name))) for name in shape.repeated]
        pairs += [(name, row[name], document.get(name)) for name in shape.numbers]
        pairs.append((shape.sequence, str(row[shape.sequence]), document.get(shape.sequence)))
        for name, stored, stated in pairs:
            if stored != stated:
                message = f"{name} is {printable(stored)}, the bytes say {printable(stated)}"
                self._findings.add(shape.table, row[shape.sequence], "column_differs", message)
                return False
        return True

    def _check_link(self, sequence: int, prior: object) -> None:
        self._settle(vouched=prior == self._expected)
        if self._expected in (None, prior):
            return
        if prior == self._prior_of_last:
            message = f"rows {sequence - 1} and {sequence} follow the same row"
            self._findings.add(self._shape.table, sequence, "double_write", message)
        else:
            self._misfit = sequence

    def _settle(self, *, vouched: bool) -> None:
        """Report which of two rows that do not fit is the stranger, by the row after them."""
        if self._misfit is None:
            return
        sequence, self._misfit = self._misfit, None
        stranger = sequence - 1 if vouched and sequence > 1 else sequence
        message = f"row {sequence} does not follow row {sequence - 1} as it stands"
        self._findings.add(self._shape.table, stranger, "link_broken", message)

    def _check_canonical(self, sequence: int, content: bytes, document: Document) -> None:
        if not is_canonical(content, document):
            message = f"{self._shape.content} are not canonical JSON"
            self._findings.add(self._shape.table, sequence, "not_canonical", message)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def check_receipts(reader: Reader, chain: Chain) -> tuple[int, int]:
    """Walk the chain of receipts; return how many operations emitted, and the newest time."""
    emitted, before_us = 0, 0
    for row, around in _with_twins(reader):
        with reader.findings.guard(schema.receipts, row["receipt_sequence"]):
            emitted += is_emitted(row)
            document = chain.step(row)
            if document is None:
                continue
            check_receipt(reader, schema.receipts, row["receipt_sequence"], document)
            twins = around.scan(
                TableQuery(schema.receipts, {"receipt_id": row["receipt_id"]}, limit=2)
            )
            if len(twins) > 1:
                message = f"{row['receipt_id']} is there twice"
                reader.findings.add(
                    schema.receipts, row["receipt_sequence"], "double_write", message
                )
            emitted_us = time_us(document.get("emitted_at"))
            if emitted_us is None or emitted_us < before_us:
                message = f"emitted_at {printable(document.get('emitted_at'))} is not in order"
                reader.findings.add(
                    schema.receipts, row["receipt_sequence"], "order_broken", message
                )
            before_us = emitted_us or before_us
    return emitted, before_us


def _with_twins(reader: Reader) -> Iterator[tuple[Row, Reader]]:
    """Yield every receipt, and a reader that has looked for others with its id."""
    for part in parts(reader.pages(schema.receipts)):
        names = [row["receipt_id"] for row in part]
        around = reader.ahead((schema.receipts, "receipt_id", names))
        for row in part:
            yield row, around


def is_emitted(row: Row) -> bool:
    """Tell whether an operation on the log emitted a receipt, by the form of its id."""
    operation_id, receipt_id = row["operation_id"], row["receipt_id"]
    if operation_id is None or not isinstance(receipt_id, str):
        return False
    return receipt_id.startswith(f"receipt:{operation_id}:")


def is_of_a_replay(row: Row) -> bool:
    """Tell whether an ephemeral receipt is that of a replay, and its columns say what it says."""
    document = load_object(row["receipt_bytes"])
    if document is None or row["receipt_kind"] != "audit_replay" or is_emitted(row):
        return False
    emitted_us = time_us(document.get("emitted_at"))
    names = ("receipt_id", "receipt_kind", "operation_id")
    return (
        all(row[name] == document.get(name) for name in names)
        and document.get("original_operation_id") == row["operation_id"]
        and emitted_us is not None
        and row["expires_at_us"] == emitted_us + _EPHEMERAL_US
        and is_canonical(row["receipt_bytes"], document)
    )


def is_canonical(content: bytes, document: Document) -> bool:
    """Tell whether bytes are the canonical form of what they say."""
    try:
        return canonicalize(document) == content
    except CanonicalizationError:
        return False


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
