"""Receipts come under the tree of the log: ranges of them, each sealed by an operation (§17.5)."""

import json
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from actors.commit.receipt_units import SealReceiptsUnit
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.proof.merkle_tree import leaf_hash
from kernel.records import receipt_seals
from kernel.records.receipt_seals import (
    ReceiptRange,
    count_behind_the_log,
    last_sealed_receipt,
    range_of,
    range_to_seal,
    range_with,
)
from kernel.verify import verify
from kernel.verify.since import KeptTree, verify_since
from tests.kernel.build import FakeHost, create, effect, envelope, findings, submit
from tests.kernel.jobs import do_jobs, seal_receipts, unit
from tests.kernel.tampering import Copy, forge_outcome

pytestmark = pytest.mark.spec("§17.5", "§17.6")


def root_of(leaves: list[bytes]) -> bytes:
    """Return the root as RFC 6962 defines it."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\x01" + root_of(leaves[:split]) + root_of(leaves[split:])).digest()


def behind(ledger: Ledger) -> int:
    return ledger.read(count_behind_the_log)


@pytest.mark.parametrize("operations_before", [0, 2])
def test_what_a_plugins_job_answered_is_under_the_tree_once_it_is_sealed(
    tmp_path: Path, operations_before: int
):
    """Three jobs, a stop, and whoever owns the file changes what one of them came to."""
    path = tmp_path / "ledger.db"
    with closing(Ledger.create(SqliteStore(path), FakeHost().host)) as ledger:
        for number in range(operations_before):
            submit(ledger, create(f"n-{number}", "Note"))
        do_jobs(ledger, {"width": 40}, {"width": 80}, {"width": 120})
        assert behind(ledger) == 6
        assert seal_receipts(ledger) is not None
        assert behind(ledger) == 0
    copy = Copy(path)
    forge_outcome(copy, 9999)
    named = copy.verify().findings
    assert [(each.table, each.rule) for each in named][:1] == [("receipts", "bytes_changed")]
    assert ("kernel_event_log", "link_broken") in {(each.table, each.rule) for each in named}


def test_a_verification_from_a_kept_head_finds_receipts_that_it_does_not_seal(tmp_path: Path):
    path = tmp_path / "ledger.db"
    with closing(Ledger.create(SqliteStore(path), FakeHost().host)) as ledger:
        do_jobs(ledger, {"width": 80})
        seal_receipts(ledger)
        tree = ledger.read(lambda view: view.log_tree())
        kept = KeptTree(tree.size, tree.root())
    copy = Copy(path)
    forge_outcome(copy, 9999)
    copy.close()
    with closing(Ledger.create(SqliteStore(path), FakeHost().host)) as ledger:
        named = ledger.read(lambda view: verify_since(view, kept)).findings
    assert (named[0].table, named[0].rule) == ("kernel_event_log", "link_broken")


def test_a_range_has_the_root_of_rfc_6962_over_the_hashes_of_its_receipts(ledger: Ledger):
    do_jobs(ledger, {"n": 1}, {"n": 2}, {"n": 3})
    seal_receipts(ledger)
    rows = ledger.read(lambda view: view.tables.scan(TableQuery(schema.receipts)))
    *sealed, seal = rows
    stated = json.loads(seal["receipt_bytes"])
    leaves = [leaf_hash(bytes.fromhex(row["receipt_hash"])) for row in sealed]
    assert stated["root_hash"] == root_of(leaves).hex()
    assert (stated["first_receipt"], stated["last_receipt"]) == ("1", "6")
    assert findings(ledger) == ()
    verification = ledger.read(verify)
    assert (verification.receipts, verification.receipts_sealed) == (7, 6)
    assert verification.receipts_not_under_the_tree == 0


def test_a_seal_makes_no_other_due_and_ranges_follow_each_other(ledger: Ledger):
    assert seal_receipts(ledger) is None
    assert seal_receipts(ledger, for_outcomes=True) is None
    do_jobs(ledger, {"n": 1})
    assert seal_receipts(ledger) is not None
    for _ in range(3):
        assert seal_receipts(ledger) is None
        assert seal_receipts(ledger, for_outcomes=True) is None
    do_jobs(ledger, {"n": 2})
    seal_receipts(ledger)
    ranges = [
        ReceiptRange.of_receipt(row)
        for row in ledger.read(
            lambda view: view.tables.scan(
                TableQuery(schema.receipts, {"receipt_kind": receipt_seals.RECEIPTS_SEALED})
            )
        )
    ]
    assert [(each.first, each.last) for each in ranges] == [(1, 2), (3, 5)]
    assert findings(ledger) == ()


def test_an_operation_seals_what_stands_behind_the_last_one(ledger: Ledger):
    """Its row has the head of the chain; a range is due for an outcome alone, not for a row."""
    do_jobs(ledger, {"n": 1})
    submit(ledger, create("n", "Note"))
    assert behind(ledger) == 0
    assert seal_receipts(ledger) is None
    assert seal_receipts(ledger, for_outcomes=True) is not None
    submit(ledger, create("m", "Note"))
    assert seal_receipts(ledger, for_outcomes=True) is None


def test_a_refusal_makes_a_seal_due(ledger: Ledger):
    submit(ledger, create("n", "Note") | {"semantic_intent": "no-such-verb"})
    assert behind(ledger) == 1
    assert seal_receipts(ledger) is not None


def test_a_range_is_bounded_and_many_receipts_make_one_due(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(receipt_seals, "RANGE_MAX", 4)
    monkeypatch.setattr(receipt_seals, "RECEIPTS_AT_ONCE", 3)
    do_jobs(ledger, *({"n": number} for number in range(5)))
    assert seal_receipts(ledger) is not None
    assert ledger.read(last_sealed_receipt) == 4
    assert behind(ledger) == 0
    assert seal_receipts(ledger) is not None, "more than a range waits"
    assert ledger.read(last_sealed_receipt) == 8
    assert seal_receipts(ledger) is not None
    assert ledger.read(last_sealed_receipt) == 12
    assert seal_receipts(ledger) is None
    assert findings(ledger) == ()
    assert ledger.read(lambda view: range_with(view, 13)) is None
    for receipt in range(1, 13):
        _, sealed = ledger.read(lambda view, at=receipt: range_with(view, at))
        assert sealed.first <= receipt <= sealed.last


def test_of_two_gateways_one_seals_a_range(ledger: Ledger):
    do_jobs(ledger, {"n": 1})
    due = ledger.read(range_to_seal)
    assert unit(ledger, SealReceiptsUnit(due)) is not None
    assert unit(ledger, SealReceiptsUnit(due)) is None
    beyond = ReceiptRange(due.last + 1, due.last + 9, due.root)
    assert unit(ledger, SealReceiptsUnit(beyond)) is None


FORGED: dict[str, Callable[[ReceiptRange], ReceiptRange]] = {
    "bytes_changed": lambda due: ReceiptRange(due.first, due.last, b"x" * 32),
    "order_broken": lambda due: ReceiptRange(due.first + 1, due.last, due.root),
}


@pytest.mark.parametrize("rule", FORGED)
def test_verification_finds_a_seal_that_is_none(
    ledger: Ledger, rule: str, monkeypatch: pytest.MonkeyPatch
):
    do_jobs(ledger, {"n": 1}, {"n": 2})
    forged = FORGED[rule](ledger.read(range_to_seal))
    monkeypatch.setattr("actors.commit.receipt_units.follows", lambda _view, _sealed: True)
    unit(ledger, SealReceiptsUnit(forged))
    assert {each.rule for each in findings(ledger)} == {rule}


@pytest.mark.parametrize(
    "changed", [{"first_receipt": "0"}, {"first_receipt": "3"}, {"last_receipt": "99999"}]
)
def test_the_kernel_takes_no_range_that_is_none(ledger: Ledger, changed: dict[str, Any]):
    do_jobs(ledger, {"n": 1})
    stated = range_of_first(ledger) | changed
    result = submit(ledger, seal_envelope(stated), submitter="orchestrator")
    assert result.rejection.reason_code == "receipts_seal_invalid"


def test_nobody_but_the_runtime_seals(ledger: Ledger):
    do_jobs(ledger, {"n": 1})
    result = submit(ledger, seal_envelope(range_of_first(ledger), actor="user"))
    assert result.rejection.reason_code == "envelope_actor_unauthorized"


def range_of_first(ledger: Ledger) -> dict[str, Any]:
    return ledger.read(lambda view: range_of(view, 1, 2)).document


def seal_envelope(stated: dict[str, Any], **changes: Any) -> dict[str, Any]:
    emitted = effect("receipt_only", **stated) | {"receipt_subkind": "receipts_sealed"}
    fields = {"actor": "system", "target_refs": ["receipts:1"], **changes}
    return envelope("receipts_seal", [emitted], **fields)
