"""Verifies the rows beside the chains: answers, requests, payloads, pre-images, policies, head.

None of them is hashed into a chain; each is held against the chained row that it belongs to, and a
row that belongs to none is found by counting. REFERENCE.md beside this file lists with its reason
what cannot be seen even so (decision kernel/0185).
"""

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.envelope import VOLATILE
from kernel.model.lite import LITE_INTENT
from kernel.values.canonical import canonicalize
from kernel.values.idempotency_keys import scoped_key
from kernel.verify.hash_chains import is_emitted, sha256_hex
from kernel.verify.log import emitted_receipts, keeps_commitment
from kernel.verify.reading import Document, Reader, join_key, load_object, parts, printable, time_us
from kernel.verify.thought_segments import thoughts_of_all

_US_PER_HOUR = 3_600_000_000
_CAUSES = "causal_parent_operation_ids"


def check_head(reader: Reader, newest_us: int) -> None:
    """Check that the head's clock is not behind what was recorded; the chains compare the rest."""
    for row in reader.pages(schema.chain_head):
        if row["ledger_id"] != "main":
            message = "a ledger has one head"
            reader.findings.add(schema.chain_head, row["ledger_id"], "extra", message)
            continue
        with reader.findings.guard(schema.chain_head, "main"):
            if row["committed_at_us"] < newest_us:
                message = "committed_at_us is before the newest row or receipt"
                reader.findings.add(schema.chain_head, "main", "column_differs", message)


def check_answers(reader: Reader, head: Row | None, checked: int | None) -> None:
    """Check that every operation has the answer that it was given, and that no other exists.

    `checked` is how many there are where somebody has compared them already.
    """
    results = checked or 0
    if checked is None:
        clock_us = 0 if head is None else head["committed_at_us"]
        for part in parts(reader.pages(schema.kernel_event_log)):
            results += check_row_answers(reader, part, clock_us)
    if reader.count(schema.idempotency_records) != results:
        _name_extra_answers(reader)


def _around(reader: Reader, rows: list[Row]) -> Reader:
    """Read the answers to some rows of the log, and what they are compared with, in one go."""
    table, sequences = schema.idempotency_records, [row["ec_sequence_number"] for row in rows]
    answers = reader.ahead((table, "ec_sequence_number", sequences)).read_ahead(table)
    return reader.ahead(
        (table, "ec_sequence_number", sequences),
        (table, "idempotency_key", [row["idempotency_key"] for row in answers]),
        (schema.blobs, "blob_ref", [row["envelope_payload_blob_ref"] for row in rows]),
        (schema.receipts, "operation_id", [row["operation_id"] for row in rows]),
    )


def check_row_answers(reader: Reader, rows: list[Row], clock_us: int) -> int:
    """Check the answers to some rows of the log and return how many there are."""
    around = _around(reader, rows)
    return sum(_check_row_answer(around, row, clock_us) for row in rows)


def _check_row_answer(reader: Reader, row: Row, clock_us: int) -> bool:
    """Check the answer to a row of the log; tell whether there is one."""
    document = load_object(row["row_bytes"])
    if document is None or document.get("semantic_intent") == LITE_INTENT:
        # Nobody was answered: a lite envelope was taken, not submitted.
        return False
    sequence = row["ec_sequence_number"]
    record = reader.get(schema.idempotency_records, sequence)
    if record is None:
        message = f"operation {printable(row['operation_id'])} has no answer on record"
        reader.findings.add(schema.idempotency_records, sequence, "missing", message)
        return False
    with reader.findings.guard(schema.idempotency_records, sequence):
        _check_answer(reader, row, document, record, clock_us)
    return True


def answer_row_hash(reader: Reader, sequence: int) -> str | None:
    """Return the row hash that the answer to a row's operation names, if there is one."""
    record = reader.get(schema.idempotency_records, sequence)
    return None if record is None else _hex_of(record["row_hash"])


def _check_answer(reader: Reader, row: Row, document: Document, record: Row, clock_us: int) -> None:
    key, table = record["ec_sequence_number"], schema.idempotency_records
    scoped = scoped_key(document.get("principal"), str(document.get("idempotency_key")))
    if record["idempotency_key"] != scoped:
        _differs(reader, table, key, "idempotency_key", record, scoped)
    if _hex_of(record["row_hash"]) != row["row_hash"]:
        _differs(reader, table, key, "row_hash", record, row["row_hash"])
    if not _is_digest_of(record["content_digest"], reader, document):
        message = "content_digest is not that of the envelope"
        reader.findings.add(table, key, "column_differs", message)
    _check_life(reader, record, time_us(document.get("committed_at")) or 0, clock_us)
    # Which of the kinds are durable follows from the receipts; the fold computes all of them.
    operation_id, kinds = document.get("operation_id"), record["emitted_receipts"].split(" ")
    durable = {
        receipt["receipt_id"]: receipt["receipt_kind"]
        for receipt in emitted_receipts(reader, operation_id)
    }
    answered = {f"receipt:{operation_id}:{place}": kind for place, kind in enumerate(kinds)}
    if not durable.items() <= answered.items():
        message = "emitted_receipts are not those on record"
        reader.findings.add(table, key, "column_differs", message)


def _check_life(reader: Reader, record: Row, submitted_at_us: int, clock_us: int) -> None:
    key, table = record["ec_sequence_number"], schema.idempotency_records
    if record["expires_at_us"] <= submitted_at_us:
        message = "expires_at_us is not after the operation"
        reader.findings.add(table, key, "column_differs", message)
    elif (record["expires_at_us"] - submitted_at_us) % _US_PER_HOUR:
        message = "expires_at_us is not whole hours after the operation, as every window is"
        reader.findings.add(table, key, "column_differs", message)
    if record["archived"] not in (0, key):
        _differs(reader, table, key, "archived", record, f"0 or {key}")
    elif record["archived"] == key and record["expires_at_us"] > clock_us:
        message = "archived before it expired"
        reader.findings.add(table, key, "column_differs", message)
    elif record["archived"] == 0:
        same_key = {"idempotency_key": record["idempotency_key"]}
        if any(row["ec_sequence_number"] > key for row in reader.scan(TableQuery(table, same_key))):
            message = "live, and there is a later one under its key"
            reader.findings.add(table, key, "double_write", message)


def _is_digest_of(content_digest: str, reader: Reader, document: Document) -> bool:
    """Tell whether a digest is that of a row's envelope, or of the intent that it states."""
    blob = reader.get(schema.blobs, document.get("envelope_payload_blob_ref"))
    envelope = None if blob is None else load_object(blob["content"])
    if envelope is None:
        return False
    if content_digest == str(envelope.get("intent_digest")):
        return True
    content = {name: value for name, value in envelope.items() if name not in VOLATILE}
    return content_digest == sha256_hex(canonicalize(content))


def _name_extra_answers(reader: Reader) -> None:
    for record in reader.pages(schema.idempotency_records, order_by="ec_sequence_number"):
        row = reader.get(schema.kernel_event_log, record["ec_sequence_number"])
        document = None if row is None else load_object(row["row_bytes"])
        if document is None or document.get("semantic_intent") == LITE_INTENT:
            sequence = record["ec_sequence_number"]
            message = "no row of the log has this answer"
            reader.findings.add(schema.idempotency_records, sequence, "extra", message)


def check_requests(reader: Reader, head: Row | None) -> tuple[int, int]:
    """Check that requests are numbered, say what their bytes say, and have one outcome or none.

    Returns how many are open and how many are closed.
    """
    counts = [0, 0]
    last = outcomes = 0
    for part in parts(reader.pages(schema.outbox, order_by="request_sequence")):
        names = [row["request_id"] for row in part]
        closings = reader.ahead((schema.outbox_outcomes, "request_id", names))
        for row in part:
            with reader.findings.guard(schema.outbox, row["request_id"]):
                if row["request_sequence"] != last + 1:
                    message = f"request_sequence is {row['request_sequence']} after {last}"
                    reader.findings.add(schema.outbox, row["request_id"], "gap", message)
                last = row["request_sequence"]
                outcome = closings.get(schema.outbox_outcomes, row["request_id"])
                outcomes += outcome is not None
                _check_request(reader, row, outcome)
                counts[1 if outcome is not None else 0] += 1
    if head is not None and head["request_sequence"] != last:
        _differs(reader, schema.chain_head, "main", "request_sequence", head, last)
    if reader.count(schema.outbox_outcomes) != outcomes:
        for row in reader.pages(schema.outbox_outcomes):
            if reader.get(schema.outbox, row["request_id"]) is None:
                message = "the outcome of a request that is not there"
                reader.findings.add(schema.outbox_outcomes, row["request_id"], "extra", message)
    return counts[0], counts[1]


def _check_request(reader: Reader, row: Row, outcome: Row | None) -> None:
    key = row["request_id"]
    document = load_object(row["request_bytes"])
    if document is None:
        message = "request_bytes are not a JSON object"
        reader.findings.add(schema.outbox, key, "unreadable", message)
        return
    fields = {"request_id": "request_id", "item_key": "target_cu_id"}
    for column, name in fields.items():
        if row[column] != document.get(name, row["item_key"]):
            _differs(reader, schema.outbox, key, column, row, document.get(name))
    if row["enqueued_at_us"] != time_us(document.get("enqueued_at")):
        _differs(reader, schema.outbox, key, "enqueued_at_us", row, document.get("enqueued_at"))
    if row["open"] != (0 if outcome is not None else 1):
        message = "open, with an outcome" if row["open"] else "closed, without an outcome"
        reader.findings.add(schema.outbox, key, "column_differs", message)


def check_extra_effects(reader: Reader, stated: int) -> None:
    """Name the effects that belong to no row, where there are more than the rows have."""
    if reader.count(schema.applied_effects) == stated:
        return
    for row in reader.pages(schema.applied_effects, order_by="ec_sequence_number"):
        if reader.get(schema.kernel_event_log, row["ec_sequence_number"]) is None:
            key = join_key(row["ec_sequence_number"], row["ordinal"])
            message = "the effect of a row that is not there"
            reader.findings.add(schema.applied_effects, key, "extra", message)


def check_extra_causes(reader: Reader, stated: int) -> None:
    """Name the causes that no row names, where there are more than the rows do."""
    if reader.count(schema.causal_parents) == stated:
        return
    for row in reader.pages(schema.causal_parents, order_by="ec_sequence_number"):
        name, sequence = row["parent_operation_id"], row["ec_sequence_number"]
        caused = reader.get(schema.kernel_event_log, sequence)
        document = None if caused is None else load_object(caused["row_bytes"])
        if document is None or name not in (document.get(_CAUSES) or ()):
            message = f"row {sequence} does not name it among its causes"
            reader.findings.add(schema.causal_parents, join_key(name, sequence), "extra", message)


def check_extra_receipts(reader: Reader, emitted: int, stated: int) -> None:
    """Name the receipts of operations that are not on the log."""
    if emitted == stated:
        return
    for row in reader.pages(schema.receipts):
        where = {"operation_id": row["operation_id"]}
        rows = reader.scan(TableQuery(schema.kernel_event_log, where)) if is_emitted(row) else [row]
        if all(row.get("semantic_intent") == LITE_INTENT for row in rows):
            message = f"emitted by {printable(row['operation_id'])}, which did nothing on the log"
            reader.findings.add(schema.receipts, row["receipt_sequence"], "extra", message)


def check_extra_blobs(reader: Reader, stated: int, answers: set[str]) -> None:
    """Name the payloads to which no row, thought or recorded output commits.

    `stated` is how many of those there are to which a row or a thought commits.
    """
    if reader.count(schema.blobs) == stated + len(answers):
        return
    blob_refs = {row["envelope_payload_blob_ref"] for row in reader.pages(schema.kernel_event_log)}
    blob_refs |= answers
    for row in thoughts_of_all(reader):
        document = load_object(row["record_bytes"]) or {}
        blob_refs.add(str(document.get("content_commitment")))
    for row in reader.pages(schema.blobs):
        if row["blob_ref"] not in blob_refs:
            remark = "" if keeps_commitment(row) else ", and it does not keep its commitment"
            message = f"no row commits to it{remark}"
            reader.findings.add(schema.blobs, row["blob_ref"], "extra", message)


def check_pre_images(reader: Reader) -> None:
    """Check that every kept state has the hash under which it is kept."""
    for row in reader.pages(schema.pre_images):
        content = row["content"]
        if not isinstance(content, bytes) or sha256_hex(content) != row["content_hash"]:
            message = "content does not hash to content_hash"
            reader.findings.add(schema.pre_images, row["content_hash"], "bytes_changed", message)


def _hex_of(digest: object) -> str | None:
    return digest.hex() if isinstance(digest, bytes) else None


def _differs(
    reader: Reader, table: Table, key: object, column: str, row: Row, expected: object
) -> None:
    message = f"{column} is {printable(row[column])}, the record gives {printable(expected)}"
    reader.findings.add(table, key, "column_differs", message)
