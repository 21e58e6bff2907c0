"""A pair from its event to its end (§13.2, §13.4): it ends with the request that it asked for."""

import pytest

from tests.kernel import binding_world
from tests.kernel.bindings.routed import (
    CONVERSION,
    brought,
    completed,
    created,
    disabled,
    open_evaluations,
    selector,
    states_of,
)
from tests.kernel.build import accept, create, findings, memory_ledger

pytestmark = [pytest.mark.spec("004 §13.2"), pytest.mark.spec("004 §13.4")]

DOCKET = selector("source_kind", "docket")
MEMBERSHIP = {"target_kind": "corpus_document_membership", "corpus_id": "watched"}
PAPER = selector("content_type", "text/plain")


@pytest.mark.parametrize(
    ("content_type", "state"), [("text/plain", "fired"), ("image/png", "no_match")]
)
def test_an_evaluation_by_the_record_ends_the_pair_that_asked_for_it(content_type, state):
    ledger = memory_ledger()
    accept(ledger, create("corpus", "Corpus"), created("b1", DOCKET, PAPER, **MEMBERSHIP))
    accept(ledger, brought("a1", source_kind="docket"))
    accept(ledger, completed(ledger, "a1", CONVERSION, content_type=content_type))
    [request] = open_evaluations(ledger)
    assert binding_world.work(ledger, request.request_id)[0] == "completed"
    assert states_of(ledger) == {("b1", "a1"): state}
    assert findings(ledger) == ()


def test_a_pair_whose_binding_was_disabled_meanwhile_does_not_end():
    ledger = memory_ledger()
    accept(ledger, create("corpus", "Corpus"), created("b1", DOCKET, **MEMBERSHIP))
    accept(ledger, brought("a1", source_kind="docket"), disabled("b1"))
    [request] = open_evaluations(ledger)
    assert binding_world.work(ledger, request.request_id)[0] == "completed"
    assert states_of(ledger) == {("b1", "a1"): "ready_to_evaluate"}
    assert findings(ledger) == ()
