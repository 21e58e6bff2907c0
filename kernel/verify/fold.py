"""State is a fold of the log: every envelope is applied again, to an empty ledger of its own.

That ledger is in memory while it is small and in a temporary file from some size on, so that what
a fold holds does not grow with the record (`kernel/ledger/spilling.py`).

Each row is applied by the rules of the version that it seals; one of a version that this program
does not have ends the fold.

What a row did is compared while it is folded (its effects, its receipts); what all of them came to
is compared at the end, in both directions. What no row causes comes from the chain of receipts
(`causeless.py`).
"""

from collections.abc import Callable

from pydantic import ValidationError
from sqlalchemy import Table

from kernel.apply import AppliedEffects
from kernel.authority.strategy import AuthorityStrategy
from kernel.errors import EffectInapplicable
from kernel.host import Host
from kernel.ledger import schema
from kernel.ledger.effects import effect_row
from kernel.ledger.ledger import LEDGER_ID, Head, Ledger
from kernel.ledger.recent_changes import RecentChanges
from kernel.ledger.spilling import SpillingStore
from kernel.ledger.tables import Row
from kernel.model.envelope import Envelope
from kernel.model.lite import LITE_INTENT
from kernel.rules import rules_of
from kernel.verify.causeless import Causeless
from kernel.verify.hash_chains import GENESIS, is_of_a_replay, sha256_hex
from kernel.verify.log import emitted_receipts, keeps_commitment
from kernel.verify.names import check_receipt
from kernel.verify.previews import PAYLOAD_RECEIPT, keeps_preview
from kernel.verify.reading import Document, Reader, joined, load_object, time_us

_COMPARED = (
    *schema.STATE_TABLES,
    *schema.FOLDED_TABLES,
    schema.outbox,
    schema.outbox_outcomes,
    schema.queue_pauses,
    schema.pre_images,
)
_CHAIN_FIELDS = ("receipt_sequence", "prior_receipt_hash")


class Fold:
    """One replay of the log into an empty ledger, compared with what is stored."""

    def __init__(self, reader: Reader, strategy: AuthorityStrategy) -> None:
        self._reader = reader
        self._strategy = strategy
        self._ledger = Ledger.create(SpillingStore(), Host(lambda: 0, _no_randomness))
        self._causeless = Causeless(reader, self._ledger)
        self._changes = RecentChanges(0)
        self._sealed: tuple[object, int] = (GENESIS, 0)

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
        self._causeless = Causeless(reader, self._ledger, after=after.receipt_sequence)
        return self.fold(lambda: None, after=after.ec_sequence_number)

    def fold(self, progress: Callable[[], None], *, after: int | None = None) -> bool:
        """Fold the whole log and compare what each row did; tell whether all of it was folded."""
        for row in self._reader.pages(schema.kernel_event_log, after=after):
            sequence = row["ec_sequence_number"]
            folded = False
            with self._reader.findings.guard(schema.kernel_event_log, sequence):
                folded = self._fold_row(row)
            if not folded:
                message = f"the state from row {sequence} on was not computed again"
                self._reader.findings.add(schema.kernel_event_log, sequence, "not_folded", message)
                return False
            progress()
        self._causeless.write_until(None)
        return True

    def _compare_state(self) -> None:
        with self._ledger.view() as view:
            for table in _COMPARED:
                self._compare(table, Reader(view.tables, self._reader.findings))
            self._compare_ephemeral(Reader(view.tables, self._reader.findings))

    def _fold_row(self, row: Row) -> bool:
        content, sequence = row["row_bytes"], row["ec_sequence_number"]
        document = load_object(content)
        if document is None or sha256_hex(content) != row["row_hash"]:
            return False
        rules = rules_of(document.get("rules_version"))
        blob = self._reader.get(schema.blobs, document.get("envelope_payload_blob_ref"))
        committed_at_us = time_us(document.get("committed_at"))
        if rules is None or committed_at_us is None:
            return False
        if blob is None or not keeps_commitment(blob):
            return False
        self._causeless.write_until(self._position(document.get("receipt_chain_head")))
        if document.get("semantic_intent") == LITE_INTENT:
            # A lite envelope does nothing; it only has a place in the order.
            with self._ledger.transaction() as transaction:
                transaction.head_now.ec_sequence_number = sequence
            return True
        try:
            envelope = rules.envelope.model_validate_json(blob["content"])
            with self._ledger.transaction() as transaction:
                transaction.head_now.committed_at_us = committed_at_us
                # No effects are written to this ledger for a recompute to look back over.
                transaction.changes = self._changes
                outcome = rules.apply(transaction, envelope, sequence, self._strategy)
                transaction.head_now.ec_sequence_number = sequence
                own = {"operation_id": envelope.operation_id}
                receipts = transaction.tables.select(schema.receipts, own)
        except (EffectInapplicable, ValidationError) as error:
            message = f"the state before it does not admit it: {error}"
            self._reader.findings.add(schema.kernel_event_log, sequence, "state_differs", message)
            return False
        self._compare_effects(sequence, outcome)
        self._compare_receipts(sequence, envelope, outcome, receipts)
        return True

    def _compare_effects(self, sequence: int, outcome: AppliedEffects) -> None:
        expected = [
            effect_row(sequence, ordinal, document)
            for ordinal, document in enumerate(outcome.applied_effects)
        ]
        where = {"ec_sequence_number": sequence}
        stored = {row["ordinal"]: row for row in self._reader.pages(schema.applied_effects, where)}
        for ordinal, row in enumerate(expected):
            if stored.get(ordinal) != row:
                message = "applying the envelope again has another effect"
                key = joined(sequence, ordinal)
                self._reader.findings.add(schema.applied_effects, key, "state_differs", message)
        for ordinal in sorted(stored.keys() - set(range(len(expected))), key=str):
            key = joined(sequence, ordinal)
            message = "applying the envelope again has no such effect"
            self._reader.findings.add(schema.applied_effects, key, "extra", message)

    def _compare_receipts(
        self, sequence: int, envelope: Envelope, outcome: AppliedEffects, folded: list[Row]
    ) -> None:
        stored = {
            row["receipt_id"]: row for row in emitted_receipts(self._reader, envelope.operation_id)
        }
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
        record = self._reader.get(schema.idempotency_records, sequence)
        kinds = " ".join(receipt["receipt_kind"] for receipt in outcome.receipts)
        if record is not None and record["emitted_receipts"] != kinds:
            message = "emitted_receipts are not those that applying it again emits"
            self._reader.findings.add(
                schema.idempotency_records, sequence, "column_differs", message
            )

    def _position(self, receipt_hash: object) -> int:
        if receipt_hash != self._sealed[0]:
            where = {"receipt_hash": receipt_hash}
            receipts = self._reader.select(schema.receipts, where, limit=1)
            if receipts:
                self._sealed = (receipt_hash, receipts[0]["receipt_sequence"])
        return self._sealed[1]

    # --- the end state -----------------------------------------------------------------------

    def _compare(self, table: Table, folded: Reader) -> None:
        key_column = table.primary_key.columns[0].name
        stored_rows = 0
        for row in self._reader.pages(table, order_by=key_column):
            key = row[key_column]
            stored_rows += 1
            twin = folded.get(table, key)
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
            key = row[key_column]
            if self._reader.get(table, key) is None:
                message = f"the log gives it{self._last_effect(table, key)}"
                self._reader.findings.add(table, key, "missing", message)

    def _compare_ephemeral(self, folded: Reader) -> None:
        """Compare what is left of the ephemeral receipts: they go after their time.

        A replay's receipt belongs to no operation and is held against its own bytes alone.
        """
        for row in self._reader.pages(schema.ephemeral_receipts):
            document = load_object(row["receipt_bytes"])
            key, table = row["receipt_id"], schema.ephemeral_receipts
            if document is not None and not check_receipt(self._reader, table, key, document):
                continue
            twin = folded.get(schema.ephemeral_receipts, row["receipt_id"])
            if twin is None and is_of_a_replay(row):
                continue
            if twin is None and row["receipt_kind"] == PAYLOAD_RECEIPT:
                if not keeps_preview(row, folded):
                    message = "no simulation on the log committed to this content"
                    self._reader.findings.add(
                        schema.ephemeral_receipts, row["receipt_id"], "state_differs", message
                    )
            elif twin is None:
                message = "the log gives no such receipt"
                self._reader.findings.add(
                    schema.ephemeral_receipts, row["receipt_id"], "extra", message
                )
            elif twin != row:
                message = "the log gives another receipt"
                self._reader.findings.add(
                    schema.ephemeral_receipts, row["receipt_id"], "state_differs", message
                )
        self._name_purged_early(folded)

    def _name_purged_early(self, folded: Reader) -> None:
        """Report receipts that went before their time: purging moves the record's clock past it."""
        head = self._reader.get(schema.chain_head, LEDGER_ID)
        now_us = 0 if head is None else head["committed_at_us"]
        for row in folded.pages(schema.ephemeral_receipts, order_by="expires_at_us"):
            key = row["receipt_id"]
            if row["expires_at_us"] < now_us:
                continue
            if self._reader.get(schema.ephemeral_receipts, key) is None:
                message = "the log gives it, and its time is not over"
                self._reader.findings.add(schema.ephemeral_receipts, key, "missing", message)

    def _last_effect(self, table: Table, key: object) -> str:
        where = {"store": str(table.name), "record_key": key}
        options = {"order_by": "ec_sequence_number", "descending": True, "limit": 1}
        rows = self._reader.select(schema.applied_effects, where, **options)
        return f"; last written at sequence {rows[0]['ec_sequence_number']}" if rows else ""


def _body_of(receipt: Row) -> Document | None:
    """Return what a receipt says without its place in the chain, which refusals share."""
    document = load_object(receipt["receipt_bytes"])
    if document is None:
        return None
    return {name: value for name, value in document.items() if name not in _CHAIN_FIELDS}


def _no_randomness(_: int) -> bytes:
    raise AssertionError("applying an operation takes no randomness")
