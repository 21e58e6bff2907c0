"""Fires and manifests under kill -9: a manifest a cycle, one outcome and one fire a binding."""

from collections import Counter
from pathlib import Path

import pytest

from kernel.audit.manifests import manifests_of
from kernel.ledger.ledger import Ledger
from kernel.model.bindings.artifacts import read_artifact
from kernel.model.bindings.outcomes import FIRED, SUSPENDED
from kernel.work.contents import BINDING_QUEUE
from kernel.work.manifests import differences
from kernel.work.reports import BindingSuspended
from tests.kernel.binding_world import EVENT, bound, furnish, report, work
from tests.kernel.build import everything, findings, receipts_of_kind
from tests.system.killed_at_steps import killed_at_each_step, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KINDS = ("corpus_document_membership", "extraction_task")

Evaluated = tuple[str, str]
"""A binding and the event that it was evaluated against."""


def requests_of(ledger: Ledger) -> dict[str, Evaluated]:
    """The open requests of one event, which the routing of the bindings has asked for."""
    with ledger.view() as view:
        artifact = read_artifact(view.node(EVENT))
        assert artifact is not None
        requests = view.open_requests_of(BINDING_QUEUE, artifact.source_event_id)
    contents = {request.request_id: request.document["content"] for request in requests}
    return {
        request_id: (content["binding_id"], content["source_event_id"])
        for request_id, content in contents.items()
    }


def work_all(ledger: Ledger) -> None:
    """Do what a worker does: evaluate whatever is open; the first has to wait once."""
    first, *others = requests_of(ledger) or [None]
    if others:
        report(ledger, BindingSuspended(request_id=first))
    for request_id in (*others, first):
        if request_id is not None:
            work(ledger, request_id)


def fires(ledger: Ledger) -> Counter[Evaluated]:
    return Counter(
        (fired["binding_id"], fired["source_event_id"])
        for fired in receipts_of_kind(ledger, "binding_fire_record")
    )


@pytest.mark.spec("INV-K-MANIFEST-DURABLE-1", "§13.7", "§15.2", "§15.4", "§15.6", "K25", "K34")
def test_whatever_the_step_each_cycle_has_one_manifest_and_nothing_fires_twice(
    tmp_path: Path,
) -> None:
    begun = tmp_path / "begun.db"
    ledger = opened(begun)
    furnish(ledger, *(bound(kind, kind) for kind in KINDS))
    requests = requests_of(ledger)
    ledger.close()

    left, sound = set(), set[str]()
    for step, path, _ in killed_at_each_step(begun, work_all):
        ledger = opened(path, process=2)
        left.add(sum(fires(ledger).values()))
        work_all(ledger)
        assert fires(ledger) == dict.fromkeys(requests.values(), 1), step
        content = repr(everything(ledger))
        if content not in sound:
            sound.add(content)
            check(ledger, requests)
        ledger.close()
    # Before the first fire, after each one, after all.
    assert left == set(range(len(requests) + 1))


def check(ledger: Ledger, requests: dict[str, Evaluated]) -> None:
    assert findings(ledger) == ()
    for event in {event for _, event in requests.values()}:
        with ledger.view() as view:
            bodies = [shown.body for shown in manifests_of(view, event).manifests]
            assert [differences(view, body) for body in bodies] == [[]] * len(bodies)
        assert [body["cycle"] for body in bodies] == list(range(1, len(bodies) + 1))
        outcomes = [outcome for body in bodies for outcome in body["binding_outcomes"]]
        ended = [outcome for outcome in outcomes if outcome["outcome_state"] != "pending"]
        assert sorted(outcome["outcome_id"] for outcome in ended) == sorted(
            f"outcome:{request_id}"
            for request_id, (_, asked_of) in requests.items()
            if asked_of == event
        )
        assert {outcome["outcome_reason_code"] for outcome in ended} == {FIRED}
        pending = {outcome["outcome_reason_code"] for outcome in outcomes if outcome not in ended}
        assert pending <= {SUSPENDED}
