"""What principals are denied is counted, and stands on the record a receipt at a time."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.records.access.denials import PRINCIPALS_MAX, DenialCounts, record_denials
from tests.kernel.build import findings, memory_ledger, receipts_of_kind

NAMES = st.sampled_from([f"service:{number}" for number in range(PRINCIPALS_MAX + 9)])
ACTIONS = st.sampled_from(["read.audit", "manage.keys"])


@given(st.lists(st.tuples(NAMES, ACTIONS, st.booleans()), max_size=400))
def test_no_denial_is_lost_and_there_are_no_more_receipts_than_principals_have_places(denied):
    counts, expected, recorded = DenialCounts(), Counter(), Counter()
    for now_us, (principal, action, fails) in enumerate(denied):
        counts.note(principal, action, now_us)
        expected[action] += 1
        if fails:
            counts.put_back(counts.take())
    denials = counts.take()
    assert len(denials) <= PRINCIPALS_MAX + 1
    for each in denials:
        recorded += each.actions
        assert each.first_us <= each.last_us
    assert recorded == expected
    assert counts.take() == []


@pytest.mark.spec("§17.6")
def test_a_receipt_says_who_was_denied_what_how_often_and_once():
    ledger, counts = memory_ledger(), DenialCounts()
    for action in ("read.audit", "manage.keys", "read.audit"):
        counts.note("service:a", action, 1_000_000)
    denials = counts.take()
    for _ in range(2):  # the answer to the first commit was lost
        with ledger.transaction() as transaction:
            record_denials(transaction, denials)
    [receipt] = receipts_of_kind(ledger, "access_denied")
    assert receipt["principal"] == "service:a"
    assert receipt["actions"] == {"manage.keys": 1, "read.audit": 2}
    assert receipt["first_denied_at"] == receipt["last_denied_at"] == "1970-01-01T00:00:01.000000Z"
    assert findings(ledger) == ()
