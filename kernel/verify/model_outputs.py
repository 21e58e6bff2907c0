"""What models answered: each record commits to bytes that are there, or were collected on record.

The records themselves are a fold of the log (level B). Here are their payloads: one that is there
keeps its commitment, and one that is not has a durable receipt that says who erased it.
"""

from kernel.ledger import schema
from kernel.verify.log import keeps_commitment
from kernel.verify.reading import Reader, load_object

_COLLECTED = "recorded_model_output_collected"


def check_model_outputs(reader: Reader) -> set[str]:
    """Check every answer and return the commitments of those that are there."""
    collected = _collected(reader)
    present: set[str] = set()
    for row in reader.pages(schema.recorded_model_outputs):
        key, blob_ref = row["recorded_output_id"], row["output_payload_blob_ref"]
        with reader.findings.guard(schema.recorded_model_outputs, key):
            blob = reader.get(schema.blobs, blob_ref)
            if blob is None:
                if (key, blob_ref) not in collected:
                    message = f"the answer of {key} is not there, and nobody collected it"
                    reader.findings.add(schema.blobs, blob_ref, "missing", message)
                continue
            if blob_ref not in present and not keeps_commitment(blob):
                message = "salt and content do not give the commitment"
                reader.findings.add(schema.blobs, blob_ref, "bytes_changed", message)
            present.add(blob_ref)
    return present


def _collected(reader: Reader) -> set[tuple[object, object]]:
    """Return the outputs that receipts name as collected, each with its commitment."""
    found = set()
    for row in reader.pages(schema.receipts, {"receipt_kind": _COLLECTED}):
        document = load_object(row["receipt_bytes"]) or {}
        output = (document.get("recorded_output_id"), document.get("output_payload_blob_ref"))
        found.add(output)
    return found
