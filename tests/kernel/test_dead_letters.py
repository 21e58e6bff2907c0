"""What was given up is listed by why, and asked for anew as a request of its own."""

from typing import Any

import pytest

from kernel.ledger.ledger import Ledger
from kernel.verify import verify
from kernel.work import dead_letters as module
from kernel.work.contents import BINDING_QUEUE
from kernel.work.dead_letters import (
    DeadGroup,
    DeadLetterDismissal,
    DeadLetters,
    dead_groups,
    dead_letters,
    dismiss,
    requeue,
)
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import close
from kernel.work.requests import WorkRequest, enqueue, status_of
from tests.kernel.build import create, receipts_of_kind, submit
from tests.kernel.deciding import deciding


def given_up(ledger: Ledger, key: str, signature: str) -> str:
    content = {"binding_id": key, "source_event_id": f"e-{key}", "capacity_priority": "critical"}
    with ledger.transaction() as transaction:
        [enqueued] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, key, content)])
        close(transaction, enqueued.request_id, "dead_letter", reason=signature)
    return enqueued.request_id


def listed(ledger: Ledger, signature: str | None = None, **filters: Any) -> DeadLetters:
    options: dict[str, Any] = {"after": None, "limit": 100} | filters
    with ledger.view() as view:
        return dead_letters(view, BINDING_QUEUE, error_signature=signature, **options)


def again(ledger: Ledger, *request_ids: str) -> list[str]:
    with ledger.transaction() as transaction:
        decide = deciding(transaction)
        requests = requeue(transaction, BINDING_QUEUE, request_ids, "", decide)
        return [request.request_id for request in requests]


def test_dead_letters_are_listed_by_signature_in_pages(ledger):
    dead = {given_up(ledger, f"k-{n}", "broken" if n % 3 else "odd") for n in range(7)}
    submit(ledger, create("u-1", "ConsolidatedUnderstanding"))
    everything = listed(ledger)
    assert everything.by_signature == {"broken": 4, "odd": 3}
    assert {letter.request_id for letter in everything.dead_letters} == dead
    assert (everything.next_after, everything.complete) == (None, True)
    odd = listed(ledger, "odd")
    assert {letter.error_signature for letter in odd.dead_letters} == {"odd"}
    first = listed(ledger, limit=4)
    assert first.next_after == first.dead_letters[-1].request_sequence
    rest = listed(ledger, limit=4, after=first.next_after)
    assert first.dead_letters + rest.dead_letters == everything.dead_letters
    assert rest.next_after is None


def test_what_failed_alike_is_a_group_with_its_count_and_when_the_first_was_given_up(
    ledger, monkeypatch
):
    first, *_ = (given_up(ledger, f"k-{n}", "broken") for n in range(4))
    odd = given_up(ledger, "odd", "odd")
    with ledger.view() as view:
        groups = dead_groups(view)
        closed_at = {each: status_of(view, each).closed_at for each in (first, odd)}
    assert groups == [
        DeadGroup(BINDING_QUEUE, "broken", 4, closed_at[first]),
        DeadGroup(BINDING_QUEUE, "odd", 1, closed_at[odd]),
    ]
    monkeypatch.setattr(module, "COUNTED_MAX", 2)
    monkeypatch.setattr(module, "GROUPS_MAX", 1)
    again(ledger, first)
    with ledger.view() as view:
        [group] = dead_groups(view)
    assert (group.error_signature, group.count) == ("broken", 2)
    assert group.first_closed_at > closed_at[first]


def test_a_list_says_when_it_has_not_counted_everything(ledger, monkeypatch):
    monkeypatch.setattr(module, "COUNTED_MAX", 3)
    monkeypatch.setattr(module, "SIGNATURES_MAX", 2)
    for number in range(4):
        given_up(ledger, f"k-{number}", "broken" if number else "odd")
    page = listed(ledger)
    assert (page.by_signature, page.complete) == ({"broken": 3, "odd": 1}, False)
    again(ledger, *(letter.request_id for letter in page.dead_letters[:3]))
    assert listed(ledger).complete
    for signature in "abc":
        given_up(ledger, signature, signature)
    page = listed(ledger)
    assert (len(page.by_signature), page.complete, page.next_after) == (2, False, None)


def test_settled_dead_letters_cost_a_page_of_standing_ones_nothing(ledger, monkeypatch):
    first = given_up(ledger, "k", "broken")
    for number in range(12):
        settle(ledger, given_up(ledger, f"k-{number}", "broken"))
    page = listed(ledger, limit=1)
    assert [letter.request_id for letter in page.dead_letters] == [first]
    assert (page.by_signature, page.next_after) == ({"broken": 1}, None)


def test_what_is_requeued_is_one_new_request_that_names_the_dead_one(ledger):
    dead = given_up(ledger, "k", "broken")
    [anew] = again(ledger, dead)
    assert anew != dead
    assert again(ledger, dead) == [anew], "requeuing twice is requeuing once"
    assert listed(ledger).dead_letters == ()
    with ledger.view() as view:
        [request] = view.open_requests()
        status, before = status_of(view, anew), status_of(view, dead)
        assert verify(view).findings == ()
    assert request.document["requeues"] == dead
    assert status is not None
    assert before is not None
    assert (status.content, status.priority) == (before.content, before.priority)
    assert before.state == "dead_letter", "an outcome is final"
    with ledger.transaction() as transaction:
        close(transaction, anew, "dead_letter", reason="broken again")
    [third] = again(ledger, anew)
    assert len({dead, anew, third}) == 3


def test_only_what_is_dead_is_requeued_and_then_all_or_nothing(ledger):
    dead = given_up(ledger, "k", "broken")
    [open_one] = again(ledger, given_up(ledger, "other", "broken"))
    for wrong, code in ((open_one, "work_request_not_dead"), ("nobody", "work_request_unknown")):
        with pytest.raises(WorkRefused) as caught:
            again(ledger, dead, wrong)
        assert (caught.value.code, caught.value.index) == (code, 1)
    with pytest.raises(WorkRefused, match="nobody may ask"), ledger.transaction() as transaction:
        requeue(transaction, "authority-recompute", ["x"], "", deciding(transaction))
    assert [letter.request_id for letter in listed(ledger).dead_letters] == [dead]


def test_the_record_says_who_requeued_and_who_asks_later_asks_for_the_same(ledger):
    dead = given_up(ledger, "k", "broken")
    answers = []
    for name in ("ada at 127.0.0.1", "bob at 127.0.0.1"):
        with ledger.transaction() as transaction:
            answers.append(requeue(transaction, BINDING_QUEUE, [dead], name, deciding(transaction)))
    [[first], [second]] = answers
    assert (second.request_id, first.duplicate, second.duplicate) == (first.request_id, False, True)
    with ledger.view() as view:
        status = status_of(view, dead)
        assert verify(view).ok
    assert status is not None
    assert status.settled_by == "ada at 127.0.0.1"


def test_what_is_named_twice_is_requeued_once_and_answered_twice(ledger):
    dead = given_up(ledger, "k", "broken")
    with ledger.transaction() as transaction:
        decide = deciding(transaction)
        first, second = requeue(transaction, BINDING_QUEUE, [dead, dead], "ada", decide)
    assert (second.request_id, first.duplicate, second.duplicate) == (first.request_id, False, True)


def settle(ledger: Ledger, *request_ids: str, reason: str = "the case was closed") -> int:
    with ledger.transaction() as transaction:
        dismissal = DeadLetterDismissal(reason, "ada")
        return dismiss(transaction, BINDING_QUEUE, request_ids, dismissal, deciding(transaction))


def test_what_is_dismissed_is_listed_no_more_and_the_record_says_who_and_why(ledger):
    dead, other = given_up(ledger, "k-1", "broken"), given_up(ledger, "k-2", "broken")
    assert settle(ledger, dead, dead) == 1
    assert settle(ledger, dead, reason="again") == 0
    assert [letter.request_id for letter in listed(ledger).dead_letters] == [other]
    [receipt] = receipts_of_kind(ledger, "work_request_dismissed")
    assert (receipt["request_id"], receipt["decided_by"]) == (dead, "ada")
    with ledger.view() as view:
        assert status_of(view, dead).dismissed == "the case was closed"
        assert status_of(view, other).dismissed is None
        assert verify(view).ok


def test_only_what_is_dead_is_dismissed_with_a_reason_and_then_all_or_nothing(ledger):
    dead = given_up(ledger, "k-1", "broken")
    with pytest.raises(WorkRefused, match="nobody asked") as refused:
        settle(ledger, dead, "unknown")
    assert refused.value.index == 1
    with pytest.raises(WorkRefused, match="say why"):
        settle(ledger, dead, reason="  ")
    assert receipts_of_kind(ledger, "work_request_dismissed") == []


def test_a_request_that_was_requeued_names_the_one_that_asks_for_it_anew(ledger):
    dead = given_up(ledger, "k-1", "broken")
    settle(ledger, dead)
    [anew] = again(ledger, dead)
    with ledger.view() as view:
        assert status_of(view, dead).requeued_as == anew
        assert status_of(view, anew).requeued_as is None
