"""Confirms evidence without a person where the safe path admits it (INV-K-OUTCOME-1, §13.6).

1. `identity_confidence` is stated, and at least 0.95.
2. The evidence was drawn from a `SourceArtifact` that is signed: it is active, and its own words
   say who signed it, in one of the forms below. The words are read from the record, so no writer
   of the evidence can state a signature that the artifact does not bear.
3. Nothing contests it. What contests evidence on this record: a signal that it states itself
   (`contested_signals`); an edge `contradicts` at the filings or at a source; other evidence that
   was drawn from the same artifact, stands, and says something else of the same thing.

A thing that is not known, or too much to look at, contests: it is for a person (decision
kernel/0295).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy import Table
from typing_extensions import TypedDict

from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerView
from kernel.ledger.quarantine import RangeQuarantined
from kernel.ledger.store.tables import TableQuery
from kernel.model.node_kinds import SOURCE_ARTIFACT
from kernel.values.spans import sources_in
from kernel.values.untrusted import text_of

IDENTITY_CONFIDENCE_MIN = 0.95

SOURCES_MAX = 16
WRITERS_MAX = 32
DRAWN_MAX = 512
EDGES_MAX = 512
"""What is looked at of one piece of evidence; where there is more, it is contested."""

TOO_MUCH = "too_much_to_look_at"

QUARANTINED = "its_operation_is_quarantined"
"""What it was drawn from is said by the operation that wrote it alone."""

EvidenceKind = Literal["relationship", "observation"]


@dataclass(frozen=True, slots=True)
class EvidenceStore:
    """Where evidence of a kind stands, and its states."""

    table: Table
    effect_kind: str
    open_state: str
    confirmed: str
    rejected: str
    same_thing: tuple[str, ...]
    """The fields in which two records are about the same thing."""

    says: str
    """The field in which they differ where they contradict each other."""


STORES: Mapping[EvidenceKind, EvidenceStore] = MappingProxyType(
    {
        "relationship": EvidenceStore(
            schema.filing_relationships,
            "filing_relationship_write",
            *("candidate", "confirmed", "rejected"),
            ("relationship_type", "source_filing_unit_id"),
            "target_filing_unit_id",
        ),
        "observation": EvidenceStore(
            schema.court_disposition_observations,
            "court_disposition_observation_write",
            *("observed", "confirmed", "withdrawn"),
            ("filing_unit_id",),
            "disposition",
        ),
    }
)

SIGNATURES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("judge", re.compile(r"\bSigned by (?:[A-Z][a-z]+ ){0,3}Judge [A-Z][^\s,;()]*[^,;()]{0,60}")),
    ("filer", re.compile(r"(?<!\S)/s/ ?[A-Z][^\s,;()]*[^,;()\n]{0,60}")),
)
"""How an artifact says who signed it, as dockets write it: `Signed by Judge A. Roe on 3/4/2021`,
and `/s/ B. Doe`. Who signs for a court is a judge."""

_SIGNERS: Mapping[EvidenceKind, frozenset[str]] = MappingProxyType(
    {"relationship": frozenset({"judge", "filer"}), "observation": frozenset({"judge"})}
)


class EvidenceDocument(TypedDict):
    """What speaks for and against a piece of evidence."""

    identity_confidence: float | None
    signed_source_ref: str | None
    signature: str | None
    contested_by: list[str]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the record says for and against a piece of evidence."""

    identity_confidence: float | None
    signed_source_ref: str | None = None
    signature: str | None = None
    """The words of the source that say who signed it."""

    contested_by: tuple[str, ...] = ()
    """The signals that contest it, each by its name or the id of a record."""

    def document(self) -> EvidenceDocument:
        """Return the evidence as a confirmation names it."""
        return {
            "identity_confidence": self.identity_confidence,
            "signed_source_ref": self.signed_source_ref,
            "signature": self.signature,
            "contested_by": list(self.contested_by),
        }


ReviewReason = Literal[
    "identity_confidence_unstated",
    "identity_confidence_below_threshold",
    "source_not_signed",
    "contested",
]


def why_a_person_decides(evidence: Evidence) -> ReviewReason | None:
    """Return what keeps evidence from the safe path; None where it may be confirmed by itself."""
    confidence = evidence.identity_confidence
    if confidence is None:
        return "identity_confidence_unstated"
    # Written so that a number that is none is not enough.
    if not IDENTITY_CONFIDENCE_MIN <= confidence <= 1:
        return "identity_confidence_below_threshold"
    if evidence.signed_source_ref is None:
        return "source_not_signed"
    return "contested" if evidence.contested_by else None


def evidence_record(view: LedgerView, kind: EvidenceKind, record_id: str) -> Document | None:
    """Return a record of evidence, decided on or not; None where there is none."""
    return view.record(STORES[kind].table, record_id)


def open_evidence(view: LedgerView, kind: EvidenceKind, record_id: str) -> Document | None:
    """Return a record that waits to be decided on; None where it does not, or there is none."""
    record = evidence_record(view, kind, record_id)
    return record if record is not None and is_open(kind, record) else None


def is_open(kind: EvidenceKind, record: Document) -> bool:
    """Tell whether a record waits to be decided on."""
    state = record["payload"].get("lifecycle_state")
    return bool(record["state"] == "active" and state == STORES[kind].open_state)


def sources_of_record(view: LedgerView, record: Document) -> list[str]:
    """Return what a record was drawn from: as it says, else as the operation that wrote it says.

    Raises:
        RangeQuarantined: the operation has to say it, and its row is quarantined.
    """
    stated = sources_in(record["payload"])
    if stated:
        return stated
    row = view.log_row_of(record["updated_by_operation_id"])
    if row is not None:
        view.quarantines().expect_none_over(row["ec_sequence_number"])
    envelope = view.envelope(record["updated_by_operation_id"])
    return [] if envelope is None else list(dict.fromkeys(envelope["source_refs"]))


def evidence_after(
    view: LedgerView, after: int, limit: int
) -> tuple[list[tuple[EvidenceKind, str]], int]:
    """Return evidence that was written after a place in the log, and the place that was reached.

    At most `limit` writes are looked at, and those of one operation that is longer.
    """
    written: dict[tuple[EvidenceKind, str], None] = {}
    until = [view.head().ec_sequence_number]
    for kind, store in STORES.items():
        where: dict[str, Any] = {"store": store.table.name}
        query = TableQuery(
            schema.applied_effects,
            where,
            order_by="ec_sequence_number",
            after=after,
            limit=limit,
        )
        rows = view.tables.scan(query)
        if len(rows) == limit:
            last = rows[-1]["ec_sequence_number"]
            until.append(last)
            where["ec_sequence_number"] = last
            rows += view.tables.scan(TableQuery(schema.applied_effects, where))
        written |= {(kind, row["record_key"]): None for row in rows}
    return list(written), min(until)


def evidence_of(view: LedgerView, kind: EvidenceKind, record_id: str, record: Document) -> Evidence:
    """Return what is on record for and against a piece of evidence."""
    payload = record["payload"]
    unknown: tuple[str, ...] = ()
    try:
        sources = sources_of_record(view, record)
    except RangeQuarantined:
        sources, unknown = [], (QUARANTINED,)
    confidence = payload.get("identity_confidence")
    is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    signed_ref, signature = _signature_of(view, kind, sources[:SOURCES_MAX])
    return Evidence(
        float(confidence) if is_number and confidence is not None else None,
        signed_ref,
        signature,
        tuple(dict.fromkeys((*unknown, *_contesting(view, kind, record_id, payload, sources)))),
    )


def _signature_of(
    view: LedgerView, kind: EvidenceKind, sources: list[str]
) -> tuple[str | None, str | None]:
    for ref in sources:
        node = view.node(ref)
        if node is None or node["node_kind"] != SOURCE_ARTIFACT or node["state"] != "active":
            continue
        content = node["payload"].get("content")
        text = text_of(content) if isinstance(content, str) else ""
        for signer, form in SIGNATURES:
            match = form.search(text) if signer in _SIGNERS[kind] else None
            if match is not None:
                return ref, match[0].strip()
    return None, None


def _contesting(
    view: LedgerView,
    kind: EvidenceKind,
    record_id: str,
    payload: Mapping[str, Any],
    sources: list[str],
) -> Iterator[str]:
    stated = payload.get("contested_signals")
    if stated:
        yield from map(str, stated if isinstance(stated, list) else [stated])
    if len(sources) > SOURCES_MAX:
        yield TOO_MUCH
    filings = [payload.get(f"{end}_filing_unit_id") for end in ("source", "target")]
    named = [record_id, *(ref for ref in filings if isinstance(ref, str))]
    for ref in [*named, *sources[:SOURCES_MAX]]:
        yield from _contradictions(view, ref)
    for ref in sources[:SOURCES_MAX]:
        yield from _rivals(view, kind, record_id, payload, ref)


def _contradictions(view: LedgerView, ref: str) -> Iterator[str]:
    for column in ("source_node_id", "target_node_id"):
        where = {column: ref, "active": 1}
        rows = view.tables.scan(TableQuery(schema.edges, where, limit=EDGES_MAX))
        for row in rows:
            edge = view.record(schema.edges, row["edge_id"])
            if edge is not None and edge["edge_type"] == "contradicts":
                yield str(row["edge_id"])
        if len(rows) == EDGES_MAX:
            yield TOO_MUCH


def _rivals(
    view: LedgerView,
    kind: EvidenceKind,
    record_id: str,
    payload: Mapping[str, Any],
    artifact_ref: str,
) -> Iterator[str]:
    """Yield records that say something else of the same thing, drawn from the same artifact.

    What was drawn from an artifact names a writer of the artifact among its causes.
    """
    store = STORES[kind]
    for key in _evidence_drawn_from(view, store, artifact_ref):
        if key == TOO_MUCH:
            yield TOO_MUCH
            continue
        record = view.record(store.table, key)
        if key == record_id or record is None or record["state"] != "active":
            continue
        other = record["payload"]
        is_same = all(other.get(name) == payload.get(name) for name in store.same_thing)
        stands = other.get("lifecycle_state", store.confirmed) in (
            store.open_state,
            store.confirmed,
        )
        if is_same and stands and other.get(store.says) != payload.get(store.says):
            yield key


def _evidence_drawn_from(
    view: LedgerView, store: EvidenceStore, artifact_ref: str
) -> Iterator[str]:
    query = TableQuery(
        schema.applied_effects,
        {"store": schema.nodes.name, "record_key": artifact_ref},
        order_by="ec_sequence_number",
        limit=WRITERS_MAX,
    )
    writers = view.tables.scan(query)
    looked_at = 0
    for writer in writers:
        row = view.log_row_at(writer["ec_sequence_number"])
        if row is None:
            continue
        caused = view.tables.scan(
            TableQuery(
                schema.causal_parents,
                {"parent_operation_id": row["operation_id"]},
                order_by="ec_sequence_number",
                limit=DRAWN_MAX - looked_at,
            )
        )
        looked_at += len(caused)
        for child in caused:
            effects = view.tables.scan(
                TableQuery(
                    schema.applied_effects, {"ec_sequence_number": child["ec_sequence_number"]}
                )
            )
            yield from (
                effect["record_key"] for effect in effects if effect["store"] == store.table.name
            )
        if looked_at >= DRAWN_MAX:
            break
    if len(writers) == WRITERS_MAX or looked_at >= DRAWN_MAX:
        yield TOO_MUCH
