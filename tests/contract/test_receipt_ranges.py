"""Ranges of receipts are read, sealed, proved and verified alike on every store (§17.5)."""

import pytest

from kernel.audit.proofs import request
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import Store
from kernel.records.receipt_seals import (
    RANGE_MAX,
    count_behind_the_log,
    last_sealed_receipt,
    range_of,
)
from tests.kernel.build import FakeHost, create, findings, submit
from tests.kernel.jobs import do_jobs, seal_receipts


@pytest.mark.spec("§17.5")
def test_receipts_are_sealed_alike_on_every_store(store: Store):
    ledger = Ledger.create(store, FakeHost().host)
    submit(ledger, create("n", "Note"))
    requests = do_jobs(ledger, *({"width": number} for number in range(5)))
    assert seal_receipts(ledger) is not None
    with ledger.view() as view:
        last = last_sealed_receipt(view)
        assert 10 <= last < RANGE_MAX
        assert count_behind_the_log(view) == 0
        shown = [request(view, name).openings["receipt_path"] for name in requests]
        assert len({tuple(path) for path in shown}) == 5
        assert range_of(view, 1, last).root != range_of(view, 1, last - 1).root
    assert findings(ledger) == ()
