"""A batch of memberships is reviewed: an operation for each item, and a record of all (§14.4)."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.commit.review_units import BatchReviewUnit
from actors.commit.rollback_units import RollbackOperationUnit
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.stated_receipts import BATCH_ITEMS_MAX
from kernel.records.capacity import CapacityGrant
from kernel.records.reviews.batch import DISPOSITIONS, BatchReview, operation_id_of, recorded_batch
from kernel.records.reviews.errors import ReviewRefused
from kernel.transaction.kernel import Kernel
from kernel.verify import verify
from tests.actors.harness import bench_on
from tests.kernel.build import FakeHost, accept, create

CORPUS = "corpus:test"
BATCH = "BR-1"


@pytest.fixture
def ledger(own_ledger: Ledger) -> Ledger:
    return own_ledger


def propose(ledger: Ledger, *names: str) -> None:
    """Take notes onto the record; each is a candidate of the corpus."""
    for name in names:
        accept(ledger, create(name, "Note", title=name))


def numbered(count: int) -> list[str]:
    return [f"n{number}" for number in range(1, count + 1)]


def member(name: str) -> str:
    return f"{CORPUS}|{name}"


def item(name: str, disposition: str = "confirm", target: str | None = None) -> dict[str, Any]:
    stated = {"item_membership_id": member(name), "disposition": disposition}
    return stated if target is None else stated | {"target_disposition_ref": member(target)}


def batch(*items: dict[str, Any], **changes: Any) -> BatchReview:
    return BatchReview.model_validate(
        {
            "batch_review_id": BATCH,
            "source_batch_id": "ingested-1",
            "item_operations": items,
            **changes,
        }
    )


def do(ledger: Ledger, unit: Any, kernel: Kernel | None = None) -> Any:
    with bench_on(ledger, kernel) as context:
        return unit.run(context)


def review(ledger: Ledger, *items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer: dict[str, Any] = do(ledger, BatchReviewUnit(batch(*items, **changes)))
    return answer


def refused(ledger: Ledger, *items: dict[str, Any], **changes: Any) -> ReviewRefused:
    before = head(ledger)
    with pytest.raises(ReviewRefused) as caught:
        review(ledger, *items, **changes)
    assert head(ledger) == before
    return caught.value


def head(ledger: Ledger) -> int:
    with ledger.view() as view:
        return view.head().ec_sequence_number


def state(ledger: Ledger, name: str) -> str | None:
    with ledger.view() as view:
        record = view.record(schema.corpus_membership_records, member(name))
        return None if record is None else record["state"]


def log(ledger: Ledger) -> list[str]:
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.kernel_event_log, order_by="ec_sequence_number"))
        return [row["semantic_intent"] for row in rows]


def whole(ledger: Ledger) -> None:
    with ledger.view() as view:
        assert verify(view).findings == ()


@pytest.mark.spec("V4-AT-PARTIAL", "INV-K-BATCH-PARTIAL-1", "INV-K-BATCH-1")
def test_v4_at_partial_item_23_of_50_fails_and_the_others_stand(ledger: Ledger) -> None:
    names = numbered(50)
    propose(ledger, *(name for name in names if name != "n23"))
    answer = review(ledger, *map(item, names))
    assert (answer["total_items"], answer["confirm_count"]) == (50, 50)
    assert (answer["success_count"], answer["failure_count"]) == (49, 1)
    [failure] = answer["failure_summary"]
    assert failure == {
        "item_membership_id": member("n23"),
        "failure_reason_code": "record_not_found",
        "failure_message": f"no membership {member('n23')}",
        "retryable": False,
    }
    assert [state(ledger, name) for name in names] == [
        None if name == "n23" else "confirmed" for name in names
    ]
    operation_ids = [operation["operation_id"] for operation in answer["item_operations"]]
    assert len(set(operation_ids)) == 50
    with ledger.view() as view:
        on_record = view.operations_on_record(operation_ids)
        assert len(on_record) == 49
        [receipt] = view.receipts_of(operation_ids[22])
        assert receipt["reason_code"] == "record_not_found"
    assert Counter(log(ledger))["corpus_membership_confirm"] == 49
    assert log(ledger)[-1] == "batch_review"
    whole(ledger)


@pytest.mark.spec("INV-K-BATCH-1", "§14.6")
def test_rolling_three_of_fifty_back_leaves_the_other_47(ledger: Ledger) -> None:
    names = numbered(50)
    propose(ledger, *names)
    answer = review(ledger, *map(item, names))
    wrong = {"n7", "n23", "n50"}
    for name, operation in zip(names, answer["item_operations"], strict=True):
        if name in wrong:
            undone = do(ledger, RollbackOperationUnit(operation["operation_id"]))
            assert undone["result"] == "tier_1_rollback_applied"
    assert [name for name in names if state(ledger, name) == "candidate"] == sorted(
        wrong, key=names.index
    )
    assert Counter(state(ledger, name) for name in names) == {"confirmed": 47, "candidate": 3}
    with ledger.view() as view:
        kept = recorded_batch(view, BATCH)
    assert kept is not None
    assert kept.success_count == 50
    whole(ledger)


@pytest.mark.spec("§14.4")
def test_each_disposition_is_an_operation_of_its_own_verb(ledger: Ledger) -> None:
    propose(ledger, "a", "b", "d", "s", "m", "kept")
    accept(ledger, create("part", "Note", title="part") | in_another_corpus())
    answer = review(
        ledger,
        item("a", "confirm"),
        item("b", "reject"),
        item("d", "defer"),
        item("s", "split", "part"),
        item("m", "merge_with", "kept"),
    )
    assert answer["failure_count"] == 0, answer
    assert log(ledger)[-6:] == [
        "corpus_membership_confirm",
        "corpus_membership_reject",
        "corpus_membership_defer",
        "corpus_membership_add",
        "corpus_membership_reject",
        "batch_review",
    ]
    names = ("a", "b", "d", "s", "part", "m", "kept")
    assert [state(ledger, name) for name in names] == [
        *("confirmed", "rejected", "candidate", "candidate", "candidate", "rejected", "candidate"),
    ]
    with ledger.view() as view:
        part = view.record(schema.corpus_membership_records, member("part"))
        merged = view.record(schema.corpus_membership_records, member("m"))
        deferred = view.record(schema.corpus_membership_records, member("d"))
    assert part["split_from"] == member("s")
    assert merged["merged_into"] == member("kept")
    assert (deferred["transition_kind"], deferred["version"]) == ("defer", 2)
    for operation in answer["item_operations"]:
        do(ledger, RollbackOperationUnit(operation["operation_id"]))
    assert [state(ledger, name) for name in names] == [
        *("candidate",) * 4,
        None,
        *("candidate",) * 2,
    ]
    whole(ledger)


def in_another_corpus() -> dict[str, Any]:
    made = create("part", "Note", title="part")
    made["primitive_effects"][1]["payload"]["corpus_id"] = "other"
    return {"primitive_effects": made["primitive_effects"]}


@pytest.mark.spec("§14.4", "K6")
def test_the_same_batch_sent_again_is_answered_from_its_record(ledger: Ledger) -> None:
    propose(ledger, "a", "b")
    first = review(ledger, item("a"), item("b", "reject"))
    before = head(ledger)
    again = review(ledger, item("a"), item("b", "reject"))
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert again | {"duplicate": False} == first
    assert head(ledger) == before
    other = refused(ledger, item("a"), item("b"))
    assert (other.code, other.field) == ("batch_review_conflict", "batch_review_id")


@pytest.mark.spec("INV-K-BATCH-PARTIAL-1")
def test_a_retry_touches_what_failed_and_has_new_operations(ledger: Ledger) -> None:
    propose(ledger, "a")
    first = review(ledger, item("a"), item("b"))
    propose(ledger, "b")
    retry = {"batch_review_id": "BR-2", "prior_batch_review_ref": BATCH}
    second = review(ledger, item("b"), **retry)
    assert (second["success_count"], second["prior_batch_review_ref"]) == (1, BATCH)
    ids = [operation["operation_id"] for operation in first["item_operations"]]
    assert second["item_operations"][0]["operation_id"] not in ids
    with ledger.view() as view:
        assert (
            recorded_batch(view, BATCH).model_dump(exclude_none=True) | {"duplicate": False}
            == first
        )
        row = view.log_row_of(operation_id_of("BR-2"))
        envelope = view.envelope(row["operation_id"])
    assert envelope["causal_parent_operation_ids"] == [operation_id_of(BATCH)]
    whole(ledger)


@pytest.mark.spec("INV-K-BATCH-PARTIAL-1")
def test_a_retry_of_what_did_not_fail_is_refused(ledger: Ledger) -> None:
    propose(ledger, "a", "c")
    review(ledger, item("a"), item("b"))
    for name in ("a", "c"):
        retry = {"batch_review_id": "BR-2", "prior_batch_review_ref": BATCH}
        error = refused(ledger, item(name), **retry)
        assert error.code == "batch_review_item_not_failed"
        assert error.field == "item_operations.0.item_membership_id"
    unknown = refused(ledger, item("b"), batch_review_id="BR-2", prior_batch_review_ref="BR-0")
    assert (unknown.code, unknown.field) == ("batch_review_unknown", "prior_batch_review_ref")
    of_another = {"batch_review_id": "BR-2", "prior_batch_review_ref": BATCH}
    other = refused(ledger, item("b"), source_batch_id="ingested-2", **of_another)
    assert other.code == "batch_review_unknown"


CONTRADICTING: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "an item twice": (
        [item("a"), item("b"), item("a", "reject")],
        "batch_review_item_repeated",
        "item_operations.2",
    ),
    "the part of a split that is an item": (
        [item("a", "split", "b"), item("b")],
        "batch_review_item_repeated",
        "item_operations.1",
    ),
    "two splits into one part": (
        [item("a", "split", "p"), item("b", "split", "p")],
        "batch_review_item_repeated",
        "item_operations.1",
    ),
    "a merge into itself": (
        [item("a"), item("b", "merge_with", "b")],
        "batch_review_item_invalid",
        "item_operations.1.target_disposition_ref",
    ),
    "a merge into nothing": (
        [item("a", "merge_with")],
        "batch_review_item_invalid",
        "item_operations.0.target_disposition_ref",
    ),
    "a confirmation with a target": (
        [item("a", "confirm", "b")],
        "batch_review_item_invalid",
        "item_operations.0.target_disposition_ref",
    ),
    "a merge into another corpus": (
        [item("a", "merge_with") | {"target_disposition_ref": "other|b"}],
        "batch_review_item_invalid",
        "item_operations.0.target_disposition_ref",
    ),
}


@pytest.mark.spec("§14.4")
@pytest.mark.parametrize("case", CONTRADICTING)
def test_a_batch_that_contradicts_itself_is_refused_whole(ledger: Ledger, case: str) -> None:
    propose(ledger, "a", "b")
    items, code, field = CONTRADICTING[case]
    error = refused(ledger, *items)
    assert (error.code, error.field) == (code, field)
    assert (state(ledger, "a"), state(ledger, "b")) == ("candidate", "candidate")


@pytest.mark.spec("§14.4")
@pytest.mark.parametrize(
    ("stated", "code"),
    [
        (item("gone"), "record_not_found"),
        (item("done"), "membership_transition_disallowed"),
        (item("done", "reject"), "membership_transition_disallowed"),
        (item("done", "defer"), "membership_transition_disallowed"),
        (item("a", "merge_with", "gone"), "record_reference_missing"),
        (item("a", "merge_with", "dropped"), "record_reference_missing"),
        (item("gone", "split", "part"), "record_reference_missing"),
        (item("done", "split", "part"), "record_reference_missing"),
        (item("a", "split", "done"), "membership_transition_disallowed"),
    ],
)
def test_what_the_record_does_not_admit_fails_the_item_alone(
    ledger: Ledger, stated: dict[str, Any], code: str
) -> None:
    propose(ledger, "a", "b", "done", "dropped")
    review(ledger, item("done"), item("dropped", "reject"), batch_review_id="BR-0")
    before = {name: state(ledger, name) for name in ("a", "done", "dropped", "part")}
    answer = review(ledger, stated, item("b"))
    [failure] = answer["failure_summary"]
    assert (failure["failure_reason_code"], failure["retryable"]) == (code, False)
    assert {name: state(ledger, name) for name in before} == before
    assert state(ledger, "b") == "confirmed"
    whole(ledger)


class Spent:
    """Capacity for the first few operations of a run."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def lease(self, operation_kind: str, priority: str) -> CapacityGrant:
        del operation_kind, priority
        self.left -= 1
        return CapacityGrant(self.left >= 0, 1.0 if self.left >= 0 else 0.0, "lease")

    def draw(self, operation_kind: str, priority: str, cost: float) -> None:
        """Count nothing."""


@pytest.mark.spec("INV-K-BATCH-PARTIAL-1", "§18.2")
def test_capacity_that_ends_in_the_middle_fails_the_rest_and_they_are_retried(
    ledger: Ledger,
) -> None:
    propose(ledger, "a", "b", "c")
    unit = BatchReviewUnit(batch(item("a"), item("b"), item("c")))
    answer = do(ledger, unit, Kernel(capacity=Spent(1)))
    assert [failure["item_membership_id"] for failure in answer["failure_summary"]] == [
        member("b"),
        member("c"),
    ]
    assert all(
        (failure["failure_reason_code"], failure["retryable"])
        == ("envelope_capacity_unavailable", True)
        for failure in answer["failure_summary"]
    )
    assert [state(ledger, name) for name in "abc"] == ["confirmed", "candidate", "candidate"]
    retry = {"batch_review_id": "BR-2", "prior_batch_review_ref": BATCH}
    assert review(ledger, item("b"), item("c"), **retry)["success_count"] == 2
    whole(ledger)


@pytest.mark.spec("§14.4")
def test_a_node_in_two_corpora_has_two_items(ledger: Ledger) -> None:
    propose(ledger, "a")
    accept(ledger, in_corpus("a", "other"))
    answer = review(ledger, item("a"), item("a") | {"item_membership_id": "other|a"})
    assert answer["success_count"] == 2, answer


def in_corpus(name: str, corpus_id: str) -> dict[str, Any]:
    made = create(f"{name}-again", "Note", title=name)
    effect = made["primitive_effects"][1] | {"target_ref": name}
    effect["payload"] = {"corpus_id": corpus_id}
    return made | {
        "operation_kind": "corpus_membership_add",
        "semantic_intent": "corpus_membership_add",
        "primitive_effects": [effect],
        "target_refs": [name],
        "write_set_refs": [name],
        "affected_subgraph_descriptor": made["affected_subgraph_descriptor"]
        | {"affected_node_refs": [name], "scope_kind": "single_node"},
    }


@pytest.mark.spec("§14.4")
def test_the_largest_batch_is_taken() -> None:
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    long = [f"{number:03}{'n' * 397}" for number in range(BATCH_ITEMS_MAX)]
    answer = review(ledger, *(item(name, "merge_with", f"x{name[1:]}") for name in long))
    assert answer["failure_count"] == BATCH_ITEMS_MAX
    whole(ledger)


@pytest.mark.spec("§14.4", "INV-K-BATCH-PARTIAL-1")
@pytest.mark.parametrize(
    ("letter", "length", "is_taken"),
    [
        ("n", 396, True),
        ("é", 396, True),
        ("字", 355, True),
        ("字", 396, False),
        ("𝄞", 396, False),
        ("\x01", 396, False),
    ],
    ids=["ascii", "two bytes", "three bytes", "too long", "four bytes", "escaped"],
)
def test_a_full_batch_of_long_names_is_recorded_or_refused_at_once(
    letter: str, length: int, *, is_taken: bool
) -> None:
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    long = [f"{number:03}{letter * length}" for number in range(BATCH_ITEMS_MAX)]
    items = [item(name, "merge_with", f"x{name}") for name in long]
    if is_taken:
        assert review(ledger, *items)["failure_count"] == BATCH_ITEMS_MAX
        with ledger.view() as view:
            assert recorded_batch(view, BATCH) is not None
    else:
        caught = refused(ledger, *items)
        assert (caught.code, caught.field) == ("batch_review_too_large", "item_operations")
        with ledger.view() as view:
            assert view.tables.count(TableQuery(schema.receipts)) == 0


NAMES = ("a", "b", "c", "d", "e")
DISPOSALS = st.sampled_from(list(DISPOSITIONS))


@st.composite
def sent(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Items that do not contradict each other, about memberships of any state."""
    items = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)):
        disposition = draw(DISPOSALS)
        target = None
        if disposition == "split":
            target = f"part-of-{name}"
        if disposition == "merge_with":
            target = draw(st.sampled_from([other for other in (*NAMES, "gone") if other != name]))
        items.append(item(name, disposition, target))
    return items


@pytest.mark.spec("INV-K-BATCH-PARTIAL-1", "INV-K-BATCH-1")
@settings(max_examples=settings().max_examples // 2)
@given(st.lists(sent(), min_size=1, max_size=4), st.sets(st.sampled_from(NAMES)))
def test_a_batch_does_what_its_items_do_alone(
    batches: list[list[dict[str, Any]]], there: set[str]
) -> None:
    """PT-9: items one by one, each a batch of its own, leave the states that a batch leaves."""
    together, alone = (Ledger.create(MemoryStore(), FakeHost().host) for _ in range(2))
    for ledger in (together, alone):
        propose(ledger, *sorted(there))
    for number, items in enumerate(batches):
        answer = review(together, *items, batch_review_id=f"T-{number}")
        failed = {
            failure["item_membership_id"]: failure["failure_reason_code"]
            for failure in answer.get("failure_summary", ())
        }
        assert answer["success_count"] + answer["failure_count"] == answer["total_items"]
        assert answer["failure_count"] == len(failed)
        for place, stated in enumerate(items):
            single = review(alone, stated, batch_review_id=f"A-{number}-{place}")
            codes = [
                failure["failure_reason_code"] for failure in single.get("failure_summary", ())
            ]
            name = stated["item_membership_id"]
            assert codes == ([failed[name]] if name in failed else [])
    names = (*NAMES, *(f"part-of-{name}" for name in NAMES))
    assert [state(together, name) for name in names] == [state(alone, name) for name in names]
    whole(together)
