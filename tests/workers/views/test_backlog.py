"""The numbers of a queue add up, whatever Redis and the record say."""

from hypothesis import given
from hypothesis import strategies as st

from queues.queue.items import QueueDepth
from workers.views.backlog import backlog

_COUNT = st.integers(0, 1000)
_BY_PRIORITY = st.fixed_dictionaries({"high": _COUNT, "low": _COUNT})


@given(_BY_PRIORITY, _BY_PRIORITY, _COUNT, _COUNT, _COUNT, _COUNT)
def test_open_requests_and_stale_items_are_the_sum_of_where_they_stand(
    ready, suspended, delayed, in_flight, not_due, open_requests
):
    depth = QueueDepth(ready, suspended, delayed, in_flight, 3, not_due, {}, False, frozenset())
    stands = backlog(depth, open_requests)
    places = stands.ready + stands.suspended + stands.delayed + stands.in_flight + stands.held
    assert stands.open + stands.stale == places
    assert 0 in (stands.held, stands.stale)
