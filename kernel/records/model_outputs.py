"""Stores what models answered, and counts the operations that name each answer (§6.4).

An id names one output for ever: an operation that states it otherwise is refused. The answer's
bytes are a payload of their own, to which the record commits; they may be erased later, so nothing
here reads them. The count is the number of operations on the record that name the output and never
falls: what archiving released is told beside it (`kernel/retention/model_retention.py`).
"""

from kernel.ledger import schema
from kernel.ledger.ledger import Document
from kernel.model.model_output import RecordedModelOutput
from kernel.model.receipt import Receipt
from kernel.records.columns import columns_of
from kernel.records.operation_steps import AppliedOperation
from kernel.records.record import Operation
from kernel.records.typed import stamp
from kernel.values.canonical import canonicalize
from kernel.values.errors import EffectInapplicable

_OURS = frozenset({"reference_count", "state", "updated_by_operation_id", "updated_at"})

_ON_RECEIPT = (
    "recorded_output_id",
    "model_version",
    "model_provider",
    "fingerprint_combined",
    "output_payload_blob_ref",
)


def statement_of(output: RecordedModelOutput) -> Document:
    """Return what an envelope states of an output, defaults included."""
    return output.model_dump(mode="json", exclude_none=True)


def producer_fields(record: Document) -> Document:
    """Return what was stated of a recorded output, without what the kernel keeps beside it."""
    return {name: value for name, value in record.items() if name not in _OURS}


def record_model_outputs(operation: AppliedOperation) -> None:
    """Record new outputs, with a receipt each, and count one more reference for known ones.

    Raises:
        EffectInapplicable: when an id is on record, or stated twice, with something else.
    """
    counted: set[str] = set()
    for index, output in enumerate(operation.envelope.recorded_model_outputs):
        statement = statement_of(output)
        before = operation.transaction.record(
            schema.recorded_model_outputs, output.recorded_output_id
        )
        if before is not None and producer_fields(before) != statement:
            raise EffectInapplicable(
                f"{output.recorded_output_id} is another output",
                code="recorded_model_output_conflict",
                field=f"recorded_model_outputs.{index}",
            )
        if output.recorded_output_id in counted:
            continue
        counted.add(output.recorded_output_id)
        count = 1 if before is None else before["reference_count"] + 1
        _write(operation, {**statement, "reference_count": count, "state": "recorded"})
        if before is None:
            body = {name: statement[name] for name in _ON_RECEIPT}
            operation.emit(Receipt("recorded_model_output", body))


def _write(operation: Operation, stated: Document) -> None:
    table = schema.recorded_model_outputs
    record = {**stated, **stamp(operation)}
    operation.transaction.tables.put(
        table,
        {
            "recorded_output_id": record["recorded_output_id"],
            "record": canonicalize(record),
            **columns_of(table, record, operation.transaction),
        },
    )
