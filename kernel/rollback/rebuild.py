"""Builds the state again from the log, and proves it equal to it: tier 3 (§5.4, kernel/0037).

The history is verified first: a log that does not hold is no ground to build on. Then every row is
folded into an empty ledger, and each stored record that differs is archived and replaced.

All of that is computed from a snapshot, while others write (`prepare_rebuild`). The transaction
that replaces what differs holds them off only for as long as it takes to verify and to fold what
was appended since, and to compare what that wrote (`rebuild`, decision kernel/0233).
The rebuild performs nothing outside and asks nobody to: requests are history and stay as they are.
The receipt names the effects outside that lie after the checkpoint as not performed again.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import Table
from typing_extensions import TypedDict

from kernel.algebra.effects import IRREVERSIBLE
from kernel.algebra.verbs import REBUILD
from kernel.ledger import schema
from kernel.ledger.ledger import Document, Head, LedgerTransaction, LedgerView
from kernel.ledger.store.catalog import STORAGE_RULES
from kernel.ledger.store.tables import PAGE_ROWS, Row, Store, TableQuery, TablesView, rows_in_pages
from kernel.ledger.supersession import is_lite
from kernel.model.receipt import receipt_effect
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.rollback.confirmation import Confirmable, Confirmations
from kernel.rollback.envelopes import envelope, scope_of
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import confirmed_operation_id
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import canonicalize, digest, sha256_hex
from kernel.values.errors import LedgerCorrupt
from kernel.values.host import iso_time
from kernel.values.idempotency_keys import runtime_key
from kernel.verify import verify
from kernel.verify.fold import Fold
from kernel.verify.reading import Finding, Findings, Reader
from kernel.verify.recent import AuditMark, audit_since

SKIPPED_MAX = 2_000
FINDINGS_MAX = 10_000


_REBUILT = (*schema.STATE_TABLES, *schema.FOLDED_TABLES, schema.pre_images)

_HISTORY = frozenset(
    {str(table.name) for table in schema.APPEND_ONLY_TABLES} | {"blobs", "chain_head"}
)

Archive = Callable[[bytes], None]
"""Keeps the records as they were before, in canonical JSON, before any is replaced."""


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """A stored record that is not what the log gives; None where there is none."""

    table: Table
    key: str
    stored: Row | None
    folded: Row | None

    def document(self) -> Document:
        """Return what was found, for the archive."""
        return {
            "store": str(self.table.name),
            "record_key": str(self.key),
            "stored": _printable(self.stored),
            "log_gives": _printable(self.folded),
        }


class ReplacedRecord(TypedDict):
    """A record that would be replaced."""

    store: str
    record_key: str


class RebuildPlanDocument(TypedDict):
    """Everything that a rebuild would do; `digest` is what is confirmed."""

    tier: int
    scope: str
    digest: str
    checkpoint_ec_sequence_number: str
    state_digest: str
    irreversible_skipped: list[Document]
    differences: list[ReplacedRecord]


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """Everything that a rebuild would do."""

    checkpoint_ec_sequence_number: int
    head_row_hash: str
    state_digest: str
    """The digest of the state that the log gives up to that head."""

    irreversible_skipped: tuple[Document, ...]
    differences: tuple[RecordDifference, ...]

    @property
    def scope(self) -> str:
        """The scope that a confirmation of this rebuild names."""
        return f"checkpoint:{self.checkpoint_ec_sequence_number}"

    @property
    def digest(self) -> str:
        """Hash of the checkpoint, of the log up to its head, and of what it gives."""
        return digest([3, self.scope, self.head_row_hash, self.state_digest])

    def document(self) -> RebuildPlanDocument:
        """Return the dry run as it leaves the process."""
        return {
            "tier": 3,
            "scope": self.scope,
            "digest": self.digest,
            "checkpoint_ec_sequence_number": str(self.checkpoint_ec_sequence_number),
            "state_digest": self.state_digest,
            "irreversible_skipped": list(self.irreversible_skipped),
            "differences": [
                {"store": str(difference.table.name), "record_key": difference.key}
                for difference in self.differences
            ],
        }


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A state that was built again."""

    plan: RebuildPlan
    submission: SubmissionResult

    def document(self) -> dict[str, Any]:
        """Return the form that leaves the process."""
        return {
            "result": "tier_3_rebuild_applied",
            "checkpoint_ec_sequence_number": str(self.plan.checkpoint_ec_sequence_number),
            "irreversible_skipped": list(self.plan.irreversible_skipped),
            "records_replaced": len(self.plan.differences),
            "state_digest": self.plan.state_digest,
            "submission": self.submission.document(),
        }


class Prepared:
    """A rebuild that was computed from a snapshot, with the fold of the log up to its head."""

    def __init__(self, plan: RebuildPlan, fold: Fold, head: Head) -> None:
        self.plan = plan
        """The plan as of the snapshot; a confirmation confirms it."""

        self._fold = fold
        self._head = head

    def close(self) -> None:
        """Forget what was folded."""
        self._fold.close()

    def catch_up(self, view: LedgerView) -> RebuildPlan:
        """Return the plan with what was appended since the snapshot.

        Raises:
            RollbackRefused, RangeQuarantined: see `plan_rebuild`.
        """
        if view.head() == self._head:
            return self.plan
        view.quarantines().expect_none()
        _expect_appended_soundly(view, self._head)
        noting = _NotingStore(self._fold.ledger.store)
        self._fold.ledger.store = noting
        findings = Findings(FINDINGS_MAX)
        whole = self._fold.go_on(Reader(view.tables, findings), self._head)
        _expect_folded(findings, whole=whole)
        places = {
            (difference.table, difference.key) for difference in self.plan.differences
        } | noting.written
        with self._fold.ledger.view() as folded:
            compared = (
                _difference(view.tables, folded.tables, table, key)
                for table, key in sorted(places, key=lambda place: (place[0].name, place[1]))
            )
            differences = tuple(difference for difference in compared if difference is not None)
        skipped = (
            *self.plan.irreversible_skipped,
            *_effects_outside(view, max(self._head.ec_sequence_number, self._checkpoint)),
        )
        if len(skipped) > SKIPPED_MAX:
            raise _skip_limit_refusal()
        return replace(self.plan, irreversible_skipped=skipped, differences=differences)

    @property
    def _checkpoint(self) -> int:
        return self.plan.checkpoint_ec_sequence_number


def plan_rebuild(kernel: Kernel, view: LedgerView, checkpoint: int) -> RebuildPlan:
    """Fold the log and say what would be replaced; holds in memory what differs.

    Raises:
        RollbackRefused: `rebuild_checkpoint_unknown`, `rebuild_record_damaged` when the history
            does not verify, `rules_version_unknown`, `rebuild_too_much_skipped` where a later
            checkpoint is needed.
        RangeQuarantined: a part of the log is quarantined.
    """
    with closing(prepare_rebuild(kernel, view, checkpoint)) as prepared:
        return prepared.plan


def prepare_rebuild(kernel: Kernel, view: LedgerView, checkpoint: int) -> Prepared:
    """Compute a rebuild from a snapshot; the caller closes what it gets.

    Raises:
        RollbackRefused, RangeQuarantined: see `plan_rebuild`.
    """
    view.quarantines().expect_none()
    head = view.head()
    if not 0 <= checkpoint <= head.ec_sequence_number:
        raise RollbackRefused(
            "rebuild_checkpoint_unknown", f"the log ends at {head.ec_sequence_number}"
        )
    history = verify(view, fold=False, limit_findings=FINDINGS_MAX, strategy=kernel.strategy)
    _expect_sound(
        [
            finding
            for finding in history.findings
            if finding.table in _HISTORY or finding.rule in STORAGE_RULES
        ]
    )
    findings = Findings(FINDINGS_MAX)
    fold = Fold(Reader(view.tables, findings), kernel.strategy)
    try:
        _expect_folded(findings, whole=fold.fold(lambda: None))
        with fold.ledger.view() as folded:
            plan = RebuildPlan(
                checkpoint,
                head.row_hash,
                state_digest(folded.tables),
                tuple(_effects_outside(view, checkpoint)),
                tuple(_differences(view.tables, folded.tables)),
            )
    except BaseException:
        fold.close()
        raise
    return Prepared(plan, fold, head.copy())


def rebuild(
    kernel: Kernel,
    transaction: LedgerTransaction,
    prepared: Prepared,
    *,
    confirmations: Confirmations,
    architect_confirmation_token: str | None,
    archive: Archive,
) -> Rebuild:
    """Replace every record that is not what the log gives, as it stands now.

    An architect's token is always needed. Durable when the caller's transaction is.

    Raises:
        RollbackRefused: see `plan_rebuild` and `Confirmations.check`; `confirmation_used`.
        LedgerCorrupt: when the receipt is refused; the transaction has to be abandoned.
    """
    confirmation_id = confirmations.check(
        "architect",
        architect_confirmation_token,
        Confirmable(3, prepared.plan.scope, prepared.plan.digest),
        now_us=transaction.host.now_us(),
    )
    operation_id = confirmed_operation_id(transaction, confirmation_id)
    plan = prepared.catch_up(transaction)
    if plan.differences:
        archive(canonicalize([difference.document() for difference in plan.differences]))
    for difference in plan.differences:
        if difference.folded is None:
            transaction.tables.delete(difference.table, difference.key)
        else:
            transaction.tables.put(difference.table, difference.folded)
    transaction.forget_policy()
    transaction.forget_overlays()
    transaction.forget_rollback()
    document = _envelope(transaction, plan, operation_id, confirmation_id)
    submission = kernel.submit(transaction, document, "orchestrator")
    if isinstance(submission, RejectedResult):
        raise LedgerCorrupt(f"the receipt is refused: {submission.rejection.message}")
    return Rebuild(plan, submission)


def state_digest(tables: TablesView) -> str:
    """Return the hash of every record of state, in the order of stores and keys."""
    digest_of_all, separator = hashlib.sha256(), ""
    for table in (*schema.STATE_TABLES, *schema.FOLDED_TABLES):
        for row in _rows(tables, table):
            part = f"{separator}{table.name}|{row[_key_name(table)]}|{_row_hash(row)}"
            digest_of_all.update(part.encode())
            separator = "\n"
    return digest_of_all.hexdigest()


def _expect_appended_soundly(view: LedgerView, head: Head) -> None:
    """Verify the chains behind a head that was verified, whatever their length."""
    mark = AuditMark(
        head.ec_sequence_number, head.row_hash, head.receipt_sequence, head.receipt_hash
    )
    now = view.head()
    appended = (now.ec_sequence_number - mark.ec_sequence_number) + (
        now.receipt_sequence - mark.receipt_sequence
    )
    audit = audit_since(view, mark, rows_max=appended + 1)
    _expect_sound(list(audit.verification.findings))
    if not audit.mark_fits:
        raise RollbackRefused(
            "rebuild_record_damaged", "the log does not hold the row from which the plan was made"
        )


def _expect_folded(findings: Findings, *, whole: bool) -> None:
    _expect_sound(findings.entries)
    if not whole:
        raise LedgerCorrupt("the log was not folded, and nothing was found")


def _expect_sound(findings: Sequence[Finding]) -> None:
    if findings:
        first = findings[0]
        if first.rule == "rules_unknown":
            raise RollbackRefused("rules_version_unknown", first.message)
        raise RollbackRefused(
            "rebuild_record_damaged",
            f"the history does not hold: {first.table} {first.key}: {first.message}",
            findings=len(findings),
        )


def _effects_outside(view: LedgerView, checkpoint: int) -> Iterator[Document]:
    """Return the effects outside after the checkpoint, which are not performed again."""
    count = 0
    after = checkpoint
    while rows := view.log_rows(after=after, limit=PAGE_ROWS):
        for row in rows:
            if is_lite(row):
                continue
            document = orjson.loads(view.blob(row["envelope_payload_blob_ref"]) or b"{}")
            for effect in document.get("primitive_effects", ()):
                if effect["reversibility"] != IRREVERSIBLE:
                    continue
                count += 1
                if count > SKIPPED_MAX:
                    raise _skip_limit_refusal()
                yield {
                    "operation_id": row["operation_id"],
                    "effect_kind": effect["effect_kind"],
                    "external_effect_descriptor": effect["external_effect_descriptor"],
                }
        after = rows[-1]["ec_sequence_number"]


def _skip_limit_refusal() -> RollbackRefused:
    return RollbackRefused(
        "rebuild_too_much_skipped",
        f"more than {SKIPPED_MAX} effects outside; choose a later checkpoint",
    )


def _difference(
    stored: TablesView, folded: TablesView, table: Table, key: str
) -> RecordDifference | None:
    before, after = stored.get(table, key), folded.get(table, key)
    return None if before == after else RecordDifference(table, key, before, after)


def _differences(stored: TablesView, folded: TablesView) -> Iterator[RecordDifference]:
    for table in _REBUILT:
        name = _key_name(table)
        for row in _rows(stored, table):
            twin = folded.get(table, row[name])
            if twin != row:
                yield RecordDifference(table, row[name], row, twin)
        for row in _rows(folded, table):
            if stored.get(table, row[name]) is None:
                yield RecordDifference(table, row[name], None, row)


def _rows(tables: TablesView, table: Table) -> Iterator[Row]:
    return rows_in_pages(tables, TableQuery(table, order_by=_key_name(table), limit=PAGE_ROWS))


def _key_name(table: Table) -> str:
    return str(table.primary_key.columns[0].name)


class _NotingTables:
    """Tables that note which of the rows that a rebuild replaces are written into them."""

    def __init__(self, tables: Any, written: set[tuple[Table, str]]) -> None:
        self._tables = tables
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def insert_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows."""
        self._note(table, rows)
        self._tables.insert_many(table, rows)

    def put_many(self, table: Table, rows: Sequence[Row]) -> None:
        """Add or replace rows."""
        self._note(table, rows)
        self._tables.put_many(table, rows)

    def delete(self, table: Table, *key: str | int) -> None:
        """Remove a row."""
        if table in _REBUILT:
            self._written.add((table, str(key[0])))
        self._tables.delete(table, *key)

    def _note(self, table: Table, rows: Sequence[Row]) -> None:
        if table in _REBUILT:
            self._written.update((table, row[_key_name(table)]) for row in rows)


class _NotingStore:
    """A store behind the buffer of a ledger, which writes in bulk, and what was written into it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.view = store.view
        self.close = store.close
        self.server_time_us = store.server_time_us
        self.engine = store.engine
        self.written: set[tuple[Table, str]] = set()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Write, and note what."""
        with self._store.transaction() as tables:
            yield _NotingTables(tables, self.written)


def _printable(row: Row | None) -> Document | None:
    if row is None:
        return None
    return {
        str(name): value.hex() if isinstance(value, bytes) else value for name, value in row.items()
    }


def _envelope(
    transaction: LedgerTransaction, plan: RebuildPlan, operation_id: str, confirmation_id: str
) -> Document:
    replaced = [
        [
            str(difference.table.name),
            difference.key,
            _row_hash(difference.stored),
            _row_hash(difference.folded),
        ]
        for difference in plan.differences[:SKIPPED_MAX]
    ]
    now = transaction.host.now_us()
    skipped = [entry | {"skipped_at": iso_time(now)} for entry in plan.irreversible_skipped]
    body = {
        "checkpoint_ec_sequence_number": str(plan.checkpoint_ec_sequence_number),
        "architect_confirmation_token": confirmation_id,
        "irreversible_skipped": skipped,
        "state_digest": plan.state_digest,
        "records_replaced": len(plan.differences),
        "replaced": replaced,
    }
    effects = [receipt_effect("tier_3_rebuild", body)]
    if skipped:
        descriptors = [entry["external_effect_descriptor"] for entry in skipped]
        effects.append(
            receipt_effect(
                "rollback_partial_external_effect_persists",
                {"operation_id": operation_id, "descriptors": descriptors},
            )
        )
    scope = scope_of([]) | {"scope_kind": "global_sweep"}
    fields = {
        "operation_id": operation_id,
        "causal_parent_operation_ids": [],
        "affected_subgraph_descriptor": scope,
    }
    key = runtime_key("rebuild", operation_id)
    return envelope(transaction, REBUILD, key, effects, fields)


def _row_hash(row: Row | None) -> str:
    return "" if row is None else sha256_hex(canonicalize(_printable(row)))
