"""V3 of a fire: the effect of its target kind, as evidence, by the orchestrator (§13.5, §13.6)."""

from itertools import permutations

import pytest

from kernel.model.bindings.dispatch import TARGETS
from kernel.model.result import SubmissionResult
from tests.kernel.binding_world import CASE, EVENT, KINDS, bound, furnish
from tests.kernel.build import effect, envelope, memory_ledger, submit
from tests.kernel.every import dated, own, says

EFFECTS = {
    "corpus_document_membership": effect(
        "membership_write", EVENT, corpus_id="corpus:watched", to_state="candidate"
    ),
    "case_metadata_update": effect("node_write", CASE, court_id="azb"),
    "relationship_candidate": effect(
        "filing_relationship_write",
        "r",
        relationship_type="rules_on",
        source_filing_unit_id="unit:docket-entry:d#1",
        target_filing_unit_id="unit:docket-entry:d#0",
        lifecycle_state="candidate",
    ),
    "court_disposition_observation": effect(
        "court_disposition_observation_write",
        "o",
        disposition="granted",
        lifecycle_state="observed",
        **dated("docket_entry_date"),
    ),
    "extraction_task": says("binding_fire_record"),
}
ADJUDICATING = {
    "a ruling": own(
        "ruling_disposition_write",
        "ruling",
        dispositions=[{"disposition": "granted"}],
        scope_targets=["n"],
        **dated("ruling_date"),
    ),
    "a confirmed relationship": envelope(
        "filing_relationship_write",
        [
            EFFECTS["relationship_candidate"]
            | {
                "payload": EFFECTS["relationship_candidate"]["payload"]
                | {"lifecycle_state": "confirmed"}
            }
        ],
    ),
    "a relationship that does not say what it is": envelope(
        "filing_relationship_write",
        [
            EFFECTS["relationship_candidate"]
            | {
                "payload": {
                    name: value
                    for name, value in EFFECTS["relationship_candidate"]["payload"].items()
                    if name != "lifecycle_state"
                }
            }
        ],
    ),
}


@pytest.fixture
def ledger():
    ledger = memory_ledger()
    furnish(ledger, *(bound(kind, kind) for kind in KINDS))
    return ledger


def fire(kind, *effects, binding=None):
    target = TARGETS[kind]
    document = envelope(target.verb, list(effects or (EFFECTS[kind],)))
    return marked(document, binding or kind)


def marked(document, binding, generation="1"):
    stated = {
        "binding_id": binding,
        "binding_generation_id": generation,
        "source_event_id": EVENT,
    }
    return document | {"binding_fire": stated, "actor": "system"}


def refusal(ledger, document, submitter="orchestrator"):
    result = submit(ledger, document, submitter=submitter)
    assert not isinstance(result, SubmissionResult)
    return result.rejection.check, result.rejection.reason_code, result.rejection.field


@pytest.mark.spec("INV-K-TARGET-1")
@pytest.mark.parametrize("kind", KINDS)
def test_a_fire_of_its_target_kind_passes(ledger, kind):
    assert isinstance(submit(ledger, fire(kind), submitter="orchestrator"), SubmissionResult)


@pytest.mark.spec("INV-K-TARGET-1")
@pytest.mark.parametrize(("kind", "other"), [*permutations(KINDS, 2)])
def test_a_binding_writes_nothing_of_another_target_kind(ledger, kind, other):
    assert refusal(ledger, fire(other, binding=kind)) == (
        "V3",
        "binding_fire_effect_not_of_target",
        "primitive_effects",
    )


@pytest.mark.spec("INV-K-TARGET-1")
def test_a_fire_writes_its_effect_once_and_into_the_corpus_of_its_binding(ledger):
    kind = "corpus_document_membership"
    twice = [EFFECTS[kind], EFFECTS[kind] | {"effect_id": "again"}]
    assert refusal(ledger, fire(kind, *twice))[1] == "binding_fire_effect_not_of_target"
    elsewhere = effect("membership_write", EVENT, corpus_id="other", to_state="candidate")
    assert refusal(ledger, fire(kind, elsewhere)) == (
        "V3",
        "binding_fire_effect_not_of_target",
        "primitive_effects.0.payload.corpus_id",
    )


@pytest.mark.spec("INV-K-OUTCOME-1")
@pytest.mark.parametrize("name", ADJUDICATING)
@pytest.mark.parametrize("kind", KINDS)
def test_no_fire_decides_anything(ledger, kind, name):
    check, code, _ = refusal(ledger, marked(ADJUDICATING[name], kind))
    assert check == "V3"
    is_own_kind = kind == "relationship_candidate" and name != "a ruling"
    assert code == (
        "binding_fire_adjudicates" if is_own_kind else "binding_fire_effect_not_of_target"
    )


@pytest.mark.spec("INV-K-OUTCOME-1")
@pytest.mark.parametrize("state", ["confirmed", "superseded", "withdrawn"])
def test_what_a_fire_observes_is_observed_and_no_more(ledger, state):
    stated = EFFECTS["court_disposition_observation"]
    decided = stated | {"payload": stated["payload"] | {"lifecycle_state": state}}
    assert refusal(ledger, fire("court_disposition_observation", decided)) == (
        "V3",
        "binding_fire_adjudicates",
        "primitive_effects.0.payload.lifecycle_state",
    )


@pytest.mark.spec("INV-15.7.8")
@pytest.mark.parametrize("kind", KINDS)
def test_a_caller_does_not_say_that_a_binding_fired(ledger, kind):
    document = fire(kind) | {"actor": "user"}
    assert refusal(ledger, document, "caller") == (
        "V3",
        "envelope_actor_unauthorized",
        "binding_fire",
    )


def test_a_caller_emits_no_manifest(ledger):
    document = envelope("binding_fire_record", [says("binding_evaluation_manifest")])
    document["operation_kind"] = "binding_evaluation_manifest_emit"
    assert refusal(ledger, document, "caller")[1:] == (
        "envelope_actor_unauthorized",
        "primitive_effects.0.receipt_subkind",
    )


def test_a_fire_names_a_generation_that_is_on_record(ledger):
    kind = "extraction_task"
    document = marked(fire(kind), kind, generation="2")
    assert refusal(ledger, document) == (
        "V3",
        "binding_generation_unknown",
        "binding_fire.binding_generation_id",
    )
