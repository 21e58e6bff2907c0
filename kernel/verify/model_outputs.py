"""Checks that each answer of a model commits to bytes that are there, or were collected.

The records themselves are a fold of the log (level B). Here are their payloads: one that is there
keeps its commitment, and one that is not has a durable receipt that says who erased it. Whoever
wanted it erased, of a thought or an answer, left one of another kind.
"""

from collections.abc import Iterator

from kernel.ledger import schema
from kernel.ledger.store.tables import Row
from kernel.verify.log import keeps_commitment
from kernel.verify.reading import Document, Reader, load_object, printable

_RECORDED = "recorded_model_output"
_COLLECTED = "recorded_model_output_collected"
_ERASED = "payload_erased"


def check_model_outputs(reader: Reader, erased: frozenset[object]) -> set[str]:
    """Check every answer and return the commitments of those that are there.

    `erased` are the commitments whose payloads are gone on the record.
    """
    collected = {
        (body.get("recorded_output_id"), body.get("output_payload_blob_ref"))
        for body in _receipts_of(reader, _COLLECTED)
    }
    present: set[str] = set()
    for row in reader.pages(schema.recorded_model_outputs):
        with reader.findings.guard(schema.recorded_model_outputs, row["recorded_output_id"]):
            if _repeats(reader, row):
                _check_answer(reader, row, collected, erased, present)
    for receipt in _receipts_of(reader, _RECORDED):
        key = receipt.get("recorded_output_id")
        if reader.get(schema.recorded_model_outputs, key) is None:
            message = f"{printable(receipt.get('receipt_id'))} says that it was recorded"
            reader.findings.add(schema.recorded_model_outputs, key, "missing", message)
    return present


def erased_payloads(reader: Reader) -> frozenset[object]:
    """Return the commitments of the payloads that were erased on the record (P6)."""
    return frozenset(body.get("commitment") for body in _receipts_of(reader, _ERASED))


def check_erased(reader: Reader, commitment: object, erased: frozenset[object]) -> None:
    """Name a payload that is there although the record says that it was erased."""
    if commitment in erased:
        message = "it was erased on the record, and is there"
        reader.findings.add(schema.blobs, commitment, "extra", message)


def _receipts_of(reader: Reader, kind: str) -> Iterator[Document]:
    for row in reader.pages(schema.receipts, {"receipt_kind": kind}):
        yield load_object(row["receipt_bytes"]) or {}


def _repeats(reader: Reader, row: Row) -> bool:
    key, record = row["recorded_output_id"], load_object(row["record"])
    if record is None:
        message = "record is not a JSON object"
        reader.findings.add(schema.recorded_model_outputs, key, "unreadable", message)
        return False
    for name in ("recorded_output_id", "output_payload_blob_ref"):
        if row[name] != record.get(name):
            message = (
                f"{name} is {printable(row[name])}, the record says {printable(record.get(name))}"
            )
            reader.findings.add(schema.recorded_model_outputs, key, "column_differs", message)
            return False
    return True


def _check_answer(
    reader: Reader,
    row: Row,
    collected: set[tuple[object, object]],
    erased: frozenset[object],
    present: set[str],
) -> None:
    key, blob_ref = row["recorded_output_id"], row["output_payload_blob_ref"]
    if blob_ref in present:
        return
    blob = reader.get(schema.blobs, blob_ref)
    if blob is None:
        if (key, blob_ref) not in collected and blob_ref not in erased:
            message = f"the answer of {printable(key)} is not there, and nobody collected it"
            reader.findings.add(schema.blobs, blob_ref, "missing", message)
        return
    present.add(blob_ref)
    check_erased(reader, blob_ref, erased)
    if not keeps_commitment(blob):
        message = "salt and content do not give the commitment"
        reader.findings.add(schema.blobs, blob_ref, "bytes_changed", message)
