"""Detects that an order disposes of a motion, which implies the state of what waited on it (§19.1).

1. An order disposes of a motion where a relationship `rules_on` between their filing units stands,
   and the observation of the order's entry says something of `ENDS_A_MOTION`. An order for the
   interim leaves the motion open.
2. Every filing that is related to a motion by one of `WAITING` waits on it.
3. A relationship stands where it is confirmed, or is a candidate of `CLOSING_CONFIDENCE` at least.

Each such filing gets an observation of its own for each such order, `NO_LONGER_PENDING`: evidence,
which a person or the safe path decides on (INV-K-OUTCOME-1). If the order, its disposition or one
of the two relationships no longer stands, the observation is withdrawn, unless it was decided on.
So what stands follows from the record, whichever of its parts came last.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from actors.implications.detector import CommittedOperation, ImplicationDetector
from actors.orchestrator.intents import Implication, ObserveDisposition
from kernel.algebra.effects import EFFECT_KINDS
from kernel.algebra.verbs import EPOCH_ROLLBACK, ROLLBACK
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.envelope import MAX_CAUSAL_PARENTS
from kernel.records.court_dispositions import OBSERVATIONS
from kernel.records.filing_relationships import RELATIONSHIPS, relationship_state, relationships_of
from kernel.records.filings import document_of_unit
from kernel.records.source_artifacts import read_artifact
from kernel.records.typed import LIVE
from kernel.values.canonical import digest
from kernel.work.fire_targets import derived_id, filing_unit_of
from workers.dockets.dispositions import CLOSING_CONFIDENCE, ENDS_A_MOTION, is_interim

NO_LONGER_PENDING: Final = "no_longer_pending"
WAITING: Final = frozenset({"opposes", "responds_to", "replies_to", "supports", "exhibit_to"})
RELATED_MAX: Final = 256
"""Relationships that are looked at of one filing, the first by their ids."""

_DATE: Final = tuple(
    f"docket_entry_date_{part}" for part in ("utc", "originating_tz", "originating_calendar_date")
)


@dataclass(frozen=True, slots=True)
class _Ruling:
    """An order, as it stands to one motion."""

    unit: str
    entry_ref: str
    observed: Document
    """What the observation of the order's entry states."""

    confidence: float | None
    """How sure it is that the order disposes of the motion; None where it does not."""


@dataclass(frozen=True, slots=True)
class DisposedMotions:
    """Says of what waited on a motion that it no longer does."""

    name: str = "disposed_motions"
    semantic_intents: frozenset[str] = frozenset(
        {
            *("filing_relationship_write", "filing_relationship_retract"),
            *("court_disposition_observation_write", "court_disposition_observation_retract"),
            *("ruling_disposition_write", ROLLBACK, EPOCH_ROLLBACK),
        }
    )

    def detect(
        self, operations: Sequence[CommittedOperation], view: LedgerView
    ) -> Iterable[Implication]:
        """Compare what is observed of the filings around each motion with what should be."""
        concerning: dict[str, list[str]] = {}
        for operation in operations:
            for motion in dict.fromkeys(_motions(operation, view)):
                concerning.setdefault(motion, []).append(operation.operation_id)
        for motion, operation_ids in concerning.items():
            implied_by = tuple(dict.fromkeys(operation_ids))[:MAX_CAUSAL_PARENTS]
            for intent in _observations(motion, implied_by, view):
                yield Implication(intent=intent, implied_by_operation_ids=implied_by)


def _motions(operation: CommittedOperation, view: LedgerView) -> Iterator[str]:
    """Yield the motions of which an operation changes what is known."""
    for effect in operation.effects:
        kind, target = EFFECT_KINDS.get(effect["effect_kind"]), effect.get("target_ref")
        if kind is None or target is None:
            continue
        if kind.store == RELATIONSHIPS.table.name:
            relationship = view.record(RELATIONSHIPS.table, target)
            motion = relationship and relationship["payload"].get("target_filing_unit_id")
            yield from (motion,) if motion else ()
        elif kind.store == OBSERVATIONS.table.name:
            observation = view.record(OBSERVATIONS.table, target)
            yield from (
                () if observation is None else _motions_ruled_on(observation["payload"], view)
            )


def _motions_ruled_on(observed: Document, view: LedgerView) -> Iterator[str]:
    """Yield the motions on which the entry of an observation rules."""
    entry_ref = observed.get("docket_entry_ref")
    if "filing_unit_id" in observed or not isinstance(entry_ref, str):
        return
    order = filing_unit_of(view, entry_ref)
    if order is None:
        return
    for relationship in relationships_of(view, "source", order, limit=RELATED_MAX):
        payload = relationship["payload"]
        if payload["relationship_type"] == "rules_on" and "target_filing_unit_id" in payload:
            yield payload["target_filing_unit_id"]


def _observations(
    motion: str, implied_by: tuple[str, ...], view: LedgerView
) -> Iterator[ObserveDisposition]:
    """Yield the observations of what waits on a motion that differ from those on record."""
    related = relationships_of(view, "target", motion, limit=RELATED_MAX)
    rulings = [
        ruling
        for relationship in related
        if relationship["payload"]["relationship_type"] == "rules_on"
        and (ruling := _ruling(relationship, view)) is not None
    ]
    for relationship in related if rulings else ():
        payload = relationship["payload"]
        if payload["relationship_type"] not in WAITING:
            continue
        for ruling in rulings:
            observation_id = derived_id(
                "court-disposition-of", digest([payload["source_filing_unit_id"], ruling.unit])
            )
            observation = _due(motion, relationship, ruling, observation_id, view)
            if observation is not None:
                yield ObserveDisposition(
                    intent_key=digest([observation_id, *implied_by]),
                    observation_id=observation_id,
                    observation=observation,
                    source_refs=_sources(view, ruling, payload["source_filing_unit_id"]),
                )


def _due(
    motion: str, relationship: Document, ruling: _Ruling, observation_id: str, view: LedgerView
) -> Document | None:
    """Return what is to be observed of a filing; None where the record has it, or it is decided."""
    confidence, waiting = _confidence(relationship), relationship["payload"]
    before = view.record(OBSERVATIONS.table, observation_id)
    stands = None if before is None or before["state"] not in LIVE else before["payload"]
    if stands is not None and stands["lifecycle_state"] != "observed":
        return None
    if confidence is None or ruling.confidence is None:
        return None if stands is None else stands | {"lifecycle_state": "withdrawn"}
    stated = {
        "disposition": NO_LONGER_PENDING,
        "lifecycle_state": "observed",
        **{name: ruling.observed[name] for name in _DATE},
        "docket_entry_ref": ruling.entry_ref,
        "filing_unit_id": waiting["source_filing_unit_id"],
        "motion_filing_unit_id": motion,
        "order_filing_unit_id": ruling.unit,
        "order_disposition": ruling.observed["disposition"],
        "identity_confidence": min(confidence, ruling.confidence),
    }
    return None if stands == stated else stated


def _ruling(relationship: Document, view: LedgerView) -> _Ruling | None:
    """Return the order of a relationship; None where its entry was never observed."""
    unit = relationship["payload"]["source_filing_unit_id"]
    entry_ref = document_of_unit(view, unit)
    if entry_ref is None:
        return None
    observation = view.record(OBSERVATIONS.table, derived_id("court-disposition", entry_ref))
    if observation is None:
        return None
    observed = observation["payload"]
    is_observed = observation["state"] in LIVE and observed["lifecycle_state"] in (
        "observed",
        "confirmed",
    )
    ends = not ENDS_A_MOTION.isdisjoint(observed["disposition"].split("; "))
    entry = read_artifact(view, entry_ref)
    leaves_open = entry is not None and entry.text is not None and is_interim(entry.text)
    confidence = _confidence(relationship) if is_observed and ends and not leaves_open else None
    return _Ruling(unit, entry_ref, observed, confidence)


def _confidence(relationship: Document) -> float | None:
    """Return how sure a relationship is; None where it does not stand."""
    state = relationship_state(relationship)
    confidence: float = relationship["payload"].get("identity_confidence") or 0.0
    if state == "confirmed":
        return 1.0
    return confidence if state == "candidate" and confidence >= CLOSING_CONFIDENCE else None


def _sources(view: LedgerView, ruling: _Ruling, unit: str) -> tuple[str, ...]:
    refs = (ruling.entry_ref, document_of_unit(view, unit))
    return tuple(
        ref
        for ref in dict.fromkeys(refs)
        if ref is not None and (node := view.node(ref)) is not None and node["state"] == "active"
    )


DETECTORS: tuple[ImplicationDetector, ...] = (DisposedMotions(),)
"""The detectors that a gateway runs."""
