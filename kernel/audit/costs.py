"""Lists what operations cost and to whom it is attributed, in pages and in sums (§18.3).

Entries are read off the log and stored nowhere (decision kernel/0074): the row has the intent and
the actor, the envelope the estimate, a receipt the lease. All of these are durable and sealed, so
an entry can be proved and never changes. Measured costs are known where models answered: the tokens
of their recorded outputs, attributed to the operation that recorded the output. Estimates are in
the unit of `estimated_capacity_cost`, measurements in tokens; the two cannot be compared.

An operation whose policy generation attributes no cost has no entry.

An entry says what was recorded, which earlier releases did not limit. In a sum such an estimate
counts as COST_MAX, the most that any lease has, and the sum says of how many operations that is so:
one row then neither breaks a sum nor hides the others in it (decision kernel/0535).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from kernel.audit.operations import envelope_of, first_sequence_from, row_document
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.tables import Row
from kernel.ledger.supersession import in_force_at, is_lite
from kernel.records.capacity import KernelCostGovernance, estimate, governance_in
from kernel.values.errors import LedgerCorrupt
from kernel.values.pressure import COST_MAX

_LEASE_KINDS = frozenset({"capacity_lease", "capacity_alert", "capacity_override"})

_PARTS_OF_OTHERS = frozenset({"cached_tokens", "reasoning_tokens", "total_tokens"})
"""Counts of an answer that overlap with its other counts, so that they are not added."""


class CostEntryDocument(TypedDict):
    """The cost of one operation; what is not known is left out."""

    entry_id: str
    operation_id: str
    semantic_intent: str
    actor: str
    estimated_cost: NotRequired[float]
    actual_cost: NotRequired[float]
    ec_capacity_lease_id: str
    recorded_at: str
    schema_version: int
    quarantined: NotRequired[bool]
    """True where its row was found damaged, and nobody has lifted that; else not there (§17.5)."""


class CostTotalDocument(TypedDict):
    """What the operations of one intent by one actor cost together."""

    semantic_intent: str
    actor: str
    operations: int
    estimated_cost: float
    actual_cost: NotRequired[float]
    operations_over_limit: NotRequired[int]
    """Of how many the estimate is beyond the most that there is, and counts as that."""


@dataclass(frozen=True, slots=True)
class CostLedgerEntry:
    """The estimated and actual cost of one operation."""

    entry_id: str
    operation_id: str
    semantic_intent: str
    actor: str
    estimated_cost: float | None
    """None where the envelope was erased and no receipt of a lease repeats it."""

    actual_cost: float | None
    """Tokens of the models that answered; None where none did, or nothing was measured."""

    ec_capacity_lease_id: str
    """Empty where nobody leased the capacity."""

    recorded_at: str
    quarantined: bool = False
    """Whether the row that it is read from is quarantined, so that it is in no sum."""

    def document(self) -> CostEntryDocument:
        """Return the entry as JSON has it."""
        fields = {name: getattr(self, name) for name in CostLedgerEntry.__slots__}
        fields["quarantined"] = self.quarantined or None
        known = {name: value for name, value in fields.items() if value is not None}
        return cast("CostEntryDocument", known | {"schema_version": 1})


@dataclass(frozen=True, slots=True)
class CostPage:
    """Some of the entries, in sequence."""

    entries: tuple[CostLedgerEntry, ...]
    next_after: int | None
    """Ask again after this sequence; None where there is nothing more."""


@dataclass(frozen=True, slots=True)
class CostTotal:
    """What the operations of one intent by one actor cost together."""

    semantic_intent: str
    actor: str
    operations: int
    estimated_cost: float
    actual_cost: float | None
    """The sum of the measured costs; None where none was measured."""

    operations_over_limit: int | None = None
    """Of how many the estimate is beyond COST_MAX, and counts as that; None of none."""

    def document(self) -> CostTotalDocument:
        """Return the sum as JSON has it."""
        fields = {name: getattr(self, name) for name in CostTotal.__slots__}
        known = {name: value for name, value in fields.items() if value is not None}
        return cast("CostTotalDocument", known)


@dataclass(frozen=True, slots=True)
class CostTotals:
    """Sums over some of the entries, by intent and actor."""

    totals: tuple[CostTotal, ...]
    next_after: int | None
    """Sum up on from this sequence; None where there is nothing more."""

    left_out: int = 0
    """Entries of quarantined rows, of which nothing is computed."""


def cost_entries(
    view: LedgerView,
    *,
    after: int = 0,
    limit: int = 100,
    from_us: int | None = None,
    before_us: int | None = None,
) -> CostPage:
    """Return what at most `limit` operations after a sequence cost, of a time if one is given.

    Raises:
        LedgerCorrupt: when a stored row cannot be read.
    """
    if from_us is not None:
        after = max(after, first_sequence_from(view, from_us) - 1)
    rows = view.log_rows(after=after, limit=limit)
    full = len(rows) == limit
    if before_us is not None:
        end = first_sequence_from(view, before_us)
        full = full and rows[-1]["ec_sequence_number"] + 1 < end
        rows = [row for row in rows if row["ec_sequence_number"] < end]
    standing = (in_force_at(view, row) for row in rows)
    entries = (_entry(view, row) for row in standing if row is not None and not is_lite(row))
    next_after = rows[-1]["ec_sequence_number"] if full else None
    return CostPage(tuple(entry for entry in entries if entry is not None), next_after)


def cost_totals(
    view: LedgerView,
    *,
    after: int = 0,
    limit: int = 10_000,
    from_us: int | None = None,
    before_us: int | None = None,
) -> CostTotals:
    """Sum up what `cost_entries` returns for the same arguments, but for quarantined rows.

    Raises:
        LedgerCorrupt: when a stored row cannot be read.
    """
    page = cost_entries(view, after=after, limit=limit, from_us=from_us, before_us=before_us)
    by_whom: dict[tuple[str, str], list[CostTotal]] = defaultdict(list)
    sound = [entry for entry in page.entries if not entry.quarantined]
    for entry in sound:
        total = _total_of(entry)
        by_whom[total.semantic_intent, total.actor].append(total)
    return CostTotals(
        tuple(_together(totals) for _, totals in sorted(by_whom.items())),
        page.next_after,
        len(page.entries) - len(sound),
    )


def join_totals(pages: Iterable[CostTotals]) -> tuple[CostTotal, ...]:
    """Return the sums of several pages as one."""
    by_whom: dict[tuple[str, str], list[CostTotal]] = defaultdict(list)
    for page in pages:
        for total in page.totals:
            by_whom[total.semantic_intent, total.actor].append(total)
    return tuple(_together(totals) for _, totals in sorted(by_whom.items()))


def _total_of(entry: CostLedgerEntry) -> CostTotal:
    estimate = entry.estimated_cost or 0.0
    return CostTotal(
        entry.semantic_intent,
        entry.actor,
        1,
        min(estimate, COST_MAX),
        entry.actual_cost,
        1 if estimate > COST_MAX else None,
    )


def _together(totals: Sequence[CostTotal]) -> CostTotal:
    measured = [total.actual_cost for total in totals if total.actual_cost is not None]
    return CostTotal(
        totals[0].semantic_intent,
        totals[0].actor,
        sum(total.operations for total in totals),
        fsum(total.estimated_cost for total in totals),
        fsum(measured) if measured else None,
        sum(total.operations_over_limit or 0 for total in totals) or None,
    )


def _entry(view: LedgerView, row: Row) -> CostLedgerEntry | None:
    try:
        return _cost_entry(view, row)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"row {row['ec_sequence_number']} of the log does not say what it cost"
        raise LedgerCorrupt(message) from error


def _cost_entry(view: LedgerView, row: Row) -> CostLedgerEntry | None:
    document, envelope = row_document(view, row), envelope_of(view, row)
    if not _governance(view, envelope).cost_attribution_by_transactional_intent:
        return None
    operation_id = str(document["operation_id"])
    leased = _lease_receipt(view, operation_id)
    estimated = leased.get("estimated_cost") if envelope is None else _estimate_of(envelope)
    return CostLedgerEntry(
        f"cost:{operation_id}",
        operation_id,
        document["semantic_intent"],
        document["actor"],
        _number(estimated),
        _number(_measured_tokens(envelope or {})),
        str(leased.get("ec_capacity_lease_id", "")),
        document["committed_at"],
        view.quarantines().over(row["ec_sequence_number"]) is not None,
    )


def _governance(view: LedgerView, envelope: Document | None) -> KernelCostGovernance:
    """Return the governance of the generation that an envelope names, which V5 found in force."""
    generation = None if envelope is None else envelope.get("policy_generation_id")
    row = view.tables.get(schema.policy_snapshots, str(generation))
    return governance_in(view.policy_row()["record"] if row is None else row["record"])


def _estimate_of(envelope: Mapping[str, Any]) -> float:
    scope = envelope.get("affected_subgraph_descriptor") or {}
    stated = scope.get("estimated_capacity_cost", 0)
    return estimate(stated, len(envelope["primitive_effects"]))


def _number(stated: float | None) -> float | None:
    """Return what a row states as a float.

    Raises:
        TypeError, ValueError: it is no number, or has no end, which no row that was recorded has.
    """
    number = None if stated is None else float(stated)
    if number is not None and not isfinite(number):
        raise ValueError("not finite")
    return number


def _measured_tokens(envelope: Mapping[str, Any]) -> int | None:
    """Return the tokens of the answers that the operation itself recorded."""
    used = [
        _tokens(output.get("recorded_token_usage") or {})
        for output in envelope.get("recorded_model_outputs", ())
        if output["recorded_by_operation_id"] == envelope["operation_id"]
    ]
    known = [tokens for tokens in used if tokens is not None]
    return sum(known) if known else None


def _tokens(usage: Mapping[str, int]) -> int | None:
    apart = [count for name, count in usage.items() if name not in _PARTS_OF_OTHERS]
    return sum(apart) if apart else usage.get("total_tokens")


def _lease_receipt(view: LedgerView, operation_id: str) -> Document:
    for receipt in view.receipts_of(operation_id):
        if receipt["receipt_kind"] in _LEASE_KINDS:
            return receipt
    return {}
