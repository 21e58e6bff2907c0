"""Computes an operation's effects again and compares them with the record (kernel/0088).

The envelope is applied by the rules of the version that its row seals, to the state as it was just
before. The result must be the stored effects, byte for byte, and hash to what the row of the log
commits to. The row and the envelope are held against their hashes on the way. Receipts that the
effects emit and that are kept must be those on record. Nothing is written, nothing leaves the
process, and this module has no way to ask a model.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson

from kernel.authority.recompute_pages import ordinals_of, resolve_operation
from kernel.ledger import schema
from kernel.ledger.applied_effects import STATED, effect_in
from kernel.ledger.blob_commitment import blob_commitment
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import LARGE_ROWS, PAGE_ROWS, Row, TableQuery, TablesView
from kernel.ledger.supersession import in_force_at, is_lite, position_of
from kernel.model.envelope import KernelEffect, UndoneEffect
from kernel.model.receipt import MANIFEST_RECEIPT, Receipt
from kernel.records.record import Operation
from kernel.replay.asof import StateAsOf
from kernel.transaction.apply import Rules
from kernel.transaction.rules import rules_or_raise
from kernel.values.canonical import canonicalize, canonicalize_plain, sha256_hex
from kernel.values.errors import EffectInapplicable, LedgerCorrupt
from kernel.values.host import Host, parse_time_us
from kernel.work.manifests import differences

_CHAIN_FIELDS = ("receipt_sequence", "prior_receipt_hash")

_BAD_RECORD = (
    EffectInapplicable,
    LedgerCorrupt,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
)
"""Exceptions that reading a damaged record raises."""

_COLUMNS = ("ec_sequence_number", "ordinal", *STATED)


@dataclass(slots=True)  # not frozen: see `kernel.transaction.checks.check.Submission`
class Reproduction:
    """One operation computed again; for reading only."""

    ec_sequence_number: int
    """Of its place in the order: of a superseded one, that of the lite envelope."""

    operation_id: str
    causal_parent_operation_ids: tuple[str, ...] = ()
    recorded_model_outputs: tuple[Document, ...] = ()
    """The model outputs as the envelope states them."""

    erased: bool = False
    """The envelope was erased, so there was nothing to compute."""

    applied: bool = True
    """False for a lite envelope that was not migrated: it did nothing that could be repeated."""

    migrated: bool = False
    """It came as a lite envelope, so its causal parents are what an earlier version said."""

    request_id: str | None = None
    """The request of the recompute that was computed again, where not all of them were."""

    difference: str | None = None
    """What differs from the record; None where every byte agrees."""


class _Differs(Exception):
    pass


@dataclass(slots=True)
class _Recorded:
    """What the record says of one operation."""

    sequence: int
    document: Document
    envelope: Document | None
    effects: list[Document] = field(default_factory=list)


def reproduce(view: LedgerView, operation_id: str) -> Reproduction | None:
    """Compute one operation again, or one recompute by the id of its request.

    None is returned where it is not on the log.

    Raises:
        RulesVersionUnknown: when it was recorded under rules that this program does not have.
        RangeQuarantined: when its row is quarantined, or one that tells of the state that it met.
    """
    named = resolve_operation(view, operation_id)
    if named is None:
        return None
    expect_sound = view.quarantines().expect_none_over
    expect_sound(named.row["ec_sequence_number"])
    reproduction = _reproduce_alone(view, named.row, expect_sound, named.recompute_of)
    return (
        reproduction
        if named.recompute_of is None
        else replace(reproduction, request_id=operation_id)
    )


def reproduce_range(
    view: LedgerView, first: int, last: int, expect_sound: Callable[[int], None] = lambda _: None
) -> Iterator[Reproduction]:
    """Compute the operations of a range again, in sequence, both ends included.

    An operation that was superseded comes at its first place, as the superseding envelope has it.
    Each range stands on its own: what came before it is taken from the record. Memory is bounded
    by a page of rows and `RECORDS_KNOWN_MAX` records. `expect_sound` is told of each row that is
    read, and may refuse to have anything computed from it.

    Raises:
        LedgerCorrupt: when a row of the log is not there.
        RulesVersionUnknown: see `reproduce`.
    """
    run = _Run(view, first, expect_sound)
    after = max(0, first - 1)
    last = min(last, view.head().ec_sequence_number)
    while after < last:
        rows = view.log_rows(after=after, limit=min(LARGE_ROWS, last - after))
        run.read_envelopes(rows)
        for row in rows:
            after += 1
            expect_sound(after)
            if row["ec_sequence_number"] != after:
                raise LedgerCorrupt(f"row {after} of the log is missing")
            if position_of(row) != after:
                run.pass_over()
            elif is_lite(row):
                standing = in_force_at(view, row) or row
                expect_sound(standing["ec_sequence_number"])
                yield _reproduce_alone(view, standing, expect_sound)
            else:
                yield run.reproduce(row)
        if not rows:
            raise LedgerCorrupt(f"row {after + 1} of the log is missing")


def _reproduce_alone(
    view: LedgerView,
    row: Row,
    expect_sound: Callable[[int], None],
    recompute_of: str | None = None,
) -> Reproduction:
    """Compute an operation again, or one recompute, on the state that it met when applied."""
    if is_lite(row):
        parents = tuple(orjson.loads(row["row_bytes"])["causal_parent_operation_ids"])
        sequence, operation_id = row["ec_sequence_number"], row["operation_id"]
        return Reproduction(sequence, operation_id, parents, applied=False, migrated=True)
    run = _Run(view, row["ec_sequence_number"], expect_sound)
    run.read_envelopes([row])
    reproduction, position = run.reproduce(row, recompute_of), position_of(row)
    migrated = position != reproduction.ec_sequence_number
    return replace(reproduction, ec_sequence_number=position, migrated=migrated)


class _Run:
    """One walk along the log with the state beside it."""

    def __init__(self, view: LedgerView, first: int, expect_sound: Callable[[int], None]) -> None:
        self._view = view
        self._state = StateAsOf(view.tables, expect_sound)
        self._transaction = LedgerTransaction(self._state, Host(_no_time, _no_randomness))
        self._effects = RecordedEffects(view.tables, first)
        self._envelopes: dict[str, Row] = {}

    def read_envelopes(self, rows: list[Row]) -> None:
        """Read the stored envelopes of the rows that are reproduced next."""
        refs = [row["envelope_payload_blob_ref"] for row in rows]
        blobs = self._view.tables.scan(TableQuery(schema.blobs, any_of=("blob_ref", refs)))
        self._envelopes = {blob["blob_ref"]: blob for blob in blobs}

    def reproduce(self, row: Row, recompute_of: str | None = None) -> Reproduction:
        """Compute an operation again; of a page one recompute alone, where that is named."""
        sequence = row["ec_sequence_number"]
        difference, recorded = None, _Recorded(sequence, {}, None)
        try:
            recorded.effects = self._effects.of(sequence)
            recorded.document = _row_document(row)
            recorded.envelope = self._envelope(row)
            if recorded.envelope is not None:
                self._compare(recorded, recorded.envelope, recompute_of)
        except _Differs as differs:
            difference = str(differs)
        except _BAD_RECORD as error:
            difference = f"{type(error).__name__}: {error}"
        if difference is not None or recorded.envelope is None:
            self._state.forget()
        return Reproduction(
            sequence,
            row["operation_id"],
            tuple(recorded.document.get("causal_parent_operation_ids", ())),
            tuple((recorded.envelope or {}).get("recorded_model_outputs") or ()),
            erased=recorded.envelope is None and difference is None,
            difference=difference,
        )

    def pass_over(self) -> None:
        """Leave out a row that changed the state, and forget every known record."""
        self._state.forget()

    def _envelope(self, row: Row) -> Document | None:
        blob = self._envelopes.pop(row["envelope_payload_blob_ref"], None)
        if blob is None:
            return None
        if blob_commitment(blob["salt"], blob["content"]) != blob["blob_ref"]:
            raise _Differs("the envelope does not keep its commitment")
        envelope: Document = orjson.loads(blob["content"])
        return envelope

    def _compare(self, recorded: _Recorded, envelope: Document, recompute_of: str | None) -> None:
        self._state.begin(recorded.sequence, recorded.effects)
        stated = envelope["primitive_effects"]
        ordinals: Sequence[int] = range(len(stated))
        if recompute_of is not None:
            ordinals = ordinals_of(envelope, recompute_of)
        computed = self._apply(recorded, envelope, [stated[ordinal] for ordinal in ordinals])
        self._evaluate_again(stated)
        committed, committed_at = recorded.effects, recorded.document["committed_at"]
        for effect in committed:
            effect["applied_at"] = committed_at
        for ordinal, document in zip(ordinals, computed, strict=True):
            if ordinal >= len(committed) or committed[ordinal] != document:
                raise _Differs(f"effect {ordinal} is recorded otherwise")
        if len(stated) != len(recorded.effects):
            raise _Differs(f"effect {len(stated)} is recorded and was not computed")
        # What was computed is, effect for effect, what was recorded.
        contents = b",".join(map(canonicalize_plain, committed))
        if sha256_hex(b"[" + contents + b"]") != recorded.document["applied_effects_hash"]:
            raise _Differs("the row commits to other effects")

    def _evaluate_again(self, stated: Sequence[Document]) -> None:
        """Compute the outcomes of a manifest again, from it and its snapshots (§15.3)."""
        for effect in stated:
            if effect.get("receipt_subkind") == MANIFEST_RECEIPT and "cycle" in effect["payload"]:
                for difference in differences(self._view, effect["payload"]):
                    raise _Differs(difference)

    def _apply(
        self, recorded: _Recorded, envelope: Document, effects_stated: list[Document]
    ) -> list[Document]:
        transaction, committed_at = self._transaction, recorded.document["committed_at"]
        transaction.head_now.ec_sequence_number = recorded.sequence - 1
        transaction.forget_policy()
        rules = _rules_of(recorded)
        effects = rules.effects
        operation_id, receipts = envelope["operation_id"], 0

        # No reference back to the operation that holds it: each such cycle would be collected.
        def emit(receipt: Receipt) -> str:
            nonlocal receipts
            receipt_id = f"receipt:{operation_id}:{receipts}"
            receipts += 1
            if rules.receipts.retention_of(receipt) == "durable":
                self._compare_receipt(
                    receipt_id, receipt, operation_id, committed_at, effects.version
                )
            return receipt_id

        operation = Operation(
            transaction,
            operation_id,
            envelope["semantic_intent"],
            committed_at,
            recorded.sequence,
            emit,
        )
        computed = []
        for stated in effects_stated:
            effect = _effect_of(stated)
            if effect.external_effect_descriptor is not None:
                # Only a request that is not sent needs the clock.
                transaction.head_now.committed_at_us = parse_time_us(committed_at)
            applied = effects.apply(effect, operation)
            canonical_kind = effects.canonical_kind(effect.effect_kind)
            computed.append(applied.document(effect, canonical_kind, committed_at))
        return computed

    def _compare_receipt(
        self,
        receipt_id: str,
        receipt: Receipt,
        operation_id: str,
        emitted_at: str,
        rules_version: int,
    ) -> None:
        expected = {
            **receipt.body,
            "receipt_id": receipt_id,
            "receipt_kind": receipt.receipt_kind,
            "emitted_at": emitted_at,
            "rules_version": rules_version,
            "schema_version": 1,
            "operation_id": operation_id,
        }
        where = {"receipt_id": receipt_id}
        rows = self._view.tables.scan(TableQuery(schema.receipts, where, limit=1))
        stored = orjson.loads(rows[0]["receipt_bytes"]) if rows else {}
        for name in _CHAIN_FIELDS:
            stored.pop(name, None)
        if canonicalize(stored) != canonicalize(expected):
            raise _Differs(f"{receipt_id} is recorded otherwise")


@dataclass(slots=True)  # not frozen: see `kernel.transaction.checks.check.Submission`
class _RecordedEffect:
    """The fields of an effect that was validated when it was recorded; for reading only."""

    effect_id: str
    effect_kind: str
    target_ref: str | None
    receipt_subkind: str | None
    external_effect_descriptor: str | None
    payload: Document
    undoes: UndoneEffect | None

    def model_copy(self, *, update: Document) -> "_RecordedEffect":
        """Return the effect with other fields, as its model would."""
        return replace(self, **update)


def _effect_of(stated: Document) -> KernelEffect:
    """Return an effect as the stores read it; validating it would cost a fifth of the replay."""
    effect = _RecordedEffect(
        stated["effect_id"],
        stated["effect_kind"],
        stated.get("target_ref"),
        stated.get("receipt_subkind"),
        stated.get("external_effect_descriptor"),
        stated.get("payload", {}),
        UndoneEffect(**stated["undoes"]) if "undoes" in stated else None,
    )
    return cast("KernelEffect", effect)


def _rules_of(recorded: _Recorded) -> Rules:
    version, place = recorded.document["rules_version"], f"row {recorded.sequence} of the log"
    return rules_or_raise(version, place)


def _row_document(row: Row) -> Document:
    if sha256_hex(row["row_bytes"]) != row["row_hash"]:
        raise _Differs("the row does not hash to its row_hash")
    document: Document = orjson.loads(row["row_bytes"])
    for name in ("operation_id", "envelope_payload_blob_ref"):
        if document[name] != row[name]:
            raise _Differs(f"{name} is another in the bytes of the row")
    return document


def _no_time() -> int:
    raise AssertionError("replaying an operation takes no clock")


def _no_randomness(_: int) -> bytes:
    raise AssertionError("replaying an operation takes no randomness")


class RecordedEffects:
    """Applied effects as they are recorded, asked for in ascending sequence."""

    def __init__(self, tables: TablesView, first_sequence: int) -> None:
        self._tables = tables
        self._after = first_sequence - 1
        self._read: dict[int, list[list[Any]]] = {}
        self._ended = False

    def of(self, sequence: int) -> list[Document]:
        """Return the effects of an operation in their order; forgets those before it.

        Raises:
            AttributeError: when a hash is not stored as bytes.
        """
        while not self._ended and sequence > self._after:
            self._next_page()
        contents = self._read.pop(sequence, [])
        if len(contents) > 1:
            contents.sort()
        return [effect_in(values) for _, *values in contents]

    def _next_page(self) -> None:
        query = TableQuery(
            schema.applied_effects,
            columns=_COLUMNS,
            order_by="ec_sequence_number",
            after=self._after,
            limit=PAGE_ROWS,
        )
        rows = self._tables.scan(query)
        self._ended = len(rows) < PAGE_ROWS
        self._read = defaultdict(list)
        for sequence, *effect in rows:
            self._read[sequence].append(effect)
        if self._ended:
            return
        # The last operation may go on behind the page.
        last = rows[-1][0]
        if len(self._read) == 1:
            raise LedgerCorrupt(f"row {last} has more effects than an operation may have")
        del self._read[last]
        self._after = last - 1
