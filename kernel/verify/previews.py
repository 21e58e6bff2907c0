"""Checks an ephemeral preview against the salted commitment of its operation.

A preview that has expired is gone, and passes: the log can be folded without it.
"""

from kernel.ledger import schema
from kernel.ledger.answers import emitted_receipt_id
from kernel.ledger.store.tables import Row
from kernel.model.simulation import PREVIEW_EFFECT
from kernel.values.canonical import CanonicalizationError, canonicalize
from kernel.verify.log import keeps_commitment
from kernel.verify.reading import Reader, load_object

PAYLOAD_RECEIPT = "simulation_preview_payload"

_OWN_FIELDS = ("salt", "preview_payload")


def keeps_preview(row: Row, folded: Reader) -> bool:
    """Tell whether a preview's content is what its operation committed to."""
    operation_id = row["operation_id"]
    # A simulation emits its preview first.
    emitted = folded.get(schema.ephemeral_receipts, emitted_receipt_id(operation_id, 0))
    if emitted is None or emitted["receipt_kind"] != PREVIEW_EFFECT:
        return False
    document, twin = load_object(row["receipt_bytes"]), load_object(emitted["receipt_bytes"])
    if document is None or twin is None:
        return False
    try:
        salt, payload = (document[name] for name in _OWN_FIELDS)
        blob = {
            "salt": bytes.fromhex(salt),
            "content": canonicalize(payload),
            "blob_ref": twin["preview_state"]["preview_payload_commitment"],
        }
    except (KeyError, TypeError, ValueError, CanonicalizationError):
        return False
    expected = {
        "salt": salt,
        "preview_payload": payload,
        "preview_id": twin.get("preview_id"),
        "receipt_id": f"receipt:{operation_id}:payload",
        "receipt_kind": PAYLOAD_RECEIPT,
        "operation_id": operation_id,
        "emitted_at": twin.get("emitted_at"),
        "rules_version": twin.get("rules_version"),
        "schema_version": 1,
    }
    columns = ("receipt_id", "receipt_kind", "operation_id")
    return (
        keeps_commitment(blob)
        and row["receipt_bytes"] == canonicalize(expected)
        and all(row[name] == expected[name] for name in columns)
        and row["expires_at_us"] == emitted["expires_at_us"]
    )
