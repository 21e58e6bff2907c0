"""Folds the log into the state: every envelope is applied again, to an empty ledger of its own.

That ledger is in memory while it is small and in a temporary file from some size on, so that what
a fold holds does not grow with the record (`kernel/ledger/store/spilling.py`).

Each row is applied by the rules of the version that it seals; one of a version that this program
does not have ends the fold.

A row's effects and receipts are compared while it is folded; what all of them came to is compared
at the end, in both directions. The chain of receipts gives what no row causes (`causeless.py`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from pydantic import ValidationError
from sqlalchemy import Table

from kernel.authority.read_ahead import Around, RecordKey, read_ahead
from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_row
from kernel.ledger.ledger import LEDGER_ID, Head, Ledger, LedgerTransaction
from kernel.ledger.recent_changes import RecentChanges
from kernel.ledger.store.keys import Values, key_names, values_getter
from kernel.ledger.store.spilling import SpillingStore
from kernel.ledger.store.tables import DuplicateKey, Row, TableQuery
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.model.envelope import Envelope
from kernel.model.lite import LITE_INTENT
from kernel.transaction.apply import AppliedEffects
from kernel.transaction.rules import rules_of
from kernel.values.canonical import GENESIS_HASH
from kernel.values.errors import EffectInapplicable, LedgerCorrupt
from kernel.values.host import Host
from kernel.verify.causeless import Causeless
from kernel.verify.hash_chains import is_of_a_replay, sha256_hex
from kernel.verify.log import emitted_receipts, keeps_commitment
from kernel.verify.names import check_receipt
from kernel.verify.previews import PAYLOAD_RECEIPT, keeps_preview
from kernel.verify.reading import (
    ROWS_AT_ONCE,
    Document,
    EndsReading,
    Reader,
    join_key,
    load_object,
    parts,
    time_us,
)

_COMPARED = (
    *schema.STATE_TABLES,
    *schema.FOLDED_TABLES,
    schema.outbox,
    schema.outbox_outcomes,
    schema.dead_letters,
    schema.request_tags,
    schema.bulk_operations,
    schema.queue_pauses,
    schema.queue_registrations,
    schema.access_grants,
    schema.access_keys,
    schema.archive_segments,
    schema.thought_segments,
    schema.pre_images,
)
_CHAIN_FIELDS = ("receipt_sequence", "prior_receipt_hash")

STEPS_AT_ONCE = 2 * ROWS_AT_ONCE
"""Rows, and receipts of no operation, that are folded in one transaction."""


class _NotWritten(EndsReading):
    """What several rows came to cannot stand beside each other; one of them is to blame."""


class _Steps:
    """The transactions of a fold: so many steps are written together."""

    def __init__(self, ledger: Ledger, changes: RecentChanges, at_once: int) -> None:
        self._ledger = ledger
        self._changes = changes
        self._at_once = at_once
        self._taken = 0
        self._open: LedgerTransaction | None = None
        self._context = ledger.transaction()

    @contextmanager
    def step(self) -> Iterator[LedgerTransaction]:
        """Fold one row; what it wrote is seen by the next one, whenever it reaches the store.

        Raises:
            _NotWritten: when steps of which each went well cannot be written.
        """
        if self._open is None:
            self._context = self._ledger.transaction()
            self._open = self._context.__enter__()
            # No effects are written to this ledger for a recompute to look back over.
            self._open.changes = self._changes
        self._taken += 1
        yield self._open
        if self._taken >= self._at_once:
            self.end()

    def end(self) -> None:
        """Write what is held back."""
        if self._open is None:
            return
        steps, self._taken, self._open = self._taken, 0, None
        try:
            self._context.__exit__(None, None, None)
        except (DuplicateKey, LedgerCorrupt) as error:
            if steps == 1:
                raise
            raise _NotWritten from error

    def abandon(self) -> None:
        """Forget what is held back."""
        if self._open is not None:
            self._open = None
            with suppress(_Abandoned):
                self._context.__exit__(_Abandoned, _Abandoned(), None)


class _Abandoned(Exception):
    """Undoes a transaction."""


class Fold:
    """One replay of the log into an empty ledger, compared with what is stored."""

    def __init__(
        self, reader: Reader, strategy: AuthorityStrategy, *, at_once: int = STEPS_AT_ONCE
    ) -> None:
        self._reader = reader
        self._strategy = strategy
        self._begin(at_once)

    def _begin(self, at_once: int) -> None:
        self._at_once = at_once
        self._store = SpillingStore()
        self._ledger = Ledger.create(self._store, Host(lambda: 0, _no_randomness))
        self._changes = RecentChanges(0)
        self._steps = _Steps(self._ledger, self._changes, at_once)
        self._causeless = Causeless(self._reader, self._steps.step)
        self._sealed: tuple[object, int] = (GENESIS_HASH, 0)

    @property
    def ledger(self) -> Ledger:
        """The ledger into which the log is folded."""
        return self._ledger

    def close(self) -> None:
        """Forget what was folded."""
        self._ledger.close()

    def run(self, progress: Callable[[], None]) -> None:
        """Fold the whole log; the state is not compared where a row cannot be folded."""
        if self.fold(progress):
            self._compare_state()

    def go_on(self, reader: Reader, after: Head) -> bool:
        """Fold what was appended behind a head, as another snapshot has it; see `fold`."""
        self._reader = reader
        self._steps = _Steps(self._ledger, self._changes, 1)
        self._causeless = Causeless(reader, self._steps.step, after=after.receipt_sequence)
        return self._fold(lambda: None, after=after.ec_sequence_number, at_once=1)

    def fold(self, progress: Callable[[], None]) -> bool:
        """Fold the whole log and compare what each row did; tell whether all of it was folded."""
        entries = self._reader.findings.entries
        noted = len(entries)
        try:
            return self._fold(progress, at_once=self._at_once)
        except _NotWritten:
            # Row by row, so that the one that cannot be written is named.
            del entries[noted:]
            self.close()
            self._begin(1)
            return self._fold(lambda: None, at_once=1)

    def _fold(
        self, progress: Callable[[], None], *, at_once: int, after: int | None = None
    ) -> bool:
        rows = self._reader.pages(schema.kernel_event_log, after=after)
        for part in parts(rows):
            reader = self._reader if at_once == 1 else self._ahead(part)
            for row in part:
                sequence = row["ec_sequence_number"]
                folded = False
                with self._reader.findings.guard(schema.kernel_event_log, sequence):
                    folded = self._fold_row(reader, row)
                if not folded:
                    self._steps.abandon()
                    message = f"the state from row {sequence} on was not computed again"
                    log = schema.kernel_event_log
                    self._reader.findings.add(log, sequence, "not_folded", message)
                    return False
                progress()
        self._causeless.write_until(None)
        self._steps.end()
        return True

    def _ahead(self, rows: list[Row]) -> Reader:
        """Read what some rows of the log are compared with, and what they were applied to."""
        sequences = [row["ec_sequence_number"] for row in rows]
        reader = self._reader.ahead(
            (schema.blobs, "blob_ref", [row["envelope_payload_blob_ref"] for row in rows]),
            (schema.applied_effects, "ec_sequence_number", sequences),
            (schema.receipts, "operation_id", [row["operation_id"] for row in rows]),
            (schema.idempotency_records, "ec_sequence_number", sequences),
        )
        self._steps.end()
        if self._store.is_in_file:
            with self._steps.step() as transaction:
                read_ahead(transaction, _written_records(reader.read_ahead(schema.applied_effects)))
        return reader

    def _compare_state(self) -> None:
        with self._ledger.view() as view:
            for table in _COMPARED:
                self._compare(table, Reader(view.tables, self._reader.findings))
            self._compare_ephemeral(Reader(view.tables, self._reader.findings))

    def _fold_row(self, reader: Reader, row: Row) -> bool:
        content, sequence = row["row_bytes"], row["ec_sequence_number"]
        document = load_object(content)
        if document is None or sha256_hex(content) != row["row_hash"]:
            return False
        rules = rules_of(document.get("rules_version"))
        blob = reader.get(schema.blobs, document.get("envelope_payload_blob_ref"))
        committed_at_us = time_us(document.get("committed_at"))
        if rules is None or committed_at_us is None:
            return False
        if blob is None or not keeps_commitment(blob):
            return False
        self._causeless.write_until(self._position(document.get("receipt_chain_head")))
        if document.get("semantic_intent") == LITE_INTENT:
            # A lite envelope does nothing; it only has a place in the order.
            with self._steps.step() as transaction:
                transaction.head_now.ec_sequence_number = sequence
            return True
        try:
            envelope = rules.envelope.model_validate_json(blob["content"])
            with self._steps.step() as transaction:
                head = transaction.head_now
                head.committed_at_us = committed_at_us
                first = head.receipt_sequence + 1
                outcome = rules.apply(transaction, envelope, sequence, self._strategy)
                head.ec_sequence_number = sequence
                emitted = range(first, head.receipt_sequence + 1)
                receipts = [transaction.peek(schema.receipts, place) or {} for place in emitted]
        except (EffectInapplicable, ValidationError) as error:
            message = f"the state before it does not admit it: {error}"
            self._reader.findings.add(schema.kernel_event_log, sequence, "state_differs", message)
            return False
        self._compare_effects(reader, sequence, outcome)
        self._compare_receipts(reader, sequence, envelope, outcome, receipts)
        return True

    def _compare_effects(self, reader: Reader, sequence: int, outcome: AppliedEffects) -> None:
        expected = [
            effect_row(sequence, ordinal, document)
            for ordinal, document in enumerate(outcome.applied_effects)
        ]
        where = {"ec_sequence_number": sequence}
        stored = {row["ordinal"]: row for row in reader.pages(schema.applied_effects, where)}
        for ordinal, row in enumerate(expected):
            if stored.get(ordinal) != row:
                message = "applying the envelope again has another effect"
                key = join_key(sequence, ordinal)
                self._reader.findings.add(schema.applied_effects, key, "state_differs", message)
        for ordinal in sorted(stored.keys() - set(range(len(expected))), key=str):
            key = join_key(sequence, ordinal)
            message = "applying the envelope again has no such effect"
            self._reader.findings.add(schema.applied_effects, key, "extra", message)

    def _compare_receipts(
        self,
        reader: Reader,
        sequence: int,
        envelope: Envelope,
        outcome: AppliedEffects,
        folded: list[Row],
    ) -> None:
        stored = {row["receipt_id"]: row for row in emitted_receipts(reader, envelope.operation_id)}
        for row in folded:
            twin = stored.pop(row["receipt_id"], None)
            if twin is None:
                message = f"{row['receipt_id']} of row {sequence} is not there"
                self._reader.findings.add(schema.receipts, row["receipt_id"], "missing", message)
            elif _body_of(twin) != _body_of(row):
                message = f"applying row {sequence} again gives another receipt"
                key = twin["receipt_sequence"]
                self._reader.findings.add(schema.receipts, key, "state_differs", message)
        for row in stored.values():
            message = f"applying row {sequence} again emits no {row['receipt_id']}"
            self._reader.findings.add(schema.receipts, row["receipt_sequence"], "extra", message)
        record = reader.get(schema.idempotency_records, sequence)
        kinds = " ".join(receipt["receipt_kind"] for receipt in outcome.receipts)
        if record is not None and record["emitted_receipts"] != kinds:
            message = "emitted_receipts are not those that applying it again emits"
            self._reader.findings.add(
                schema.idempotency_records, sequence, "column_differs", message
            )

    def _position(self, receipt_hash: object) -> int:
        if receipt_hash != self._sealed[0]:
            where = {"receipt_hash": receipt_hash}
            receipts = self._reader.scan(TableQuery(schema.receipts, where, limit=1))
            if receipts:
                self._sealed = (receipt_hash, receipts[0]["receipt_sequence"])
        return self._sealed[1]

    # --- the end state -----------------------------------------------------------------------

    def _compare(self, table: Table, folded: Reader) -> None:
        key_column, key_of = key_names(table)[0], values_getter(key_names(table))
        stored_rows = 0
        for part in parts(self._reader.pages(table, order_by=key_column)):
            ahead = folded.ahead((table, key_column, [row[key_column] for row in part]))
            twins = {key_of(twin): twin for twin in ahead.read_ahead(table)}
            for row in part:
                key = _name_of(key_of(row))
                stored_rows += 1
                twin = twins.get(key_of(row)) or folded.get(table, *key_of(row))
                if twin is None:
                    message = f"the log gives no such record{self._last_effect(table, key)}"
                    self._reader.findings.add(table, key, "extra", message)
                elif twin != row:
                    names = ", ".join(name for name in row if row[name] != twin[name])
                    message = f"the log gives another {names}{self._last_effect(table, key)}"
                    self._reader.findings.add(table, key, "state_differs", message)
        if stored_rows == folded.count(table):
            return
        for row in folded.pages(table, order_by=key_column):
            key = _name_of(key_of(row))
            if self._reader.get(table, *key_of(row)) is None:
                message = f"the log gives it{self._last_effect(table, key)}"
                self._reader.findings.add(table, key, "missing", message)

    def _compare_ephemeral(self, folded: Reader) -> None:
        """Compare what is left of the ephemeral receipts: they go after their time.

        A replay's receipt belongs to no operation and is held against its own bytes alone.
        """
        for part in parts(self._reader.pages(schema.ephemeral_receipts)):
            names = [row["receipt_id"] for row in part]
            twins = folded.ahead((schema.ephemeral_receipts, "receipt_id", names))
            for row in part:
                self._compare_one_ephemeral(row, twins, folded)
        self._name_purged_early(folded)

    def _compare_one_ephemeral(self, row: Row, twins: Reader, folded: Reader) -> None:
        document = load_object(row["receipt_bytes"])
        key, table = row["receipt_id"], schema.ephemeral_receipts
        if document is not None and not check_receipt(self._reader, table, key, document):
            return
        twin = twins.get(table, key)
        if twin is None and is_of_a_replay(row):
            return
        if twin is None and row["receipt_kind"] == PAYLOAD_RECEIPT:
            if not keeps_preview(row, folded):
                message = "no simulation on the log committed to this content"
                self._reader.findings.add(table, key, "state_differs", message)
        elif twin is None:
            self._reader.findings.add(table, key, "extra", "the log gives no such receipt")
        elif twin != row:
            self._reader.findings.add(table, key, "state_differs", "the log gives another receipt")

    def _name_purged_early(self, folded: Reader) -> None:
        """Report receipts that went before their time: purging moves the record's clock past it."""
        head = self._reader.get(schema.chain_head, LEDGER_ID)
        now_us = 0 if head is None else head["committed_at_us"]
        table = schema.ephemeral_receipts
        # What was to last until a time that is over may be gone.
        rows = folded.pages(table, order_by="expires_at_us", after=now_us - 1)
        for part in parts(rows):
            reader = self._reader.ahead((table, "receipt_id", [row["receipt_id"] for row in part]))
            for row in part:
                if reader.get(table, row["receipt_id"]) is None:
                    message = "the log gives it, and its time is not over"
                    self._reader.findings.add(table, row["receipt_id"], "missing", message)

    def _last_effect(self, table: Table, key: object) -> str:
        where = {"store": str(table.name), "record_key": key}
        newest = TableQuery(
            schema.applied_effects, where, order_by="ec_sequence_number", descending=True, limit=1
        )
        rows = self._reader.scan(newest)
        return f"; last written at sequence {rows[0]['ec_sequence_number']}" if rows else ""


def _written_records(effects: Iterable[Row]) -> Iterator[RecordKey]:
    """Yield the records that effects say that they wrote, and what surrounds nodes."""
    for effect in effects:
        store, key = schema.STORES.get(effect["store"]), effect["record_key"]
        if store is None or not isinstance(key, str):
            continue
        yield (store, key)
        if store is schema.nodes:
            yield (Around.BELOW, key)


def _name_of(key: Values) -> object:
    return key[0] if len(key) == 1 else join_key(*key)


def _body_of(receipt: Row) -> Document | None:
    """Return what a receipt says without its place in the chain, which refusals share."""
    document = load_object(receipt["receipt_bytes"])
    if document is None:
        return None
    return {name: value for name, value in document.items() if name not in _CHAIN_FIELDS}


def _no_randomness(_: int) -> bytes:
    raise AssertionError("applying an operation takes no randomness")
