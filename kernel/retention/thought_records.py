"""Records and trees of thoughts leave the database once their round is cold (seed 002, tiers).

Of a cold round the roots stay, in the seals, and an index: which thoughts of a session lie in which
file. A round is cold once more rounds were sealed after it than are warm and all of its contents
have moved (`thought_contents.py`), so what a legal hold keeps stays whole. At most 256 thoughts of
a session are written into a file and read back on a snapshot; then, in one transaction, the index
has them, a durable receipt says so, and their records and the nodes that they give are deleted. A
step that was interrupted is taken again and comes to the same.

Nodes are not written: records give them (decision kernel/0491).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kernel.ledger import schema
from kernel.ledger.archive import Archive
from kernel.ledger.archive_segment import content_hash_of
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import TableQuery
from kernel.ledger.thought_segment import SegmentThought, pack_thoughts
from kernel.model.receipt import Receipt
from kernel.proof.eta_tree import eta_height, eta_index
from kernel.retention.thought_contents import FinishedRound, due_rounds, pages_of, round_is_moved
from kernel.thoughts.sessions import session_of
from kernel.values.errors import LedgerCorrupt

RECORDS_ARCHIVED = "thought_records_archived"
ROUND_COLD = "round_records_archived"


@dataclass(frozen=True, slots=True)
class WrittenRecords:
    """Thoughts of a session in a row, whose records lie in a file and are to be moved."""

    session_id: str
    round_number: int
    first_sequence: int
    last_sequence: int
    first_node: int
    last_node: int
    content_hash: str
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class ColdStatus:
    """How many rounds and thoughts are cold, and in how many bytes."""

    rounds_cold: int
    thoughts_cold: int
    thought_segments: int
    thought_stored_bytes: int


def cold_status(view: LedgerView) -> ColdStatus:
    """Return how much of the thoughts is cold; linear in the number of files."""
    rows = view.tables.scan(TableQuery(schema.thought_segments))
    return ColdStatus(
        view.tables.count(TableQuery(schema.receipts, {"receipt_kind": ROUND_COLD})),
        sum(row["last_sequence"] - row["first_sequence"] + 1 for row in rows),
        len(rows),
        sum(row["stored_bytes"] for row in rows),
    )


def nodes_through(sequence: int, count: int) -> int:
    """Return how many nodes of a session of `count` thoughts are known with its first ones."""
    if sequence == count:
        return eta_index(eta_height(count), 0, count) + 1
    return 2 * sequence - sequence.bit_count()


def prepare_records(
    view: LedgerView, archive: Archive, rounds_warm: int
) -> WrittenRecords | FinishedRound | None:
    """Write the next thoughts that are due into a file, and read it back; None where none are.

    Raises:
        ArchiveUnavailable: the archive does not answer, or gives back something else.
        LedgerCorrupt: the records would not be read back as they are.
    """
    for round_number in due_rounds(view, rounds_warm, ROUND_COLD):
        if not round_is_moved(view, round_number):
            continue
        for session_id, first, last in pages_of(view, round_number):
            where = {"session_id": session_id, "first_sequence": first}
            if not view.tables.scan(TableQuery(schema.thought_segments, where, limit=1)):
                return _archive_records(view, archive, session_id, round_number, first, last)
        return FinishedRound(round_number, ROUND_COLD)
    return None


def move_records(transaction: LedgerTransaction, written: WrittenRecords) -> int:
    """Take records and nodes that were written out of the database, on the record.

    Returns how many thoughts were moved, 0 where others have moved them.
    """
    tables, session_id = transaction.tables, written.session_id
    if tables.get(schema.thought_segments, written.content_hash) is not None:
        return 0
    transaction.next_commit_time_us()
    body = {
        "session_id": session_id,
        "round_number": written.round_number,
        "first_sequence": str(written.first_sequence),
        "last_sequence": str(written.last_sequence),
        "first_node": str(written.first_node),
        "last_node": str(written.last_node),
        "content_hash": written.content_hash,
        "stored_bytes": written.stored_bytes,
    }
    receipt_id = f"receipt:thoughts:{session_id}:{written.first_sequence}:cold"
    append_receipt(transaction, receipt_id, Receipt(RECORDS_ARCHIVED, body), None)
    apply_move(transaction, body)
    for sequence in range(written.first_sequence, written.last_sequence + 1):
        tables.delete(schema.thought_records, session_id, sequence)
    for index in range(written.first_node, written.last_node + 1):
        tables.delete(schema.merkle_nodes, session_id, index)
    return written.last_sequence - written.first_sequence + 1


def apply_move(transaction: LedgerTransaction, body: Document) -> None:
    """Write what a receipt says of a file; verification makes the same row of it."""
    places = ("first_sequence", "last_sequence", "first_node", "last_node")
    names = ("content_hash", "session_id", "stored_bytes")
    row = {name: body[name] for name in names} | {name: int(body[name]) for name in places}
    transaction.tables.put(schema.thought_segments, row)


THOUGHT_SEGMENT_WRITES: Mapping[str, Callable[[LedgerTransaction, Document], None]] = (
    MappingProxyType({RECORDS_ARCHIVED: apply_move})
)
"""By the kind of receipt."""


def _archive_records(
    view: LedgerView, archive: Archive, session_id: str, round_number: int, first: int, last: int
) -> WrittenRecords:
    thoughts = tuple(_thoughts(view, session_id, first, last))
    content = pack_thoughts(session_id, first, thoughts)
    content_hash = content_hash_of(content)
    archive.files.put(content_hash, content)
    held = archive.read_thoughts(content_hash)
    if (held.session_id, held.first_sequence, held.thoughts) != (session_id, first, thoughts):
        raise LedgerCorrupt(f"the thoughts of {session_id} are read back otherwise")
    count = session_of(view, session_id)["thought_count"]
    nodes = nodes_through(first - 1, count), nodes_through(last, count) - 1
    return WrittenRecords(session_id, round_number, first, last, *nodes, content_hash, len(content))


def _thoughts(view: LedgerView, session_id: str, first: int, last: int) -> Iterator[SegmentThought]:
    query = TableQuery(
        schema.thought_records,
        {"session_id": session_id},
        after=first - 1,
        limit=last - first + 1,
    )
    rows = view.tables.scan(query)
    if [row["thought_sequence"] for row in rows] != list(range(first, last + 1)):
        raise LedgerCorrupt(f"{session_id} lacks thoughts from {first} to {last}")
    for row in rows:
        yield SegmentThought(row["ec_sequence_number"], bytes(row["record_bytes"]))
