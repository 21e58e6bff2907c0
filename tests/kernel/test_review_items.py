"""What a conflict or migration holds back is taken by whoever decides so (§2.8, §19.3)."""

import pytest

from kernel.audit.adjudications import adjudications
from kernel.audit.recent_decisions import recent_decisions
from kernel.ledger.ledger import Ledger
from kernel.migration.job import migrate
from kernel.migration.review_items import discard, take
from kernel.model.envelope import ItemDecision
from kernel.model.receipt import MIGRATION_KIND
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.records.reviews.errors import ReviewRefused
from kernel.rollback.envelopes import scope_of
from kernel.transaction.kernel import Kernel
from tests.kernel.build import adapt, code_of, findings, memory_ledger, submit
from tests.kernel.held import REVIEW, a_conflict, an_operation_of_version_1_5

ADA = ItemDecision(decided_by="ada", grounds="I have read both")
BEA = ItemDecision(decided_by="bea", grounds="so have I")
SCOPE = {"affected_subgraph_descriptor": scope_of(["m"])}


def taken(
    ledger: Ledger, receipt_id: str, decision: ItemDecision = ADA, **supplied: object
) -> SubmissionResult | RejectedResult:
    with ledger.transaction() as transaction:
        return take(Kernel(), transaction, receipt_id, decision, supplied)


def held(ledger: Ledger) -> str:
    with ledger.view() as view:
        [item] = adjudications(view, kind=MIGRATION_KIND).items
    return str(item.receipt["receipt_id"])


@pytest.mark.spec("§19.3")
def test_a_conflict_is_taken_once_by_an_operation_that_says_who_and_why() -> None:
    ledger = memory_ledger()
    receipt_id = a_conflict(ledger)
    result, again = taken(ledger, receipt_id), taken(ledger, receipt_id)
    assert code_of(result) is None
    assert again.operation_id == result.operation_id
    with pytest.raises(ReviewRefused, match="it is settled since") as refused:
        taken(ledger, receipt_id, BEA)
    assert refused.value.code == "review_decided_meanwhile"
    with ledger.view() as view:
        assert view.node("n")["payload"]["cites_refs"] == ["n-a", "n-b"]
        assert adjudications(view).items == ()
        [decided] = recent_decisions(view)["decisions"]
        envelope = view.envelope(str(result.operation_id))
    assert (decided["decision"], decided["record_id"]) == ("taken", receipt_id)
    assert (decided["decided_by"], decided["grounds"]) == ("ada", "I have read both")
    assert (envelope["actor"], envelope["adjudicates_receipt_ids"]) == ("user", [receipt_id])
    assert not findings(ledger)


@pytest.mark.spec("§19.3")
def test_a_taking_that_is_refused_leaves_the_item_open() -> None:
    """Somebody wrote the record again meanwhile; the new item settles the old one as well."""
    ledger = memory_ledger()
    first = a_conflict(ledger)
    with ledger.view() as view:
        seen = view.node("n")["updated_by_operation_id"]
    parents = {"causal_parent_operation_ids": [seen]}
    assert code_of(submit(ledger, adapt("n", envelope_changes=parents, cites_refs=["n-b"]))) is None
    result = taken(ledger, first)
    assert code_of(result) == REVIEW
    with ledger.view() as view:
        waiting = [item.receipt["receipt_id"] for item in adjudications(view).items]
    assert waiting == [first, result.receipt_id]
    assert code_of(taken(ledger, str(result.receipt_id))) is None
    with ledger.view() as view:
        assert adjudications(view).items == ()


@pytest.mark.spec("§2.8")
def test_what_migration_holds_is_taken_with_what_it_lacks() -> None:
    ledger = memory_ledger()
    an_operation_of_version_1_5(ledger)
    receipt_id = held(ledger)
    refusals = (
        ({}, "requires affected"),
        ({"actor": "user"}, "may be supplied"),
        ({"primitive_effects": [1]}, "an object"),
        ({"source_refs": "s"}, "list|array"),
        ({"source_refs": ["\ud800"]}, "utf-8|surrogates"),
    )
    for supplied, said in refusals:
        with pytest.raises(ReviewRefused, match=said) as refused:
            taken(ledger, receipt_id, **supplied)
        assert refused.value.code == "review_item_incomplete"
    assert code_of(taken(ledger, receipt_id, **SCOPE)) is None
    with ledger.view() as view:
        assert view.node("m")["payload"]["title"] == "old"
    migration = migrate(Kernel(), ledger)
    assert (migration.settled, migration.complete) == (1, True)
    assert not findings(ledger)


@pytest.mark.spec("§2.8")
def test_what_is_supplied_is_judged_as_a_callers() -> None:
    """A name that the runtime alone gives is refused, and the item stays open."""
    ledger = memory_ledger()
    an_operation_of_version_1_5(ledger, "run:extraction:1", primitive_effects=None)
    receipt_id = held(ledger)
    effects = [{"effect_kind": "node_create", "target_ref": "run:extraction:1"}]
    odd = [{}, {"target_ref": {}}, {"payload": 1}, {"effect_kind": 1, "payload": {"x": "\x00"}}]
    for each in (effects, odd):
        result = taken(ledger, receipt_id, **SCOPE, primitive_effects=each)
        assert isinstance(result, RejectedResult), result
        assert held(ledger) == receipt_id


def test_what_holds_nothing_back_is_not_taken() -> None:
    ledger = memory_ledger()
    receipt_id = a_conflict(ledger)
    with pytest.raises(ReviewRefused) as refused:
        taken(ledger, "receipt:nobody's")
    assert refused.value.code == "review_item_unknown"
    with pytest.raises(ReviewRefused, match="nothing may be supplied"):
        taken(ledger, receipt_id, source_refs=[])
    with ledger.transaction() as transaction:
        assert code_of(discard(Kernel(), transaction, receipt_id, "settled")) is None
    with pytest.raises(ReviewRefused, match="it is settled since"):
        taken(ledger, receipt_id)
