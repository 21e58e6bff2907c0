"""An order that disposes of a motion implies the state of what waited on it (§19.1, §13.6)."""

from itertools import permutations

import pytest

from actors.commit.units import IntentUnit
from actors.orchestrator.intents import Adjudicate
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from tests.actors.harness import bench_on
from tests.kernel.build import accept, code_of, findings, memory_ledger
from tests.kernel.every import dated, own
from tests.workers.implications.docketed import (
    BANKRUPTCY,
    DISTRICT,
    MOTION,
    OBSERVES,
    OPPOSITION,
    ORDER,
    RELATES,
    REPLY,
    enter,
    fire,
    implied,
    imply,
    ref,
    unit,
)
from workers.implications.disposed_motions import DETECTORS, DisposedMotions

BRIDGE = pytest.mark.spec("INV-A-BRIDGE-1", "§19.1")
RELATION = "filing_relationship_write"
DETECTOR = DisposedMotions()
EVIDENCE = ((OPPOSITION, RELATES), (REPLY, RELATES), (ORDER, RELATES), (ORDER, OBSERVES))
WAITED = {unit(OPPOSITION), unit(REPLY)}


def docketed(entries=DISTRICT, evidence=EVIDENCE):
    """A ledger with entries, on which the bindings have fired."""
    ledger = memory_ledger()
    enter(ledger, entries)
    for position, kind in evidence:
        assert fire(ledger, position, kind) == "binding_fired"
    return ledger


def with_order(text, entries=DISTRICT):
    """Entries whose order says something else."""
    return (*entries[:ORDER], (entries[ORDER][0], text))


def decide(ledger, kind, record_id, decision):
    intent = Adjudicate(
        intent_key=f"{record_id}:{decision}",
        kind=kind,
        record_id=record_id,
        decision=decision,
        adjudicated_by="A. Clerk",
        grounds="read it",
        normalized_label="read",
    )
    with bench_on(ledger) as context:
        result = IntentUnit(intent, None, "user").run(context)
    assert code_of(result) is None


def relationship_of(ledger, position):
    with ledger.view() as view:
        where = {"source_filing_unit_id": unit(position)}
        [row] = view.tables.scan(TableQuery(schema.filing_relationships, where))
    return row["filing_relationship_id"]


def lifecycles(ledger):
    return {filing: stated["lifecycle_state"] for filing, stated in implied(ledger).items()}


def test_the_shipped_detectors_are_those_of_dockets():
    assert [detector.name for detector in DETECTORS] == ["disposed_motions"]


@BRIDGE
@pytest.mark.parametrize("entries", [DISTRICT, BANKRUPTCY], ids=["district", "bankruptcy"])
def test_an_order_that_disposes_of_a_motion_ends_what_waited_on_it(entries):
    ledger = docketed(entries)
    [run] = imply(ledger, DETECTOR)
    assert (len(run.operation_ids), run.refused) == (2, ())
    stated = implied(ledger)
    assert stated.keys() == WAITED
    for filing in stated.values():
        assert filing["disposition"] == "no_longer_pending"
        assert filing["order_disposition"] == "granted"
        assert filing["motion_filing_unit_id"] == unit(MOTION)
        assert filing["order_filing_unit_id"] == unit(ORDER)
        assert filing["docket_entry_ref"] == ref(ORDER)
        assert filing["identity_confidence"] >= 0.9
    with ledger.view() as view:
        envelopes = [view.envelope(operation_id) for operation_id in run.operation_ids]
    assert {envelope["implication"]["implication_epoch"] for envelope in envelopes} == {1}
    assert {source for envelope in envelopes for source in envelope["source_refs"]} == {
        ref(ORDER),
        ref(OPPOSITION),
        ref(REPLY),
    }
    assert findings(ledger) == ()


@pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")
def test_what_is_implied_is_evidence_and_decides_nothing():
    ledger = docketed()
    imply(ledger, DETECTOR)
    assert set(lifecycles(ledger).values()) == {"observed"}
    with ledger.view() as view:
        assert view.tables.count(TableQuery(schema.ruling_dispositions)) == 0


@BRIDGE
@pytest.mark.parametrize("order", list(permutations(EVIDENCE)))
def test_the_same_follows_whichever_evidence_came_last(order):
    ledger = docketed(evidence=())
    for position, kind in order:
        fire(ledger, position, kind)
        imply(ledger, DETECTOR)
    assert implied(ledger) == implied_at_once()
    assert imply(ledger, DETECTOR) == []


def implied_at_once():
    ledger = docketed()
    imply(ledger, DETECTOR)
    return implied(ledger)


@BRIDGE
def test_its_own_operations_imply_nothing_further():
    ledger = docketed()
    assert len(imply(ledger, DETECTOR)) == 1
    assert imply(ledger, DETECTOR) == []


@BRIDGE
@pytest.mark.parametrize(
    "text",
    [
        "ORDER re 19 MOTION for Summary Judgment. Ruling is continued to 8/1/10.",
        "Interim ORDER granting 19 Motion for Summary Judgment.",
    ],
    ids=["continued", "interim"],
)
def test_an_order_that_leaves_the_motion_open_implies_nothing(text):
    ledger = docketed(with_order(text))
    assert imply(ledger, DETECTOR) == []


@BRIDGE
def test_what_may_be_about_another_motion_implies_nothing_until_a_person_confirms_it():
    """Words alone may be meant for another motion of the kind."""
    unnumbered = "REPLY Memorandum in Support of Motion for Summary Judgment filed by B. C. Inc."
    ledger = docketed((*DISTRICT[:REPLY], ("26", unnumbered), DISTRICT[ORDER]))
    imply(ledger, DETECTOR)
    assert lifecycles(ledger) == {unit(OPPOSITION): "observed"}
    decide(ledger, "relationship", relationship_of(ledger, REPLY), "confirm")
    imply(ledger, DETECTOR)
    assert lifecycles(ledger) == dict.fromkeys(WAITED, "observed")
    assert findings(ledger) == ()


@BRIDGE
def test_what_is_no_longer_implied_is_withdrawn():
    ledger = docketed()
    imply(ledger, DETECTOR)
    decide(ledger, "relationship", relationship_of(ledger, REPLY), "reject")
    imply(ledger, DETECTOR)
    assert lifecycles(ledger) == {unit(OPPOSITION): "observed", unit(REPLY): "withdrawn"}
    decide(ledger, "observation", f"court-disposition:{ref(ORDER)}", "reject")
    imply(ledger, DETECTOR)
    assert lifecycles(ledger) == dict.fromkeys(WAITED, "withdrawn")
    assert findings(ledger) == ()


@BRIDGE
def test_what_a_person_has_confirmed_stays():
    ledger = docketed()
    imply(ledger, DETECTOR)
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.court_disposition_observations))
        [implied_id] = [
            row["observation_id"] for row in rows if unit(REPLY).encode() in row["record"]
        ]
    decide(ledger, "observation", implied_id, "confirm")
    decide(ledger, "observation", f"court-disposition:{ref(ORDER)}", "reject")
    imply(ledger, DETECTOR)
    assert lifecycles(ledger) == {unit(OPPOSITION): "withdrawn", unit(REPLY): "confirmed"}


@pytest.mark.spec("INV-A-TAINT-INFECTIOUS-1")
def test_what_is_implied_is_as_restricted_as_the_order():
    ledger = memory_ledger()
    enter(ledger, DISTRICT)
    accept(ledger, own("visibility_change", ref(ORDER), visibility_class="sealed"))
    for position, kind in EVIDENCE:
        fire(ledger, position, kind)
    [run] = imply(ledger, DETECTOR)
    with ledger.view() as view:
        envelopes = [view.envelope(operation_id) for operation_id in run.operation_ids]
    assert {each["resolved_output_visibility_class"] for each in envelopes} == {"sealed"}


@BRIDGE
def test_a_filing_without_a_document_implies_nothing_and_fails_nobody():
    ledger = docketed(evidence=EVIDENCE[:2])
    bare = own("filing_unit_write", "bare", **dated("filing_date"))
    stated = {"relationship_type": "rules_on", "source_filing_unit_id": "bare"}
    stated |= {"lifecycle_state": "candidate", "identity_confidence": 0.99}
    about = own(RELATION, "fr-1", target_filing_unit_id=unit(MOTION), **stated)
    unmatched = own(RELATION, "fr-2", unmatched_expires_at="2030-02-09T12:00:00Z", **stated)
    accept(ledger, bare, about, unmatched)
    assert imply(ledger, DETECTOR) == []
