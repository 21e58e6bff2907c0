"""A simulation that was asked for under the same key is answered as it was (K6)."""

import orjson

from kernel.ledger import schema
from kernel.ledger.answers import recall
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import SubmissionResult
from kernel.model.simulation import PAYLOAD_RECEIPT, PREVIEW_EFFECT, SimulationPreview
from kernel.model.simulation_payloads import PREVIEW_PAYLOADS


def earlier_preview(
    view: LedgerView, idempotency_key: str, request: str
) -> tuple[SubmissionResult, SimulationPreview | None] | None:
    """Return the first answer to the same request, None where there is none inside its window."""
    record = view.live_idempotency_record(idempotency_key)
    if record is None or record["content_digest"] != request:
        return None
    if record["expires_at_us"] <= view.head().committed_at_us:
        return None
    result = recall(view, record)
    return result, stored_preview(view, result.operation_id)


def stored_preview(view: LedgerView, operation_id: str) -> SimulationPreview | None:
    """Return a preview as it is on the record, without its content where that is gone.

    Raises:
        RangeQuarantined: the row of its operation is quarantined.
    """
    row = view.log_row_of(operation_id)
    if row is not None:
        view.quarantines().expect_none_over(row["ec_sequence_number"])
    envelope = view.envelope(operation_id)
    effects = (envelope or {}).get("primitive_effects") or ()
    stated = [
        effect["payload"] for effect in effects if effect.get("receipt_subkind") == PREVIEW_EFFECT
    ]
    if not stated or "preview_state" not in stated[0]:
        return None
    preview = {name: value for name, value in stated[0].items() if name != "retention_class"}
    state = dict(preview["preview_state"])
    if state.pop("preview_payload_commitment", None) is not None:
        state["preview_payload"] = _content(view, operation_id)
    model = PREVIEW_PAYLOADS[state["preview_kind"]]
    state["preview_payload"] = model.model_validate(state["preview_payload"])
    return SimulationPreview.model_validate({**preview, "preview_state": state})


def _content(view: LedgerView, operation_id: str) -> Document:
    where = {"operation_id": operation_id, "receipt_kind": PAYLOAD_RECEIPT}
    rows = view.tables.scan(TableQuery(schema.ephemeral_receipts, where, limit=1))
    if not rows:
        return {"records_left_out": True}
    content: Document = orjson.loads(rows[0]["receipt_bytes"])["preview_payload"]
    return content
