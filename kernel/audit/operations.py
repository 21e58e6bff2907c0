"""Lists operations: the log, filtered by either layer, in pages (§3.7, Q1 to Q3).

A page costs a bounded number of rows. It may hold fewer entries than asked for, none even, and
still name where to go on: only `next_after = None` means that there is nothing more.

The narrowest index that the filter admits leads: the record that was written, else the session and
the intent. An entity's operations are those that wrote its record (decision kernel/0015). A time
needs no index, because commit times rise with the sequence: its bounds are found by halving.
Everything else is read off the rows that are left.

Pages of an entity follow the effects: what took a lite row's place stands on the page of where it
was applied, and inside that page in its place. If a bound is given and lite rows come before it,
the search goes on to the end of the log.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NotRequired, cast

import orjson
from sqlalchemy import Table
from typing_extensions import TypedDict

from kernel.algebra.effects import EFFECT_KINDS
from kernel.ledger import schema
from kernel.ledger.applied_effects import sequences_that_wrote
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.store.buffer import joined_ahead
from kernel.ledger.store.tables import SEARCH_ROWS, Joined, Row, TableQuery, rows_in_pages
from kernel.ledger.supersession import in_force_at, position_of
from kernel.model.lite import LITE_INTENT
from kernel.values.errors import KernelError, LedgerCorrupt
from kernel.values.host import iso_time

SCANNED_ROWS_MAX = 20_000
"""Rows that one page looks at."""


WRITTEN_STORES = (*schema.STORES, str(schema.receipts.name))
"""The stores in which an applied effect may have written a record."""


class AuditError(KernelError):
    """The record cannot answer; `code` says why."""

    code = "audit_unanswerable"


def stored_document(content: bytes, name: str) -> Document:
    """Return the JSON object that stored bytes hold.

    Raises:
        LedgerCorrupt: when they hold anything else; verification says more.
    """
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise LedgerCorrupt(f"{name} is not a JSON object")
    return document


def ask_ahead_of_operation(view: LedgerView, operation_id: str, *others: Joined) -> None:
    """Ask ahead for all that the record has under the id of an operation, and for `others`."""
    log = schema.kernel_event_log
    row = joined_ahead(log, "operation_id", [operation_id])
    sequence = (row, "ec_sequence_number")
    view.ask_ahead(
        row,
        joined_ahead(schema.receipts, "operation_id", [operation_id]),
        joined_ahead(schema.blobs, "blob_ref", of=[(row, "envelope_payload_blob_ref")]),
        joined_ahead(schema.applied_effects, "ec_sequence_number", of=[sequence]),
        *others,
    )


def row_document(view: LedgerView, row: Row) -> Document:
    """Return what a row of the log says, quarantined or not.

    Raises:
        RangeQuarantined: when it cannot be read, and is quarantined.
        LedgerCorrupt: when it cannot be read, and nobody has noticed.
    """
    sequence = row["ec_sequence_number"]
    return _readable(view, sequence, row["row_bytes"], f"row {sequence} of the log")


def envelope_of(view: LedgerView, row: Row) -> Document | None:
    """Return the envelope to which a row of the log commits, None where it was erased.

    Raises:
        RangeQuarantined, LedgerCorrupt: see `row_document`.
    """
    content, sequence = view.blob(row["envelope_payload_blob_ref"]), row["ec_sequence_number"]
    if content is None:
        return None
    return _readable(view, sequence, content, f"the envelope of row {sequence}")


def _readable(view: LedgerView, sequence: int, content: bytes, name: str) -> Document:
    try:
        return stored_document(content, name)
    except LedgerCorrupt:
        view.quarantines().expect_none_over(sequence)
        raise


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which operations to find; a field that is None excludes none."""

    entity: str | None = None
    """Key of a record that the operation wrote, in any store; found through an index."""

    declared: bool = False
    """An operation also counts whose scope names `entity` without writing it. A scope is kept in
    the envelope alone and no index knows it: every envelope of the range is read."""

    semantic_intent: str | None = None
    effect_kind: str | None = None
    """An effect kind as the envelope names it, or its canonical kind."""

    reversibility: str | None = None
    """Of one effect at least. An envelope that was erased cannot say it: where an effect's kind
    leaves it open, the operation counts."""

    actor: str | None = None
    session_id: str | None = None
    from_us: int | None = None
    """Committed at this time or later, in microseconds since 1970."""

    before_us: int | None = None
    """Committed earlier than this."""

    from_sequence: int | None = None
    to_sequence: int | None = None
    """The last sequence, inclusive."""


class OperationEntryDocument(TypedDict):
    """One operation of the log; a sequence is a string."""

    ec_sequence_number: str
    operation_id: str
    semantic_intent: str
    operation_kind: str
    actor: str
    session_id: str | None
    committed_at: str
    effect_kinds: list[str]
    canonical_effect_kinds: list[str]
    causal_parent_operation_ids: list[str]
    row_hash: str
    superseding_sequence: str | None
    quarantined: NotRequired[bool]
    """True where its row was found damaged, and nobody has lifted that; else not there (§17.5)."""


@dataclass(frozen=True, slots=True)
class OperationEntry:
    """One operation, both layers of it, as its row of the log tells it."""

    ec_sequence_number: int
    """The sequence of the operation's place in the order."""

    operation_id: str
    semantic_intent: str
    operation_kind: str
    actor: str
    session_id: str | None
    committed_at: str
    effect_kinds: tuple[str, ...]
    canonical_effect_kinds: tuple[str, ...]
    causal_parent_operation_ids: tuple[str, ...]
    row_hash: str
    superseding_sequence: int | None = None
    """The sequence of the row that holds the operation, if that superseded a lite one (K24)."""

    quarantined: bool = False
    """Whether its row is quarantined: read it as what somebody may have changed."""

    @classmethod
    def of_row(cls, view: LedgerView, row: Row) -> "OperationEntry":
        """Read a row of the log; raises what `row_document` does."""
        document = row_document(view, row)
        return cls(
            position_of(row),
            document["operation_id"],
            document["semantic_intent"],
            document["operation_kind"],
            document["actor"],
            document.get("session_id"),
            document["committed_at"],
            tuple(document["effect_kind_set"]),
            tuple(document["canonical_effect_kind_set"]),
            tuple(document["causal_parent_operation_ids"]),
            row["row_hash"],
            row["ec_sequence_number"] if row["supersedes_sequence"] else None,
            view.quarantines().over(row["ec_sequence_number"]) is not None,
        )

    def document(self) -> OperationEntryDocument:
        """Return the entry as JSON has it."""
        fields: Document = {name: getattr(self, name) for name in OperationEntry.__slots__}
        for name in ("ec_sequence_number", "superseding_sequence"):
            fields[name] = None if fields[name] is None else str(fields[name])
        if not fields["quarantined"]:
            del fields["quarantined"]
        return cast("OperationEntryDocument", fields)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the answer, in sequence.

    Of who wrote a record, pages follow each other as the effects do: what took a lite row's place
    is on the page of where it was applied.
    """

    entries: tuple[OperationEntry, ...]
    next_after: int | None
    """Ask again after this sequence; None where there is nothing more."""


def find_operations(
    view: LedgerView,
    criteria: AuditFilter,
    *,
    after: int = 0,
    limit: int = 100,
    scanned_rows_max: int = SCANNED_ROWS_MAX,
) -> Page:
    """Return the operations that a filter admits, in sequence, after a sequence.

    Raises:
        LedgerCorrupt: when a row of the log is not there.
    """
    first, last = bounds_of(view, criteria)
    last_seen = max(after, first - 1)
    entries: list[OperationEntry] = []
    ends_at = _ends_at(view, criteria, last)
    for sequence, row in islice(candidates(view, criteria, last_seen), scanned_rows_max):
        if sequence > ends_at:
            return _page(entries, None)
        last_seen = sequence
        if row is None or not first <= position_of(row) <= last:
            continue
        entry = OperationEntry.of_row(view, row)
        if matches(view, criteria, entry, row):
            entries.append(entry)
            if len(entries) == limit:
                break
    else:
        # Either the candidates or the bound ended; one more look tells which.
        if next(candidates(view, criteria, last_seen), None) is None:
            return _page(entries, None)
    return _page(entries, last_seen if last_seen < ends_at else None)


def _page(entries: list[OperationEntry], next_after: int | None) -> Page:
    return Page(tuple(sorted(entries, key=lambda entry: entry.ec_sequence_number)), next_after)


def _ends_at(view: LedgerView, criteria: AuditFilter, last: int) -> int:
    """Return the sequence behind which no row speaks for a place up to the last.

    Effects are found where they were applied. What took a lite row's place was applied later.
    """
    bounded = criteria.to_sequence is not None or criteria.before_us is not None
    if criteria.entity is None or criteria.declared or not bounded:
        return last
    lites = _in_sequence(view, schema.kernel_event_log, {"semantic_intent": LITE_INTENT})
    lite = next(lites, None)
    if lite is None or lite["ec_sequence_number"] > last:
        return last
    return view.head().ec_sequence_number


def first_sequence_from(view: LedgerView, time_us: int) -> int:
    """Return the sequence of the first row committed at a time or later, else the next one's.

    Raises:
        LedgerCorrupt: when a row of the log is not there.
    """
    low, high = 1, view.head().ec_sequence_number + 1
    committed_at = iso_time(max(0, time_us))
    while low < high:
        middle = (low + high) // 2
        row = view.tables.get(schema.kernel_event_log, middle)
        if row is None and not view.has_gaps:
            raise LedgerCorrupt(f"row {middle} of the log is missing")
        following = [row] if row is not None else view.log_rows(after=middle, limit=1)
        if following and following[0]["committed_at"] < committed_at:
            low = following[0]["ec_sequence_number"] + 1
        else:
            high = middle
    return low


def bounds_of(view: LedgerView, criteria: AuditFilter) -> tuple[int, int]:
    """Return the first and the last sequence that a filter admits.

    Raises:
        LedgerCorrupt: when a row of the log is not there.
    """
    first, last = criteria.from_sequence or 1, view.head().ec_sequence_number
    if criteria.to_sequence is not None:
        last = min(last, criteria.to_sequence)
    if criteria.from_us is not None:
        first = max(first, first_sequence_from(view, criteria.from_us))
    if criteria.before_us is not None:
        last = min(last, first_sequence_from(view, criteria.before_us) - 1)
    return first, last


Candidate = tuple[int, Row | None]
"""A sequence that was looked at, and the row that speaks there; None where none does."""


def candidates(
    view: LedgerView, criteria: AuditFilter, beyond: int | None, *, descending: bool = False
) -> Iterator[Candidate]:
    """Yield what a filter may admit beyond a sequence, along the index that knows most of it."""
    if criteria.entity is not None and not criteria.declared:
        yield from _candidates_of_stores(view, criteria.entity, beyond, descending=descending)
        return
    columns = {"session_id": criteria.session_id, "semantic_intent": criteria.semantic_intent}
    where = {name: value for name, value in columns.items() if value is not None}
    wheres = [where]
    if criteria.semantic_intent not in (None, LITE_INTENT):
        # A lite row does not say the verb of what took its place.
        wheres.append(where | {"semantic_intent": LITE_INTENT})
    streams = [
        _in_sequence(view, schema.kernel_event_log, equal, beyond, descending=descending)
        for equal in wheres
    ]
    merged = heapq.merge(
        *streams, key=lambda row: int(row["ec_sequence_number"]), reverse=descending
    )
    for row in merged:
        yield row["ec_sequence_number"], in_force_at(view, row)


def _in_sequence(
    view: LedgerView,
    table: Table,
    where: Document,
    beyond: int | None = None,
    *,
    descending: bool = False,
) -> Iterator[Row]:
    query = TableQuery(
        table,
        where,
        order_by="ec_sequence_number",
        after=beyond,
        descending=descending,
        limit=SEARCH_ROWS,
    )
    return rows_in_pages(view.tables, query)


def _candidates_of_stores(
    view: LedgerView, key: str, beyond: int | None, *, descending: bool
) -> Iterator[Candidate]:
    stores = [
        sequences_that_wrote(view, store, key, beyond, descending=descending)
        for store in WRITTEN_STORES
    ]
    newest: int | None = None
    for sequence in heapq.merge(*stores, reverse=descending):
        if sequence == newest:
            continue
        newest = sequence
        row = view.tables.get(schema.kernel_event_log, sequence)
        if row is None:
            raise LedgerCorrupt(f"row {sequence} of the log is missing")
        yield sequence, row


def matches(view: LedgerView, criteria: AuditFilter, entry: OperationEntry, row: Row) -> bool:
    """Tell whether a filter admits an operation within its bounds."""
    fields = {
        "semantic_intent": criteria.semantic_intent,
        "actor": criteria.actor,
        "session_id": criteria.session_id,
    }
    if any(value not in (None, getattr(entry, name)) for name, value in fields.items()):
        return False
    kinds = (None, *entry.effect_kinds, *entry.canonical_effect_kinds)
    return (
        criteria.effect_kind in kinds
        and _has_reversibility(view, criteria.reversibility, entry, row)
        and (not criteria.declared or _touches(view, criteria.entity, row))
    )


def _has_reversibility(
    view: LedgerView, reversibility: str | None, entry: OperationEntry, row: Row
) -> bool:
    """Whether an effect is classified so; envelopes are read only where the kinds leave it open."""
    if reversibility is None:
        return True
    possible = set()
    for name in entry.effect_kinds:
        kind = EFFECT_KINDS.get(name)
        if kind is None:
            possible.add(reversibility)
        else:
            possible |= {kind.reversibility, *kind.overrides.values()}
    if reversibility not in possible or len(possible) == 1:
        return reversibility in possible
    envelope = envelope_of(view, row)
    if envelope is None:
        return True
    return any(effect["reversibility"] == reversibility for effect in envelope["primitive_effects"])


def _touches(view: LedgerView, entity: str | None, row: Row) -> bool:
    """Whether an operation wrote a record, or its declared scope names it."""
    if entity is None:
        return True
    scope = (envelope_of(view, row) or {}).get("affected_subgraph_descriptor") or {}
    if any(entity in scope.get(name, ()) for name in ("affected_node_refs", "affected_edge_refs")):
        return True
    where = {"ec_sequence_number": row["ec_sequence_number"]}
    effects = view.tables.scan(TableQuery(schema.applied_effects, where))
    return any(effect["record_key"] == entity for effect in effects)
