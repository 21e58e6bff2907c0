"""Batches over HTTP and from Python: sent, read back with their items, retried (§14.4)."""

import pytest

from kernel.records.reviews.batch import BatchReview
from kernel.rollback.envelopes import scope_of
from tests.kernel.every import dated, own
from tests.kernel.held import a_conflict, an_operation_of_version_1_5
from tests.workers.api.door import SESSION, Door
from tests.workers.api.test_rollbacks import accept
from workers.client.errors import GatewayError
from workers.client.typed.reviews import ReviewClient, batch_of

pytestmark = pytest.mark.anyio

CORPUS = "corpus:review"
PATH = "/v1/reviews/batches"


async def propose(door: Door, *names: str) -> None:
    sources = [
        {
            "intent_kind": "create_source",
            "intent_key": name,
            "node_id": name,
            "corpus_id": CORPUS,
            "content_kind": "note",
            "text": name,
        }
        for name in names
    ]
    results = await door.operate(*sources)
    assert all(result["validation_result"] == "accepted" for result in results), results


def item(name: str, disposition: str = "confirm", target: str | None = None) -> dict[str, str]:
    stated = {"item_membership_id": f"{CORPUS}|{name}", "disposition": disposition}
    return stated if target is None else stated | {"target_disposition_ref": f"{CORPUS}|{target}"}


def batch(*items: dict[str, str], **changes: str) -> dict[str, object]:
    named = {"batch_review_id": "BR-1", "source_batch_id": "ingested-1", **changes}
    return {**named, "item_operations": list(items)}


@pytest.fixture
async def declared(door: Door) -> Door:
    await door.declare(SESSION, "h1", "h2")
    return door


@pytest.mark.spec("§14.4", "INV-K-BATCH-PARTIAL-1")
async def test_a_batch_is_shown_with_the_state_of_every_item(declared: Door) -> None:
    await propose(declared, "a", "b", "c")
    stated = batch(item("a"), item("b", "defer"), item("gone"), item("c", "reject"))
    sent = await declared.send(PATH, stated)
    assert sent.status_code == 200, sent.text
    ids = [operation["operation_id"] for operation in sent.json()["item_operations"]]
    undone = await declared.send("/v1/rollbacks", {"tier": 1, "operation_id": ids[0]})
    assert undone.status_code == 200, undone.text
    shown = (await declared.http.get(f"{PATH}/BR-1")).json()
    names = ("result", "membership_state", "failure_reason_code", "undone_by_operation_id")
    assert [
        tuple(operation.get(name) for name in names) for operation in shown["item_operations"]
    ] == [
        ("succeeded", "candidate", None, undone.json()["inverse_operation_id"]),
        ("succeeded", "candidate", None, None),
        ("failed", None, "record_not_found", None),
        ("succeeded", "rejected", None, None),
    ]
    assert (shown["success_count"], shown["failure_count"]) == (3, 1)
    assert shown["retry_batch_review_ids"] == []


@pytest.mark.spec("§14.4", "K6")
async def test_the_same_batch_is_answered_again_and_another_is_refused(declared: Door) -> None:
    await propose(declared, "a", "b")
    first = await declared.send(PATH, batch(item("a")))
    again = await declared.send(PATH, batch(item("a")))
    assert again.json() == first.json() | {"duplicate": True}
    other = await declared.send(PATH, batch(item("b")))
    assert (other.status_code, other.json()["error"]["code"]) == (409, "batch_review_conflict")


@pytest.mark.spec("§14.4")
@pytest.mark.parametrize(
    ("items", "status", "code"),
    [
        ([item("a"), item("a")], 422, "batch_review_item_repeated"),
        ([item("a", "merge_with", "a")], 422, "batch_review_item_invalid"),
        ([item("a", "split")], 422, "batch_review_item_invalid"),
        ([], 422, "INVALID_REQUEST"),
        ([item(f"n{number}") for number in range(201)], 422, "INVALID_REQUEST"),
        ([item("a") | {"disposition": "approve"}], 422, "INVALID_REQUEST"),
        ([item("a") | {"item_membership_id": "no bar"}], 422, "INVALID_REQUEST"),
    ],
)
async def test_a_batch_that_is_wrong_in_itself_leaves_nothing(
    declared: Door, items: list[dict[str, str]], status: int, code: str
) -> None:
    await propose(declared, "a")
    before = declared.heads[-1:]
    answer = await declared.send(PATH, batch(*items))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert declared.heads[-1:] == before
    assert (await declared.http.get(f"{PATH}/BR-1")).status_code == 404


@pytest.mark.spec("§14.4")
async def test_a_name_that_no_text_can_hold_is_refused(declared: Door) -> None:
    for name in ("\ud800", "n\x00"):
        answer = await declared.send(PATH, batch(item(name)))
        assert answer.status_code == 422, answer.text
    assert (await declared.http.get(f"{PATH}/BR-1")).status_code == 404


@pytest.mark.spec("INV-K-BATCH-PARTIAL-1", "§14.4")
async def test_what_failed_is_retried_from_python(declared: Door) -> None:
    await propose(declared, "a")
    async with declared.client() as gateway:
        reviews = ReviewClient(gateway)
        sent = BatchReview.model_validate(batch(item("a"), item("b")))
        assert (await reviews.review_batch(sent))["failure_count"] == 1
        # Nobody said that what was missing is there now.
        assert await reviews.retry("BR-1") is None
        await propose(declared, "b")
        retried = await reviews.retry("BR-1", remediated=True)
        assert retried is not None
        assert (retried["success_count"], retried["prior_batch_review_ref"]) == (1, "BR-1")
        shown = await reviews.batch("BR-1")
        assert shown["retry_batch_review_ids"] == [retried["batch_review_id"]]
        assert shown["item_operations"][1]["retried_in"] == retried["batch_review_id"]
        assert shown["item_operations"][1]["result"] == "failed"
        with pytest.raises(GatewayError) as caught:
            await reviews.batch("nobody/knows-it")
        assert caught.value.code == "batch_review_unknown"


async def test_the_same_items_of_the_same_source_are_one_batch() -> None:
    items = [item("a"), item("b", "reject")]
    first = batch_of(items, "ingested-1")
    assert batch_of(items, "ingested-1") == first
    assert batch_of(items, "ingested-2").batch_review_id != first.batch_review_id
    assert batch_of(items, "ingested-1", batch_review_id="own").batch_review_id == "own"


# What waits for a person


async def observe(door: Door, *names: str) -> None:
    for name in names:
        stated = {"disposition": "granted", "lifecycle_state": "observed"}
        date = dated("docket_entry_date")
        await accept(door, own("court_disposition_observation_write", name, **stated, **date))


def decision(name: str, **changes: object) -> dict[str, object]:
    return {
        "decision_key": f"decide {name}",
        "kind": "observation",
        "record_id": name,
        "decision": "confirm",
        "adjudicated_by": "A. Clerk",
        "grounds": "the minute order says so",
        "normalized_label": "granted",
        **changes,
    }


@pytest.mark.spec("INV-K-OUTCOME-1", "§13.6")
async def test_what_waits_is_listed_in_pages_and_decided_on(declared: Door) -> None:
    await observe(declared, "o-1", "o-2", "o-3")
    async with declared.client() as gateway:
        counts = await gateway.get("/v1/reviews/counts")
        assert {kind for kind, count in counts.items() if count} == {"observation", "counted_max"}
        assert counts["observation"] == 3
        reviews = ReviewClient(gateway)
        page = await gateway.get("/v1/reviews/open", kind="observation", limit=2)
        assert [item["record_id"] for item in page["items"]] == ["o-1", "o-2"]
        assert page["items"][0]["reason"] == "identity_confidence_unstated"
        after = page["next_after"]
        rest = await gateway.get("/v1/reviews/open", kind="observation", after=after)
        assert [item["record_id"] for item in rest["items"]] == ["o-3"]
        decided = await reviews.decide(**decision("o-1", scope_targets=["motion-5"]))
        again = await reviews.decide(**decision("o-1", scope_targets=["motion-5"]))
        assert (decided["duplicate"], again["duplicate"]) == (False, True)
        assert decided["operation_id"] == again["operation_id"]
        await reviews.decide(**decision("o-2", decision="reject"))
        left = await gateway.get("/v1/reviews/open", kind="observation")
        assert [item["record_id"] for item in left["items"]] == ["o-3"]
        assert (await gateway.get("/v1/reviews/open", kind="outcome"))["items"] == []


@pytest.mark.spec("§2.8", "§19.3")
async def test_what_was_held_back_is_taken_once_with_what_it_lacks(declared: Door) -> None:
    receipt_id = a_conflict(declared.ledger)
    an_operation_of_version_1_5(declared.ledger)
    async with declared.client() as gateway:
        reviews = ReviewClient(gateway)
        taken, again = [await reviews.take(receipt_id, "ada", "read both") for _ in range(2)]
        assert (taken["duplicate"], again["duplicate"]) == (False, True)
        assert taken["operation_id"] == again["operation_id"]
        [waiting] = (await gateway.get("/v1/reviews/open", kind="migration"))["items"]
        assert waiting["record"]["envelope"]["operation_id"] == "lite-m"
        lacking = {"affected_subgraph_descriptor": scope_of(["m"])}
        await reviews.take(waiting["record_id"], "ada", "it is about itself", lacking)
        for kind in ("conflict", "migration"):
            assert (await gateway.get("/v1/reviews/open", kind=kind))["items"] == []
        decided = (await gateway.get("/v1/reviews/decided"))["decisions"]
    assert [each["decision"] for each in decided] == ["taken", "taken"]
    said = {"decided_by": "bea", "grounds": "read both"}
    cases = [
        (receipt_id, {}, 409, "review_decided_meanwhile"),
        ("receipt:nobody's", {}, 404, "review_item_unknown"),
        (a_conflict(declared.ledger, "k"), {"actor": "x"}, 422, "review_item_incomplete"),
    ]
    for receipt, supplied, status, code in cases:
        body = {"receipt_id": receipt, **said, "supplied": supplied}
        answer = await declared.send("/v1/reviews/takings", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text


@pytest.mark.spec("INV-K-OUTCOME-1")
async def test_a_decision_that_cannot_be_taken_says_why(declared: Door) -> None:
    await observe(declared, "o-1")
    cases = [
        (decision("nobody"), "intent_invalid"),
        (decision("o-1", decision="maybe"), "INVALID_REQUEST"),
        (decision("o-1", grounds=""), "INVALID_REQUEST"),
        (decision("o-1", normalized_label=None, scope_targets=["m"]), "outcome_label_missing"),
    ]
    for body, code in cases:
        answer = await declared.send("/v1/reviews/decisions", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, code), answer.text
    dismissed = {"receipt_id": "receipt:nobody's", "reason": "seen"}
    answer = await declared.send("/v1/reviews/dismissals", dismissed)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "envelope_adjudication_unknown"
    bad = await declared.http.get("/v1/reviews/open?kind=outcome&after=x")
    assert bad.status_code == 422
    assert (await declared.http.get("/v1/reviews/open?kind=nothing")).status_code == 422
