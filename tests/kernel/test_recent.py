"""An audit since a mark sees what was changed behind it, and the mark itself."""

from dataclasses import replace

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.values.canonical import sha256_hex
from kernel.verify import recent, verify
from kernel.verify.recent import AuditMark, RecentAudit, audit_since
from kernel.verify.tree import WIDTH
from kernel.verify.violation import record_violation
from tests.kernel.build import adapt, create, memory_ledger, submit


def written(count: int = 6) -> Ledger:
    ledger = memory_ledger()
    for number in range(count):
        submit(ledger, create(f"n-{number}", "ConsolidatedUnderstanding"))
    submit(ledger, "nonsense")
    return ledger


def audit(ledger: Ledger, mark: AuditMark, rows_max: int = 1000) -> RecentAudit:
    with ledger.view() as view:
        return audit_since(view, mark, rows_max)


def test_each_audit_goes_on_where_the_last_one_ended():
    ledger, mark = written(), AuditMark()
    sequences = []
    for _ in range(10):
        audit_page = audit(ledger, mark, rows_max=2)
        assert audit_page.verification.ok, audit_page.verification.findings
        mark = audit_page.mark
        sequences.append(mark.ec_sequence_number)
    assert sequences[:4] == [2, 4, 6, 6]
    submit(ledger, adapt("n-1", title="more"))
    after = audit(ledger, mark)
    assert after.verification.ok
    assert (after.verification.rows, after.mark.ec_sequence_number) == (1, 7)


@pytest.mark.spec("§17.5")
@pytest.mark.parametrize("sequence", [1, 3, 4, 5, 6])
def test_a_row_that_was_changed_is_found_by_the_audit_that_looks_at_it(sequence):
    ledger = written()
    mark = audit(ledger, AuditMark(), rows_max=3).mark
    assert mark.ec_sequence_number == 3
    with ledger.store.transaction() as tables:
        row = tables.get(schema.kernel_event_log, sequence)
        assert row is not None
        content = row["row_bytes"].replace(b"create", b"change")
        tables.update(schema.kernel_event_log, (sequence,), {"row_bytes": content})
    audit_page = audit(ledger, mark)
    # What lies before the mark is for a whole verification to find.
    assert audit_page.verification.ok == (sequence < mark.ec_sequence_number)
    if not audit_page.verification.ok:
        assert audit_page.mark == (mark if sequence > mark.ec_sequence_number else AuditMark())
        assert audit_page.verification.findings[0].key == str(sequence)


@pytest.mark.parametrize("table", [schema.kernel_event_log, schema.receipts])
def test_rows_that_are_gone_are_missed(table):
    ledger = written()
    mark = audit(ledger, AuditMark()).mark
    with ledger.store.transaction() as tables:
        last = tables.scan(TableQuery(table, descending=True, limit=1))[0]
        tables.delete(table, next(iter(last.values())))
    assert not audit(ledger, mark).verification.ok


@pytest.mark.spec("§17.5")
def test_a_receipt_that_no_version_knows_is_found_though_the_chain_holds():
    ledger = written()
    with ledger.store.transaction() as tables:
        [row] = tables.scan(TableQuery(schema.receipts, descending=True, limit=1))
        content = row["receipt_bytes"].replace(b"validation_failed", b"validation_fooled")
        receipt_hash = sha256_hex(content)
        sealed = {
            "receipt_bytes": content,
            "receipt_hash": receipt_hash,
            "receipt_kind": "envelope_validation_fooled",
        }
        tables.update(schema.receipts, (row["receipt_sequence"],), sealed)
        tables.update(schema.chain_head, ("main",), {"receipt_hash": receipt_hash})
    rules = {finding.rule for finding in audit(ledger, AuditMark()).verification.findings}
    assert "unknown_name" in rules


@pytest.mark.spec("§17.5")
def test_a_record_without_its_head_is_found():
    ledger = written()
    with ledger.store.transaction() as tables:
        tables.delete(schema.chain_head, "main")
    with ledger.view() as view:
        whole = verify(view)
    for verification in (whole, audit(ledger, AuditMark()).verification):
        missing = [finding for finding in verification.findings if finding.table == "chain_head"]
        assert [(finding.key, finding.rule) for finding in missing] == [("main", "missing")]


def test_at_least_one_finding_is_named_whatever_the_limit():
    ledger = written()
    with ledger.store.transaction() as tables:
        for sequence in (2, 4):
            tables.update(schema.kernel_event_log, (sequence,), {"row_hash": "1" * 64})
    with ledger.view() as view:
        assert len(verify(view, limit_findings=0).findings) == 1


def test_the_same_findings_leave_one_receipt():
    ledger = written()
    with ledger.store.transaction() as tables:
        tables.update(schema.kernel_event_log, (3,), {"row_hash": "1" * 64})
    verification = audit(ledger, AuditMark()).verification
    assert not verification.ok
    with ledger.transaction() as transaction:
        assert record_violation(transaction, verification, once=True)
        assert record_violation(transaction, verification, once=True) is None
    with ledger.view() as view:
        where = {"receipt_kind": "kernel_event_log_integrity_violation"}
        assert view.tables.count(TableQuery(schema.receipts, where)) == 1


@pytest.mark.spec("§17.5")
@pytest.mark.parametrize(
    "forged",
    [
        AuditMark(3, "0" * 64),
        AuditMark(99, "1" * 64),
        AuditMark(2**53, "0" * 64, 2**53, "0" * 64),
        AuditMark(0, "0" * 64, 1, "f" * 64),
        AuditMark(1, "not a hash", 1, ""),
    ],
)
def test_a_forged_mark_finds_nothing_in_a_sound_record_and_hides_nothing(forged):
    ledger = written()
    sound = audit(ledger, forged)
    assert (sound.verification.ok, sound.mark_fits) == (True, False)
    assert sound.mark == audit(ledger, AuditMark()).mark
    with ledger.store.transaction() as tables:
        tables.update(schema.kernel_event_log, (2,), {"row_hash": "1" * 64})
    assert not audit(ledger, forged).verification.ok


@pytest.fixture(scope="module")
def tiled() -> Ledger:
    ledger = memory_ledger()
    for number in range(3 * WIDTH + 7):
        submit(ledger, create(f"n-{number}", "Note"))
    return ledger


@pytest.mark.spec("P5")
def test_tiles_are_compared_with_their_rows_in_turn(tiled, monkeypatch):
    monkeypatch.setattr(recent, "TILES_MAX", 2)
    mark = audit(tiled, AuditMark()).mark
    seen = [mark.tile_index]
    for _ in range(3):
        mark = audit(tiled, mark).mark
        seen.append(mark.tile_index)
    assert seen == [2, 0, 2, 0]
    with tiled.store.transaction() as tables:
        row = tables.get(schema.kernel_event_log, 2 * WIDTH + 9)
        content = row["row_bytes"].replace(b"create", b"change")
        tables.update(schema.kernel_event_log, (row["ec_sequence_number"],), {"row_bytes": content})
    assert audit(tiled, mark).verification.ok
    [finding] = audit(tiled, replace(mark, tile_index=2)).verification.findings
    assert (finding.table, finding.key, finding.rule) == ("tree_tiles", "0/2", "tile_differs")
    with tiled.store.transaction() as tables:
        tables.update(
            schema.kernel_event_log,
            (row["ec_sequence_number"],),
            {"row_bytes": row["row_bytes"]},
        )
        above = tables.get(schema.tree_tiles, 1, 0)["hashes"]
        tables.update(schema.tree_tiles, (1, 0), {"hashes": above[:64] + b"x" * 32})
        tables.delete(schema.tree_tiles, 0, 0)
    findings = audit(tiled, mark).verification.findings
    assert [(each.key, each.rule) for each in findings] == [("0/0", "missing")]
    [finding] = audit(tiled, replace(mark, tile_index=2)).verification.findings
    assert (finding.key, finding.rule) == ("1/0", "tile_differs")
