"""Judges whether a reproduced operation may be called replayed (§6.3).

A recorded output must be there and eligible. Then the whole fingerprint is compared (K26): the
three parts give the combined hash, the envelope and the stored record say the same, and the
model's version is the one in use. `record_only` reproduces what was recorded in spite of a
mismatch and says so; `blocked_on_fingerprint_mismatch` stops.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import orjson

from kernel.ledger import schema
from kernel.ledger.blob_commitment import blob_commitment
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.supersession import position_of
from kernel.model.model_output import RecordedModelOutput, fingerprint
from kernel.model.replay import AuditReplayStrategy, BlockReason
from kernel.records.model_outputs import producer_fields, statement_of
from kernel.replay.reproduce import Reproduction, reproduce, reproduce_range
from kernel.values.model_registry import ModelRegistry


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """The result of replaying one operation, before a receipt of it is written."""

    operation_id: str
    ec_sequence_number: int | None
    """The operation's sequence; None where it is not on the log."""

    fingerprint_match: bool
    output_reproduced: bool
    block_reason: BlockReason | None = None
    recorded_model_version: str | None = None
    current_model_version: str | None = None
    recorded_output_id: str | None = None
    """The output that was not available, or whose fingerprint does not match."""

    blocked_by_operation_id: str | None = None
    request_id: str | None = None
    """The request of the recompute that alone was replayed."""

    difference: str | None = None
    """What is corrupt; then no other field is set."""


def replay_one(
    view: LedgerView, operation_id: str, strategy: AuditReplayStrategy, registry: ModelRegistry
) -> ReplayVerdict:
    """Replay one operation without leaving a trace; its causal parents count as replayed.

    A recompute is named by the id of its request, and alone of its page is replayed.

    Raises:
        RangeQuarantined: see `reproduce`.
    """
    reproduction = reproduce(view, operation_id)
    if reproduction is None:
        return ReplayVerdict(
            operation_id,
            None,
            fingerprint_match=False,
            output_reproduced=False,
            block_reason="operation_not_replayable",
        )
    verdict = judge(view, reproduction, strategy, registry)
    return replace(verdict, request_id=reproduction.request_id)


def replay_all(
    view: LedgerView,
    first: int,
    last: int,
    strategy: AuditReplayStrategy,
    registry: ModelRegistry,
) -> Iterator[ReplayVerdict]:
    """Replay a range without leaving a trace, in sequence.

    Every parent stands before its child (V4). One outside of the range counts as replayed; an
    operation whose parent in it was not is blocked and names it. A log of version 1.5 may name
    parents that it does not have, which count as replayed, or has later, which block. Holds an id
    for each operation.

    Raises:
        RangeQuarantined: when a row of the range is quarantined, or one that tells of the state
            before it.
    """
    replayed: dict[str, bool] = {}
    expect_sound = view.quarantines().expect_none_over
    for reproduction in reproduce_range(view, first, last, expect_sound):
        verdict = _after_parents(view, reproduction, replayed, last, strategy, registry)
        # Children do not stand on what was never applied.
        replayed[reproduction.operation_id] = verdict.output_reproduced or not reproduction.applied
        yield verdict


def judge(
    view: LedgerView,
    reproduction: Reproduction,
    strategy: AuditReplayStrategy,
    registry: ModelRegistry,
) -> ReplayVerdict:
    """Judge an operation whose parents were replayed."""
    if reproduction.difference is not None:
        return _verdict(reproduction, difference=reproduction.difference)
    if reproduction.erased or not reproduction.applied:
        return _verdict(reproduction, "operation_not_replayable")
    outputs = [
        RecordedModelOutput.model_validate_json(orjson.dumps(stated))
        for stated in reproduction.recorded_model_outputs
    ]
    standings = [(output, _Standing.of(view, output, registry)) for output in outputs]
    for output, standing in standings:
        if not standing.available:
            return _verdict(reproduction, "recorded_output_unavailable", output)
        if standing.corrupt:
            difference = f"the answer {output.output_payload_blob_ref} does not keep its commitment"
            return _verdict(reproduction, difference=difference)
    if not standings:
        return _verdict(reproduction, reproduced=True)
    drifted = [(output, standing) for output, standing in standings if not standing.matches]
    output, standing = (drifted or standings)[0]
    blocked = bool(drifted) and strategy == "blocked_on_fingerprint_mismatch"
    return ReplayVerdict(
        reproduction.operation_id,
        reproduction.ec_sequence_number,
        fingerprint_match=not drifted,
        output_reproduced=not blocked,
        block_reason="fingerprint_mismatch" if blocked else None,
        recorded_model_version=output.model_version,
        current_model_version=standing.current_version,
        recorded_output_id=output.recorded_output_id if drifted else None,
    )


@dataclass(frozen=True, slots=True)
class _Standing:
    """Whether a recorded output is available and eligible today."""

    available: bool
    corrupt: bool = False
    matches: bool = False
    current_version: str | None = None

    @classmethod
    def of(
        cls, view: LedgerView, output: RecordedModelOutput, registry: ModelRegistry
    ) -> "_Standing":
        record = view.record(schema.recorded_model_outputs, output.recorded_output_id)
        blob = view.tables.get(schema.blobs, output.output_payload_blob_ref)
        current = registry.current_version(output.model_version)
        if record is None or blob is None or current is None or not output.replay_eligible:
            return cls(available=False)
        return cls(
            available=True,
            corrupt=blob_commitment(blob["salt"], blob["content"]) != blob["blob_ref"],
            matches=_whole_fingerprint_matches(output, record, current),
            current_version=current,
        )


def _whole_fingerprint_matches(
    output: RecordedModelOutput, record: Document, current_version: str
) -> bool:
    parts = (output.model_version, output.prompt_hash, output.parameter_hash)
    return (
        fingerprint(*parts) == output.fingerprint_combined
        and producer_fields(record) == statement_of(output)
        and output.model_version == current_version
    )


def _verdict(
    reproduction: Reproduction,
    reason: BlockReason | None = None,
    output: RecordedModelOutput | None = None,
    *,
    difference: str | None = None,
    reproduced: bool = False,
) -> ReplayVerdict:
    return ReplayVerdict(
        reproduction.operation_id,
        reproduction.ec_sequence_number,
        fingerprint_match=reproduced,
        output_reproduced=reproduced,
        block_reason=reason,
        recorded_model_version=None if output is None else output.model_version,
        recorded_output_id=None if output is None else output.recorded_output_id,
        difference=difference,
    )


def _verdict_of_blocked(reproduction: Reproduction, parent: str) -> ReplayVerdict:
    return ReplayVerdict(
        reproduction.operation_id,
        reproduction.ec_sequence_number,
        fingerprint_match=False,
        output_reproduced=False,
        block_reason="operation_not_replayable",
        blocked_by_operation_id=parent,
    )


def _after_parents(
    view: LedgerView,
    reproduction: Reproduction,
    replayed: dict[str, bool],
    last: int,
    strategy: AuditReplayStrategy,
    registry: ModelRegistry,
) -> ReplayVerdict:
    verdict = judge(view, reproduction, strategy, registry)
    if verdict.difference is not None:
        return verdict
    for parent in reproduction.causal_parent_operation_ids:
        is_late = (
            reproduction.migrated
            and parent not in replayed
            and _is_later(view, parent, reproduction, last)
        )
        if is_late or not replayed.get(parent, True):
            return _verdict_of_blocked(reproduction, parent)
    return verdict


def _is_later(view: LedgerView, parent: str, child: Reproduction, last: int) -> bool:
    row = view.log_row_of(parent)
    return row is not None and child.ec_sequence_number <= position_of(row) <= last
