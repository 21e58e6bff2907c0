"""Tier 3: the state is built again from the log, and proved equal to it (§5.4, kernel/0037).

The history is verified first: a log that does not hold is no ground to build on. Then every row is
folded into an empty ledger in memory, and each stored record that differs is archived and replaced.
The rebuild performs nothing outside and asks nobody to: requests are history and stay as they are.
The receipt names the effects outside that lie after the checkpoint as not performed again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Table

from kernel.algebra.effects import IRREVERSIBLE
from kernel.algebra.verbs import REBUILD
from kernel.canonical import canonicalize, digest, sha256_hex
from kernel.errors import LedgerCorrupt
from kernel.host import iso_time
from kernel.kernel import Kernel
from kernel.ledger import schema
from kernel.ledger.catalog import STORAGE_RULES
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.supersession import is_lite
from kernel.ledger.tables import Row, TablesView
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.rollback.confirmation import Confirmable, Confirmations
from kernel.rollback.envelopes import envelope, receipt_effect, scope_of
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import confirmed_operation_id
from kernel.verify import verify
from kernel.verify.fold import Fold
from kernel.verify.reading import Finding, Findings, Reader

SKIPPED_MAX = 2_000
FINDINGS_MAX = 10_000

_PAGE_ROWS = 1_000

_REBUILT = (*schema.STATE_TABLES, *schema.FOLDED_TABLES, schema.pre_images)

_HISTORY = frozenset(
    {str(table.name) for table in schema.APPEND_ONLY_TABLES} | {"blobs", "chain_head"}
)

Archive = Callable[[bytes], None]
"""Keeps the records as they were before, in canonical JSON, before any is replaced."""


@dataclass(frozen=True, slots=True)
class Difference:
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


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """Everything that a rebuild would do."""

    checkpoint_ec_sequence_number: int
    head_row_hash: str
    state_digest: str
    """Of the state that the log gives."""

    irreversible_skipped: tuple[Document, ...]
    differences: tuple[Difference, ...]

    @property
    def scope(self) -> str:
        """What a confirmation confirms."""
        return f"checkpoint:{self.checkpoint_ec_sequence_number}"

    @property
    def digest(self) -> str:
        """Hash of the checkpoint, of the log up to its head, and of what it gives."""
        return digest([3, self.scope, self.head_row_hash, self.state_digest])

    def document(self) -> dict[str, Any]:
        """Return the dry run as it leaves the process."""
        return {
            "tier": 3,
            "scope": self.scope,
            "digest": self.digest,
            "checkpoint_ec_sequence_number": str(self.checkpoint_ec_sequence_number),
            "state_digest": self.state_digest,
            "irreversible_skipped": list(self.irreversible_skipped),
            "differences": [
                {"store": str(one.table.name), "record_key": one.key} for one in self.differences
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


def plan_rebuild(kernel: Kernel, view: LedgerView, checkpoint: int) -> RebuildPlan:
    """Fold the log and say what would be replaced; holds the whole state in memory.

    Raises:
        RollbackRefused: `rebuild_checkpoint_unknown`, `rebuild_record_damaged` when the history
            does not verify, `rules_version_unknown`, `rebuild_too_much_skipped` where a later
            checkpoint is needed.
    """
    head = view.head()
    if not 0 <= checkpoint <= head.ec_sequence_number:
        raise RollbackRefused(
            "rebuild_checkpoint_unknown", f"the log ends at {head.ec_sequence_number}"
        )
    history = verify(view, fold=False, limit_findings=FINDINGS_MAX, strategy=kernel.strategy)
    _expect_sound(
        [one for one in history.findings if one.table in _HISTORY or one.rule in STORAGE_RULES]
    )
    findings = Findings(FINDINGS_MAX)
    fold = Fold(Reader(view.tables, findings), kernel.strategy)
    whole = fold.fold(lambda: None)
    _expect_sound(findings.found)
    if not whole:
        raise LedgerCorrupt("the log was not folded, and nothing was found")
    with fold.ledger.view() as folded:
        return RebuildPlan(
            checkpoint,
            head.row_hash,
            state_digest(folded.tables),
            tuple(_skipped(view, checkpoint)),
            tuple(_differences(view.tables, folded.tables)),
        )


def rebuild(
    kernel: Kernel,
    transaction: LedgerTransaction,
    checkpoint: int,
    *,
    confirmations: Confirmations,
    architect_confirmation_token: str | None,
    archive: Archive,
) -> Rebuild:
    """Replace every record that is not what the log gives, and prove the state equal to it.

    An architect's token is always needed. Durable when the caller's transaction is.

    Raises:
        RollbackRefused: see `plan_rebuild` and `Confirmations.check`; `confirmation_used`.
        LedgerCorrupt: when the state differs after all; the transaction has to be abandoned.
    """
    plan = plan_rebuild(kernel, transaction, checkpoint)
    confirmation_id = confirmations.check(
        "architect",
        architect_confirmation_token,
        Confirmable(3, plan.scope, plan.digest),
        now_us=transaction.host.now_us(),
    )
    operation_id = confirmed_operation_id(transaction, confirmation_id)
    if plan.differences:
        archive(canonicalize([one.document() for one in plan.differences]))
    for one in plan.differences:
        if one.folded is None:
            transaction.tables.delete(one.table, one.key)
        else:
            transaction.tables.put(one.table, one.folded)
    transaction.forget_policy()
    transaction.forget_overlays()
    if state_digest(transaction.tables) != plan.state_digest:
        raise LedgerCorrupt("the state that was built again is not what the log gives")
    document = _envelope(transaction, plan, operation_id, confirmation_id)
    submission = kernel.submit(transaction, document, "orchestrator")
    if isinstance(submission, RejectedResult):
        raise LedgerCorrupt(f"the receipt is refused: {submission.rejection.message}")
    return Rebuild(plan, submission)


def state_digest(tables: TablesView) -> str:
    """Return the hash of every record of state, in the order of stores and keys."""
    parts = [
        f"{table.name}|{row[_key_name(table)]}|{_row_hash(row)}"
        for table in (*schema.STATE_TABLES, *schema.FOLDED_TABLES)
        for row in _rows(tables, table)
    ]
    return sha256_hex("\n".join(parts).encode())


def _expect_sound(findings: list[Finding]) -> None:
    if findings:
        first = findings[0]
        if first.rule == "rules_unknown":
            raise RollbackRefused("rules_version_unknown", first.message)
        raise RollbackRefused(
            "rebuild_record_damaged",
            f"the history does not hold: {first.table} {first.key}: {first.message}",
            findings=len(findings),
        )


def _skipped(view: LedgerView, checkpoint: int) -> Iterator[Document]:
    """Return the effects outside after the checkpoint, which are not performed again."""
    count = 0
    after = checkpoint
    while rows := view.log_rows(after=after, limit=_PAGE_ROWS):
        for row in rows:
            if is_lite(row):
                continue
            document = orjson.loads(view.blob(row["envelope_payload_blob_ref"]) or b"{}")
            for effect in document.get("primitive_effects", ()):
                if effect["reversibility"] != IRREVERSIBLE:
                    continue
                count += 1
                if count > SKIPPED_MAX:
                    raise RollbackRefused(
                        "rebuild_too_much_skipped",
                        f"more than {SKIPPED_MAX} effects outside; choose a later checkpoint",
                    )
                yield {
                    "operation_id": row["operation_id"],
                    "effect_kind": effect["effect_kind"],
                    "external_effect_descriptor": effect["external_effect_descriptor"],
                }
        after = rows[-1]["ec_sequence_number"]


def _differences(stored: TablesView, folded: TablesView) -> Iterator[Difference]:
    for table in _REBUILT:
        name = _key_name(table)
        for row in list(_rows(stored, table)):
            twin = folded.get(table, row[name])
            if twin != row:
                yield Difference(table, row[name], row, twin)
        for row in _rows(folded, table):
            if stored.get(table, row[name]) is None:
                yield Difference(table, row[name], None, row)


def _rows(tables: TablesView, table: Table) -> Iterator[Row]:
    name, after = _key_name(table), None
    while rows := tables.select(table, order_by=name, after=after, limit=_PAGE_ROWS):
        yield from rows
        after = rows[-1][name]


def _key_name(table: Table) -> str:
    return str(table.primary_key.columns[0].name)


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
        [str(one.table.name), one.key, _row_hash(one.stored), _row_hash(one.folded)]
        for one in plan.differences[:SKIPPED_MAX]
    ]
    now = transaction.host.now_us()
    skipped = [one | {"skipped_at": iso_time(now)} for one in plan.irreversible_skipped]
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
        descriptors = [one["external_effect_descriptor"] for one in skipped]
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
    return envelope(transaction, REBUILD, digest([REBUILD, operation_id]), effects, fields)


def _row_hash(row: Row | None) -> str:
    return "" if row is None else sha256_hex(canonicalize(_printable(row)))
