"""Seals ranges of receipts: an operation states the root of the tree over them (§17.5).

A row of the log seals the head of the chain of receipts. A receipt behind the last row (the outcome
of a plug-in's job, a refusal) is under no tree head until another row follows, so a gateway asks
for this one. Ranges follow each other without a gap, so each receipt is in one range at most,
and its path there proves it under any checkpoint that has the row (decision kernel/0570).

The receipt of a seal says all that the operation says. Nothing else is stored, so the ranges are
read from the chain itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from kernel.algebra.verbs import RECEIPTS_SEAL
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import Row, TableQuery, TablesView
from kernel.model.receipt import sole_receipt
from kernel.model.stated_receipts import ReceiptsSealed
from kernel.proof.merkle_tree import Frontier, leaf_hash
from kernel.records.operation_steps import AppliedOperation
from kernel.values.errors import EffectInapplicable, LedgerCorrupt

RECEIPTS_SEALED = "receipts_sealed"

OUTCOME_RECEIPTS = ("work_request_closed", "authority_recompute_dead_lettered")
"""Kinds of receipt that are the outcome of a request, where no operation is."""

REQUEST_RECEIPT = "work_requested"

RANGE_MAX = 16_384
"""Receipts of one range."""

RECEIPTS_AT_ONCE = 1024
_SEALS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ReceiptRange:
    """A range of the chain of receipts, and the root of the tree over their hashes."""

    first: int
    last: int
    root: bytes

    @property
    def document(self) -> Document:
        """What the operation states of it."""
        return {
            "first_receipt": str(self.first),
            "last_receipt": str(self.last),
            "root_hash": self.root.hex(),
        }

    def is_before(self, receipt_sequence: int) -> bool:
        """Tell whether this is a range, of at most `RANGE_MAX` receipts before one."""
        width = self.last - self.first + 1
        return 1 <= width <= RANGE_MAX and self.first >= 1 and self.last < receipt_sequence

    @classmethod
    def of_receipt(cls, row: Row) -> "ReceiptRange":
        """Return the range that the receipt of a seal states.

        Raises:
            LedgerCorrupt: its bytes state none.
        """
        try:
            stated = orjson.loads(row["receipt_bytes"])
            first, last = int(stated["first_receipt"]), int(stated["last_receipt"])
            return cls(first, last, bytes.fromhex(stated["root_hash"]))
        except (ValueError, KeyError, TypeError) as error:
            message = f"receipt {row['receipt_sequence']} states no range of receipts"
            raise LedgerCorrupt(message) from error


def last_sealed_receipt(view: LedgerView) -> int:
    """Return the last receipt that is in a range, 0 before the first seal."""
    where = {"receipt_kind": RECEIPTS_SEALED}
    rows = view.tables.scan(TableQuery(schema.receipts, where, descending=True, limit=1))
    return ReceiptRange.of_receipt(rows[0]).last if rows else 0


def count_behind_the_log(view: LedgerView) -> int:
    """Return how many receipts stand behind the last row of the log, which seals those before.

    Raises:
        LedgerCorrupt: the row, or the receipt that it names, is not there.
    """
    head = view.head()
    if not head.ec_sequence_number:
        return head.receipt_sequence
    row = view.log_row_at(head.ec_sequence_number)
    if row is None:
        raise LedgerCorrupt(f"row {head.ec_sequence_number} of the log is missing")
    try:
        sealed = orjson.loads(row["row_bytes"])["receipt_chain_head"]
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerCorrupt(f"row {head.ec_sequence_number} of the log is damaged") from error
    if sealed == head.receipt_hash:
        return 0
    rows = view.tables.scan(TableQuery(schema.receipts, {"receipt_hash": sealed}, limit=1))
    return head.receipt_sequence - (rows[0]["receipt_sequence"] if rows else 0)


def range_to_seal(view: LedgerView, *, for_outcomes: bool = False) -> ReceiptRange | None:
    """Return the next range where one is due; linear in its receipts, of which it holds a page.

    One is due when receipts stand behind the last row of the log, or `RANGE_MAX` are in no range;
    with `for_outcomes` also when the outcome of a request, or what says that a producer asked for
    one, is in none. A seal's own row seals its
    own receipt, so it makes no other due.

    Raises:
        LedgerCorrupt: a receipt is missing.
    """
    last, first = view.head().receipt_sequence, last_sealed_receipt(view) + 1
    is_due = last - first + 1 >= RANGE_MAX or count_behind_the_log(view) > 0
    if not is_due and not (for_outcomes and _is_of_request(view, first)):
        return None
    return range_of(view, first, min(last, first + RANGE_MAX - 1))


def range_of(view: LedgerView, first: int, last: int) -> ReceiptRange:
    """Return a range with its root, as the receipts that are stored give it.

    Raises:
        LedgerCorrupt: a receipt is missing.
    """
    return ReceiptRange(first, last, root_between(view.tables, first, last))


def root_between(tables: TablesView, first: int, last: int) -> bytes:
    """Return the root over the receipts of a range, as they are stored; see `leaves_between`."""
    tree = Frontier()
    for leaves in leaves_between(tables, first, last):
        tree = tree.extend(leaves)
    return tree.root


def range_with(view: LedgerView, receipt_sequence: int) -> tuple[Row, ReceiptRange] | None:
    """Return the receipt of the seal whose range holds a receipt, and the range; None of none."""
    after, where = receipt_sequence, {"receipt_kind": RECEIPTS_SEALED}
    while True:
        rows = view.tables.scan(
            TableQuery(schema.receipts, where, after=after, limit=_SEALS_AT_ONCE)
        )
        for row in rows:
            sealed = ReceiptRange.of_receipt(row)
            if sealed.last >= receipt_sequence:
                return (row, sealed) if sealed.first <= receipt_sequence else None
        if len(rows) < _SEALS_AT_ONCE:
            return None
        after = rows[-1]["receipt_sequence"]


def leaves_of(view: LedgerView, sealed: ReceiptRange) -> list[bytes]:
    """Return the hashes of the leaves of a range, `RANGE_MAX` at most.

    Raises:
        LedgerCorrupt: a receipt is missing.
    """
    last = min(sealed.last, sealed.first + RANGE_MAX - 1)
    return [leaf for page in leaves_between(view.tables, sealed.first, last) for leaf in page]


def follows(view: LedgerView, sealed: ReceiptRange) -> bool:
    """Tell whether a range is the next one: it goes on from the seal before, and is on record."""
    is_next = sealed.first == last_sealed_receipt(view) + 1
    return is_next and sealed.is_before(view.head().receipt_sequence + 1)


def check_seal(operation: AppliedOperation) -> ReceiptRange:
    """Return the range that an operation states.

    Raises:
        EffectInapplicable: `receipts_seal_invalid`.
    """
    try:
        stated = sole_receipt(operation.envelope, RECEIPTS_SEALED, ReceiptsSealed)
    except ValueError as error:
        raise _invalid(str(error)) from None
    first, last = int(stated.first_receipt), int(stated.last_receipt)
    sealed = ReceiptRange(first, last, bytes.fromhex(stated.root_hash))
    if not sealed.is_before(last + 1):
        raise _invalid(f"a range has 1 to {RANGE_MAX} receipts, from the first one on")
    return sealed


def _invalid(message: str) -> EffectInapplicable:
    return EffectInapplicable(
        f"{RECEIPTS_SEAL}: {message}",
        code="receipts_seal_invalid",
        field="primitive_effects.0.payload",
    )


def _is_of_request(view: LedgerView, first: int) -> bool:
    """Tell whether a receipt from one on is of a request: that it was asked for, or its outcome."""
    return any(
        view.tables.scan(
            TableQuery(schema.receipts, {"receipt_kind": kind}, after=first - 1, limit=1)
        )
        for kind in (*OUTCOME_RECEIPTS, REQUEST_RECEIPT)
    )


def leaves_between(tables: TablesView, first: int, last: int) -> Iterator[list[bytes]]:
    """Yield the hashes of the leaves that receipts are, a page at a time.

    Raises:
        LedgerCorrupt: a receipt is missing.
    """
    after, names = first - 1, ("receipt_sequence", "receipt_hash")
    while after < last:
        limit = min(RECEIPTS_AT_ONCE, last - after)
        rows = tables.scan(TableQuery(schema.receipts, columns=names, after=after, limit=limit))
        if len(rows) < limit or rows[-1][0] != after + limit:
            raise LedgerCorrupt(f"receipts from {after + 1} to {after + limit} are not all there")
        yield [leaf_hash(bytes.fromhex(receipt_hash)) for _, receipt_hash in rows]
        after += limit
