"""Verification finds every change to what is stored, and names the row."""

import itertools
import os
import shutil
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import asdict

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import LargeBinary

from kernel.belief.session import BeliefSession
from kernel.ledger import schema
from kernel.ledger.applied_effects import hashed_effect
from kernel.ledger.blob_commitment import blob_commitment
from kernel.ledger.ledger import Ledger
from kernel.ledger.receipts import purge_expired
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.keys import key_names, values_getter
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.transaction.checks.causality import check_causality
from kernel.transaction.checks.order import CHECKS
from kernel.transaction.rules import rules_of
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.verify import unreadable, verify
from kernel.verify.links import walk_log
from kernel.verify.names import unknown_effect_name
from kernel.verify.reading import Findings, Reader
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.build import (
    FakeHost,
    create,
    effect,
    envelope,
    link,
    memory_ledger,
    submit,
)
from tests.kernel.honest import (
    ASKED_OPEN,
    EXTERNAL,
    HOUR_US,
    accepted,
    drain,
    write_briefly,
    write_honestly,
)
from tests.kernel.simulations import shown, simulate
from tests.kernel.tampering import Copy, flipped, key_of, names, verify_file

BESIDE_THE_RECORD = (
    *(schema.shard_epochs, schema.mailbox_offsets, schema.gateway_keys, schema.ledger_ids),
    *(schema.request_failures, schema.request_attempts, schema.chart_blocks),
)
"""They say who may write, what was tried in vain and what was counted, not what was decided."""

OF_LONG_LOGS = (
    schema.tree_tiles,
    schema.archived_rows,
    schema.archive_segments,
    schema.thought_segments,
)
"""Only a log of 256 rows, or one with an archive, has rows there: `test_tree_check.py`,
`test_cold_thoughts.py` and `tamper_doc.py` change them."""

TABLES = [
    sorted_table
    for sorted_table in schema.metadata.sorted_tables
    if sorted_table not in (*BESIDE_THE_RECORD, *OF_LONG_LOGS)
    # What runs have there is changed in `test_run_seals.py`, column by column.
    and not sorted_table.name.startswith("landscape_")
]
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
BYTES_COLUMNS = [
    (table, column.name)
    for table in TABLES
    for column in table.columns
    if isinstance(column.type, LargeBinary)
]


def file_of(folder, write):
    path = folder / "ledger.db"
    host = FakeHost()
    ledger = Ledger.create(SqliteStore(path), host.host)
    write(ledger, host)
    ledger.close()
    return path


@pytest.fixture(scope="module")
def honest_file(tmp_path_factory):
    return file_of(tmp_path_factory.mktemp("honest"), write_honestly)


@pytest.fixture(scope="module")
def brief_file(tmp_path_factory):
    return file_of(tmp_path_factory.mktemp("brief"), write_briefly)


@contextmanager
def copied(honest_file, folder):
    path = folder / "ledger.db"
    shutil.copy(honest_file, path)
    copy = Copy(path)
    yield copy
    copy.db.close()


@pytest.fixture
def tampered(honest_file, tmp_path):
    with copied(honest_file, tmp_path) as copy:
        yield copy


@pytest.fixture
def tampered_brief(brief_file, tmp_path):
    """The ledger to change where every table or column has its turn."""
    with copied(brief_file, tmp_path) as copy:
        yield copy


# --- honest ledgers ---------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite"])
def ledger_and_host(request, tmp_path):
    host = FakeHost()
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ledger.db")
    ledger = Ledger.create(store, host.host)
    yield ledger, host
    ledger.close()


def test_an_honest_ledger_verifies_in_every_store(ledger_and_host):
    ledger, host = ledger_and_host
    write_honestly(ledger, host)
    with ledger.view() as view:
        verification = verify(view)
        head = view.head()
        counts = {table.name: view.tables.count(TableQuery(table)) for table in TABLES}
    assert verification.findings == ()
    assert verification.ok
    assert verification.rows == head.ec_sequence_number > 35
    assert verification.head_hash == head.row_hash
    assert verification.receipts == head.receipt_sequence == counts["receipts"]
    assert verification.blobs == counts["blobs"]
    assert (verification.belief_sessions, verification.belief_events) == (
        2,
        counts["belief_events"],
    )
    assert verification.requests_open == 1 + EXTERNAL + ASKED_OPEN
    assert verification.requests_closed == counts["outbox_outcomes"]
    assert (verification.authorities_equal, verification.authorities_pending) == (5, 2)
    assert all(counts.values()), "a table that the honest ledger does not write"


def test_a_ledger_without_a_row_verifies(ledger_and_host):
    ledger, _ = ledger_and_host
    with ledger.view() as view:
        verification = verify(view)
    assert verification.ok
    assert (verification.rows, verification.head_hash) == (0, "0" * 64)


POINTS = [(write_briefly, 1 if NIGHTLY else 3), (write_honestly, 1 if NIGHTLY else 16)]


@pytest.mark.parametrize(("write", "every"), POINTS)
def test_an_honest_ledger_verifies_at_every_point_of_its_history(write, every):
    """At each, with HYPOTHESIS_PROFILE=nightly; the last is looked at elsewhere."""
    host = FakeHost()
    points = []
    passed = itertools.count()

    class InterruptedLedger(Ledger):
        def transaction(self):
            if next(passed) % every == 0:
                with self.view() as view:
                    points.append(verify(view).findings)
            return super().transaction()

    store = MemoryStore()
    Ledger.create(store, host.host)
    write(InterruptedLedger(store, host.host), host)
    # Here the events of a session are stored one transaction before the log anchors them.
    wrong = [finding for point in points for finding in point if finding.rule != "anchor_differs"]
    assert len(points) * every > 70
    assert wrong == []


def test_the_brief_ledger_has_rows_in_every_table_and_verifies():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    write_briefly(ledger, host)
    with ledger.view() as view:
        assert verify(view).findings == ()
        assert all(view.tables.count(TableQuery(table)) for table in TABLES)


def test_understandings_on_a_cycle_are_pending_and_not_wrong():
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    for name in ("cu-1", "cu-2"):
        accepted(submit(ledger, create(name, "ConsolidatedUnderstanding")))
    drain(ledger)
    accepted(submit(ledger, create("claim", "VersionedClaim", authority=1.0)))
    accepted(submit(ledger, link("e-0", "claim", "cu-1")))
    accepted(submit(ledger, link("e-1", "cu-1", "cu-2")))
    accepted(submit(ledger, link("e-2", "cu-2", "cu-1")))
    drain(ledger)
    with ledger.view() as view:
        verification = verify(view)
    assert verification.findings == ()
    assert verification.authorities_equal + verification.authorities_pending == 2
    assert verification.authorities_pending > 0


def test_progress_counts_up_to_its_total(ledger_and_host):
    ledger, host = ledger_and_host
    write_honestly(ledger, host)
    progress = []
    with ledger.view() as view:
        rows = verify(view, progress=lambda done, total: progress.append((done, total))).rows
    assert progress[-1] == (rows, rows)


def test_pages_meet_exactly_at_their_borders(ledger_and_host, monkeypatch):
    ledger, host = ledger_and_host
    write_honestly(ledger, host)
    for page_rows in (1, 2, 7):
        defaults = Reader.pages.__kwdefaults__ | {"page_rows": page_rows}
        monkeypatch.setattr(Reader.pages, "__kwdefaults__", defaults)
        with ledger.view() as view:
            verification = verify(view)
            assert verification.findings == ()
            assert verification.rows == view.head().ec_sequence_number


# --- one change at a time ---------------------------------------------------------------------


NOT_ON_RECORD = {
    ("idempotency_records", "expires_at_us"),
    ("belief_sessions", "updated_at_us"),
    ("chain_head", "committed_at_us"),
}
"""Columns that follow from nothing: a small change to them cannot be seen."""


def test_columns_that_follow_from_nothing_have_bounds(tampered):
    head = tampered.a_row(schema.chain_head)
    tampered.set(schema.chain_head, head, committed_at_us=head["committed_at_us"] - 100 * HOUR_US)
    assert tampered.first().table == "chain_head"


@pytest.mark.parametrize(
    "table", [schema.ephemeral_receipts, schema.belief_snapshots], ids=lambda t: t.name
)
def test_what_the_record_does_without_may_be_gone(tampered, table):
    tampered.delete(table, tampered.a_row(table))
    assert tampered.verify().ok


def test_a_window_is_whole_hours(tampered):
    row = tampered.a_row(schema.idempotency_records)
    tampered.set(schema.idempotency_records, row, expires_at_us=row["expires_at_us"] - 1)
    first_finding = tampered.first()
    assert names(first_finding, schema.idempotency_records, row)


def test_a_session_was_not_written_after_its_newest_anchor(tampered):
    row = tampered.a_row(schema.belief_sessions)
    tampered.set(schema.belief_sessions, row, updated_at_us=row["updated_at_us"] + HOUR_US)
    assert names(tampered.first(), schema.belief_sessions, row)


def test_the_clock_is_not_behind_a_receipt():
    """The newest row may be older than the receipt of a refusal."""
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    accepted(submit(ledger, create("n", "Note")))
    host.time_us += HOUR_US
    submit(ledger, "nonsense")
    with ledger.transaction() as transaction:
        transaction.head_now.committed_at_us -= HOUR_US // 2
    with ledger.view() as view:
        assert [finding.table for finding in verify(view).findings] == ["chain_head"]


def test_a_receipt_that_its_row_emits_is_missed(tampered_brief):
    """The fold emits it again, and names it by what the row calls it."""
    row = next(row for row in tampered_brief.rows(schema.receipts) if row["operation_id"])
    tampered_brief.delete(schema.receipts, row)
    findings = tampered_brief.verify(limit_findings=200).findings
    expected = ("receipts", row["receipt_id"], "missing")
    assert expected in {(finding.table, finding.key, finding.rule) for finding in findings}


def test_an_outcome_without_its_request_is_named(tampered):
    outcome = tampered.a_row(schema.outbox_outcomes)
    tampered.insert(schema.outbox_outcomes, outcome | {"request_id": "request:nobody"})
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.key, first_finding.rule) == (
        "outbox_outcomes",
        "request:nobody",
        "extra",
    )
    assert first_finding.message == "the outcome of a request that is not there"


def test_a_gap_among_the_events_of_a_session_is_named(tampered):
    rows = tampered.rows(schema.belief_events)
    row = next(row for row in rows if row["event_index"] == 1)
    tampered.delete(schema.belief_events, row)
    findings = tampered.verify(limit_findings=200).findings
    rules = {(finding.table, finding.key, finding.rule) for finding in findings}
    assert ("belief_events", f"{row['session_id']}/1", "gap") in rules


def test_the_events_of_a_session_that_is_gone_are_named(tampered):
    row = tampered.a_row(schema.belief_sessions)
    tampered.delete(schema.belief_sessions, row)
    messages = [
        finding.message
        for finding in tampered.verify(limit_findings=200).findings
        if (finding.table, finding.key) == ("belief_sessions", row["session_id"])
    ]
    assert "belief_events has its event_index 0, its session is not there" in messages


def first_effect(tampered):
    """The first of a row's effects that are several, and how many they are."""
    rows = tampered.rows(schema.applied_effects)
    second = next(row for row in rows if row["ordinal"] == 1)
    own = [row for row in rows if row["ec_sequence_number"] == second["ec_sequence_number"]]
    return own[0], len(own)


@pytest.mark.parametrize(
    ("change", "ordinal", "rule"),
    [
        (None, 0, "gap"),
        ({"post_image_hash": "text"}, 0, "unreadable"),
    ],
    ids=["gone", "unreadable"],
)
def test_effects_that_do_not_hold_one_by_one_are_not_hashed(tampered, change, ordinal, rule):
    row, _ = first_effect(tampered)
    if change is None:
        tampered.delete(schema.applied_effects, row)
    else:
        tampered.set(schema.applied_effects, row, **change)
    sequence = str(row["ec_sequence_number"])
    rules = {
        (finding.key, finding.rule)
        for finding in tampered.verify(limit_findings=200).findings
        if finding.table == "applied_effects"
    }
    assert (f"{sequence}/{ordinal}", rule) in rules
    assert (sequence, "bytes_changed") not in rules


def test_an_effect_on_another_record_is_not_the_one_that_was_hashed(tampered):
    row, _ = first_effect(tampered)
    tampered.set(schema.applied_effects, row, record_key="another")
    sequence = str(row["ec_sequence_number"])
    rules = {
        (finding.key, finding.rule)
        for finding in tampered.verify(limit_findings=200).findings
        if finding.table == "applied_effects"
    }
    assert {(sequence, "bytes_changed"), (f"{sequence}/0", "state_differs")} <= rules


def test_an_effect_that_the_envelope_does_not_have_is_named(tampered):
    row, count = first_effect(tampered)
    tampered.insert(schema.applied_effects, row | {"ordinal": count})
    rules = {
        (finding.table, finding.key, finding.rule)
        for finding in tampered.verify(limit_findings=200).findings
    }
    assert ("applied_effects", f"{row['ec_sequence_number']}/{count}", "extra") in rules


@pytest.mark.parametrize("broken", ["row", "payload", "bytes"])
def test_where_the_fold_ends_is_named(tampered, broken):
    row = tampered.rows(schema.kernel_event_log)[11]
    if broken == "payload":
        where = (row["envelope_payload_blob_ref"],)
        tampered.db.execute("DELETE FROM blobs WHERE blob_ref = ?", where)
    else:
        content = b"{" if broken == "bytes" else flipped(row["row_bytes"])
        tampered.set(schema.kernel_event_log, row, row_bytes=content)
    rules = {
        (finding.table, finding.key, finding.rule)
        for finding in tampered.verify(limit_findings=200).findings
    }
    assert ("kernel_event_log", "12", "not_folded") in rules


def test_a_row_at_which_the_fold_raises_ends_it(monkeypatch):
    ledger = memory_ledger()
    accepted(submit(ledger, create("n", "Note")))

    def fail(version):
        raise RuntimeError(version)

    monkeypatch.setattr("kernel.verify.fold.rules_of", fail)
    with ledger.view() as view:
        rules = [(finding.key, finding.rule) for finding in verify(view).findings]
    assert rules == [("1", "unreadable"), ("1", "not_folded")]


@pytest.mark.parametrize("page_rows", [2, 3, 100])
def test_rows_of_one_value_are_on_one_page(page_rows):
    ledger = memory_ledger()
    for number in range(3):
        accepted(submit(ledger, create(f"cu-{number}", "ConsolidatedUnderstanding")))
    with ledger.view() as view:
        count = view.tables.count(TableQuery(schema.applied_effects))
        reader = Reader(view.tables, Findings(9))
        options = {"order_by": "ec_sequence_number", "page_rows": page_rows}
        rows = list(reader.pages(schema.applied_effects, **options))
    assert len(rows) == count == 9


def test_an_ephemeral_receipt_of_no_operation_is_named(tampered):
    row = tampered.a_row(schema.ephemeral_receipts)
    tampered.insert(schema.ephemeral_receipts, row | {"receipt_id": "receipt:nobody:0"})
    first_finding = tampered.first()
    expected = ("ephemeral_receipts", "receipt:nobody:0", "extra")
    assert (first_finding.table, first_finding.key, first_finding.rule) == expected


def test_an_ephemeral_receipt_that_the_log_does_not_give_is_named(tampered):
    row = tampered.a_row(schema.ephemeral_receipts)
    tampered.set(schema.ephemeral_receipts, row, expires_at_us=row["expires_at_us"] + 1)
    first_finding = tampered.first()
    expected = ("ephemeral_receipts", row["receipt_id"], "state_differs")
    assert (first_finding.table, first_finding.key, first_finding.rule) == expected


@pytest.mark.parametrize("waited_us", [0, 25 * HOUR_US])
def test_an_ephemeral_receipt_is_gone_after_its_time_and_not_before(waited_us):
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    accepted(submit(ledger, create("n", "Note")))
    assert shown(simulate(ledger, envelope("annotate", [effect("node_write", "n", note="x")])))
    host.time_us += waited_us
    with ledger.transaction() as transaction:
        kept = transaction.tables.scan(TableQuery(schema.ephemeral_receipts))
        purged = purge_expired(transaction)
        assert purged == (len(kept) if waited_us else 0)
    with ledger.view() as view:
        assert verify(view).ok
    if not waited_us:
        with ledger.store.transaction() as tables:
            for row in kept:
                tables.delete(schema.ephemeral_receipts, row["receipt_id"])
        with ledger.view() as view:
            rules = {(finding.table, finding.rule) for finding in verify(view).findings}
        assert rules == {("ephemeral_receipts", "missing")}


# --- changes by somebody who knows the formats ------------------------------------------------


def rewrite_log_row(tampered, sequence, *, answer=False):
    """Change when an operation says it was recorded, everywhere but in the rows behind it."""
    row = next(
        stored_row
        for stored_row in tampered.rows(schema.kernel_event_log)
        if stored_row["ec_sequence_number"] == sequence
    )
    blob = next(
        stored_row
        for stored_row in tampered.rows(schema.blobs)
        if stored_row["blob_ref"] == row["envelope_payload_blob_ref"]
    )
    content = blob["content"].replace(b'"recorded_at":"2023', b'"recorded_at":"2022')
    assert content != blob["content"]
    blob_ref = blob_commitment(blob["salt"], content)
    tampered.set(schema.blobs, blob, content=content, blob_ref=blob_ref)
    row_bytes = row["row_bytes"].replace(b'"recorded_at":"2023', b'"recorded_at":"2022')
    row_bytes = row_bytes.replace(blob["blob_ref"].encode(), blob_ref.encode())
    row_hash = sha256_hex(row_bytes)
    tampered.set(
        schema.kernel_event_log,
        row,
        row_bytes=row_bytes,
        row_hash=row_hash,
        envelope_payload_blob_ref=blob_ref,
    )
    if answer:
        record = next(
            stored_row
            for stored_row in tampered.rows(schema.idempotency_records)
            if stored_row["ec_sequence_number"] == sequence
        )
        tampered.set(schema.idempotency_records, record, row_hash=bytes.fromhex(row_hash))
    return row["row_hash"], row_hash


def test_a_row_rewritten_with_its_own_hash_breaks_the_link_and_is_named(tampered):
    rewrite_log_row(tampered, 12)
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.key, first_finding.rule) == (
        "kernel_event_log",
        "12",
        "link_broken",
    )


def test_the_last_row_rewritten_with_its_own_hash_is_named(tampered):
    last = len(tampered.rows(schema.kernel_event_log))
    rewrite_log_row(tampered, last)
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.key, first_finding.rule) == (
        "kernel_event_log",
        str(last),
        "link_broken",
    )


def name_another_prior_row(tampered, sequence):
    row = tampered.rows(schema.kernel_event_log)[sequence - 1]
    row_bytes = row["row_bytes"].replace(row["prior_row_hash"].encode(), b"ab" * 32)
    tampered.set(
        schema.kernel_event_log,
        row,
        row_bytes=row_bytes,
        row_hash=sha256_hex(row_bytes),
        prior_row_hash="ab" * 32,
    )


def test_a_row_that_names_another_prior_row_is_named(tampered):
    name_another_prior_row(tampered, 12)
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.key, first_finding.rule) == (
        "kernel_event_log",
        "12",
        "link_broken",
    )


@pytest.mark.spec("§17.5")
@pytest.mark.parametrize("behind", ["changed", "gone"])
def test_a_row_that_does_not_fit_is_named_where_nothing_behind_it_can_be_relied_on(
    tampered, behind
):
    name_another_prior_row(tampered, 12)
    row = tampered.rows(schema.kernel_event_log)[12]
    if behind == "gone":
        tampered.delete(schema.kernel_event_log, row)
    else:
        tampered.set(schema.kernel_event_log, row, row_bytes=flipped(row["row_bytes"]))
    findings = tampered.verify(limit_findings=200).findings
    broken = [finding.key for finding in findings if finding.rule == "link_broken"]
    assert (findings[0].table, broken[0]) == ("kernel_event_log", "12")


def test_two_rows_behind_one_row_are_a_double_write(tampered):
    rows = tampered.rows(schema.kernel_event_log)
    tampered.db.execute("CREATE TABLE plain AS SELECT * FROM kernel_event_log")
    tampered.db.execute("DROP TABLE kernel_event_log")
    tampered.db.execute("ALTER TABLE plain RENAME TO kernel_event_log")
    twin = dict(rows[-1])
    twin["ec_sequence_number"] += 1
    twin["row_bytes"] = twin["row_bytes"].replace(
        b'"ec_sequence_number":"%d"' % len(rows), b'"ec_sequence_number":"%d"' % (len(rows) + 1)
    )
    twin["row_hash"] = sha256_hex(twin["row_bytes"])
    tampered.insert(schema.kernel_event_log, twin)
    faults = tampered.verify(limit_findings=200).findings
    findings = [finding for finding in faults if finding.rule != "schema_differs"]
    assert all(
        finding.table in ("kernel_event_log", "idempotency_records") for finding in findings[:2]
    )
    written_twice = [finding for finding in findings if finding.rule == "double_write"]
    assert str(len(rows) + 1) in {claim.key for claim in written_twice}


def test_a_chain_rewritten_to_its_end_is_found_by_the_answers(tampered):
    old, new = rewrite_log_row(tampered, 12, answer=True)
    for row in tampered.rows(schema.kernel_event_log)[12:]:
        row_bytes = row["row_bytes"].replace(old.encode(), new.encode())
        values = {"row_bytes": row_bytes, "prior_row_hash": new}
        old, new = row["row_hash"], sha256_hex(row_bytes)
        tampered.set(schema.kernel_event_log, row, row_hash=new, **values)
    tampered.set(schema.chain_head, tampered.a_row(schema.chain_head), row_hash=new)
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.rule) == ("idempotency_records", "column_differs")
    assert first_finding.key == "13"


def test_a_record_rewritten_as_a_whole_is_sound_and_ends_with_another_hash(tampered, honest_file):
    """What no look at the record itself can find: compare the head with one kept elsewhere."""
    old, new = rewrite_log_row(tampered, 12, answer=True)
    answers = {
        stored_row["ec_sequence_number"]: stored_row
        for stored_row in tampered.rows(schema.idempotency_records)
    }
    for row in tampered.rows(schema.kernel_event_log)[12:]:
        row_bytes = row["row_bytes"].replace(old.encode(), new.encode())
        values = {"row_bytes": row_bytes, "prior_row_hash": new}
        old, new = row["row_hash"], sha256_hex(row_bytes)
        tampered.set(schema.kernel_event_log, row, row_hash=new, **values)
        answer = answers[row["ec_sequence_number"]]
        tampered.set(schema.idempotency_records, answer, row_hash=bytes.fromhex(new))
    tampered.set(schema.chain_head, tampered.a_row(schema.chain_head), row_hash=new)
    tampered.fit_frontier()
    verification = tampered.verify()
    assert verification.ok
    assert verification.head_hash == new != old


def test_a_refusal_rewritten_with_its_own_hash_is_named(tampered):
    row = next(
        stored_row
        for stored_row in tampered.rows(schema.receipts)
        if stored_row["receipt_kind"] == "envelope_validation_failed"
    )
    content = row["receipt_bytes"].replace(b'"message":"', b'"message":"not ')
    assert content != row["receipt_bytes"]
    tampered.set(schema.receipts, row, receipt_bytes=content, receipt_hash=sha256_hex(content))
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.rule) == ("receipts", "link_broken")
    assert first_finding.key == str(row["receipt_sequence"])


def test_a_receipt_from_before_the_one_before_it_is_named(tampered):
    row = tampered.rows(schema.receipts)[-1]
    document = orjson.loads(row["receipt_bytes"])
    content = canonicalize(document | {"emitted_at": "1999-01-01T00:00:00.000000Z"})
    tampered.set(schema.receipts, row, receipt_bytes=content, receipt_hash=sha256_hex(content))
    rules = {(finding.table, finding.key, finding.rule) for finding in tampered.verify().findings}
    assert ("receipts", str(row["receipt_sequence"]), "order_broken") in rules


def test_a_receipt_rewritten_with_its_own_hash_is_found_by_the_fold_too(tampered):
    rows = tampered.rows(schema.receipts)
    row = next(row for row in rows if str(row["receipt_id"]).startswith("receipt:"))
    document = orjson.loads(row["receipt_bytes"])
    content = canonicalize(document | {"emitted_at": "2099-01-01T00:00:00.000000Z"})
    tampered.set(schema.receipts, row, receipt_bytes=content, receipt_hash=sha256_hex(content))
    findings = tampered.verify(limit_findings=200).findings
    rules = {(finding.table, finding.key, finding.rule) for finding in findings}
    assert ("receipts", str(row["receipt_sequence"]), "state_differs") in rules


def test_an_effect_rewritten_with_its_row_is_found_by_the_fold(tampered):
    """Somebody changes what an effect is said to have done and seals that consistently."""
    last = tampered.rows(schema.kernel_event_log)[-1]
    effects = [
        row
        for row in tampered.rows(schema.applied_effects)
        if row["ec_sequence_number"] == last["ec_sequence_number"]
    ]
    forged = effects[0] | {"post_image_hash": flipped(effects[0]["post_image_hash"], 20)}
    joined = [
        sha256_hex(canonicalize([hashed_effect(part, last["committed_at"]) for part in each]))
        for each in (effects, [forged, *effects[1:]])
    ]
    row_bytes = last["row_bytes"].replace(joined[0].encode(), joined[1].encode())
    row_hash = sha256_hex(row_bytes)
    tampered.set(schema.applied_effects, effects[0], post_image_hash=forged["post_image_hash"])
    tampered.set(schema.kernel_event_log, last, row_bytes=row_bytes, row_hash=row_hash)
    tampered.set(schema.chain_head, tampered.a_row(schema.chain_head), row_hash=row_hash)
    record = next(
        row
        for row in tampered.rows(schema.idempotency_records)
        if row["ec_sequence_number"] == last["ec_sequence_number"]
    )
    tampered.set(schema.idempotency_records, record, row_hash=bytes.fromhex(row_hash))
    tampered.fit_frontier()
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.rule) == ("applied_effects", "state_differs")
    assert first_finding.key == key_of(schema.applied_effects, effects[0])


def test_a_missing_tail_is_missed_by_the_head(tampered):
    last = tampered.rows(schema.kernel_event_log)[-1]
    tampered.delete(schema.kernel_event_log, last)
    first_finding = tampered.first()
    assert names(first_finding, schema.kernel_event_log, last)
    assert first_finding.rule == "missing"


def cut_tail(tampered):
    """Remove the newest operation and what hangs on its number, and turn the head back."""
    *_, before, last = tampered.rows(schema.kernel_event_log)
    sequence = last["ec_sequence_number"]
    tampered.delete(schema.kernel_event_log, last)
    for table in (schema.causal_parents, schema.applied_effects, schema.idempotency_records):
        tampered.run("DELETE FROM", table.name, "WHERE ec_sequence_number = ?", values=(sequence,))
    tampered.db.execute(
        "DELETE FROM blobs WHERE blob_ref = ?", (last["envelope_payload_blob_ref"],)
    )
    tampered.db.execute("DELETE FROM receipts WHERE operation_id = ?", (last["operation_id"],))
    receipt = tampered.rows(schema.receipts)[-1]
    tampered.set(
        schema.chain_head,
        tampered.a_row(schema.chain_head),
        ec_sequence_number=sequence - 1,
        row_hash=before["row_hash"],
        receipt_sequence=receipt["receipt_sequence"],
        receipt_hash=receipt["receipt_hash"],
    )
    return last


def test_a_tail_cut_off_with_the_head_turned_back_is_found_in_the_state(tampered):
    cut_tail(tampered)
    findings = tampered.verify().findings
    assert findings[0].rule == "frontier_differs"
    assert findings[1].rule in ("state_differs", "extra")
    assert ("nodes", "cu-g") in {(finding.table, finding.key) for finding in findings}


@pytest.mark.parametrize(
    "left",
    [
        schema.causal_parents,
        schema.applied_effects,
        schema.idempotency_records,
        schema.blobs,
        schema.receipts,
    ],
    ids=lambda t: t.name,
)
def test_what_a_cut_tail_leaves_behind_is_named(tampered, left):
    rows = tampered.rows(left)
    last = cut_tail(tampered)
    kept = {row["place"] for row in tampered.rows(left)}
    for row in rows:
        if row["place"] not in kept:
            tampered.insert(left, row)
    if left is schema.receipts:
        receipt = tampered.rows(left)[-1]
        head = tampered.a_row(schema.chain_head)
        tampered.set(
            schema.chain_head,
            head,
            receipt_sequence=receipt["receipt_sequence"],
            receipt_hash=receipt["receipt_hash"],
        )
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.rule) == (left.name, "extra")
    assert last is not None


@pytest.mark.parametrize("table", schema.STATE_TABLES, ids=lambda t: t.name)
def test_an_edited_record_is_named_with_the_sequence_of_its_last_effect(tampered_brief, table):
    row = tampered_brief.a_row(table)
    key = row[table.primary_key.columns[0].name]
    record = row["record"].replace(b'"updated_at":"2', b'"updated_at":"3')
    tampered_brief.set(table, row, record=record)
    last = [
        stored_row["ec_sequence_number"]
        for stored_row in tampered_brief.rows(schema.applied_effects)
        if (stored_row["store"], stored_row["record_key"]) == (table.name, key)
    ]
    first_finding = tampered_brief.first()
    assert (first_finding.table, first_finding.key, first_finding.rule) == (
        table.name,
        key,
        "state_differs",
    )
    # A transition's row goes with the effect on its membership and has none of its own.
    # What a model answered is recorded beside the effects.
    without = (schema.membership_state_transitions, schema.recorded_model_outputs)
    assert bool(last) == (table not in without)
    assert not last or f"sequence {max(last)}" in first_finding.message


def test_an_authority_that_its_inputs_do_not_give_is_named(tampered):
    row = next(
        stored_row for stored_row in tampered.rows(schema.nodes) if stored_row["node_id"] == "cu-a"
    )
    start = row["record"].index(b'"cu_authority":0.') + len(b'"cu_authority":0.')
    tampered.set(schema.nodes, row, record=flipped(row["record"], start))
    verification = tampered.verify(fold=False)
    first = verification.findings[0]
    assert (first.table, first.key, first.rule) == ("nodes", "cu-a", "authority_differs")
    assert verification.authorities_equal < 5


def test_an_index_entry_that_differs_from_its_node_is_named(tampered):
    entry_id = "authority_index|cu-a"
    row = next(
        stored_row
        for stored_row in tampered.rows(schema.derived_indexes)
        if stored_row["entry_id"] == entry_id
    )
    start = row["record"].index(b'"cu_authority":0.') + len(b'"cu_authority":0.')
    tampered.set(schema.derived_indexes, row, record=flipped(row["record"], start))
    findings = tampered.verify(fold=False).findings
    assert [(finding.table, finding.key) for finding in findings] == [("derived_indexes", entry_id)]


def test_a_belief_trail_cut_at_its_end_is_found_by_its_anchor(tampered):
    rows = [row for row in tampered.rows(schema.belief_events) if row["session_id"] == "s-1"]
    tampered.delete(schema.belief_events, rows[-1])
    session = BeliefSession.restore([row["event_bytes"] for row in rows[:-1]])
    survivors = session.snapshot()["survivors"]
    summary = next(
        row for row in tampered.rows(schema.belief_sessions) if row["session_id"] == "s-1"
    )
    tampered.set(
        schema.belief_sessions,
        summary,
        n_events=session.n_events,
        n_survivors=len(survivors),
        head_event_hash=session.head_event_hash,
        survivors_shown=canonicalize(survivors[:12]),
    )
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.key, first_finding.rule) == (
        "belief_sessions",
        "s-1",
        "anchor_differs",
    )


def test_a_whole_belief_session_removed_is_missed_by_its_anchor(tampered):
    tampered.db.execute("DELETE FROM belief_events WHERE session_id = 's-1'")
    tampered.db.execute("DELETE FROM belief_sessions WHERE session_id = 's-1'")
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.key, first_finding.rule) == (
        "belief_sessions",
        "s-1",
        "missing",
    )


def test_a_request_given_up_without_its_receipt_is_found(tampered):
    row = next(stored_row for stored_row in tampered.rows(schema.outbox) if stored_row["open"])
    tampered.set(schema.outbox, row, open=0)
    tampered.insert(
        schema.outbox_outcomes,
        {
            "request_id": row["request_id"],
            "outcome": "dead_letter",
            "operation_id": None,
            "closed_sequence": row["cause_sequence"],
            "closed_at_us": row["enqueued_at_us"],
        },
    )
    findings = {(finding.table, finding.key) for finding in tampered.verify().findings}
    assert ("outbox_outcomes", row["request_id"]) in findings


def test_a_request_without_its_receipt_is_found(tampered):
    row = next(
        stored_row
        for stored_row in tampered.rows(schema.outbox)
        if stored_row["queue"] == BINDING_QUEUE
    )
    last = max(stored_row["request_sequence"] for stored_row in tampered.rows(schema.outbox))
    forged = {**row, "request_id": "request:forged", "request_sequence": last + 1}
    tampered.insert(schema.outbox, {**forged, "open": 1})
    tampered.set(schema.chain_head, tampered.a_row(schema.chain_head), request_sequence=last + 1)
    assert ("outbox", "request:forged", "extra") in {
        (finding.table, finding.key, finding.rule) for finding in tampered.verify().findings
    }


@pytest.mark.parametrize("column", ["priority", "item_key", "queue", "request_bytes", "open"])
def test_what_a_request_says_is_what_its_receipt_says(tampered, column):
    where = ("binding-evaluation", 1)
    row = next(
        stored_row
        for stored_row in tampered.rows(schema.outbox)
        if (stored_row["queue"], stored_row["open"]) == where
    )
    changed = {"open": 0, "request_bytes": row["request_bytes"].replace(b"b-", b"c-")}
    tampered.set(schema.outbox, row, **{column: changed.get(column, "background_low_priority")})
    places = {(finding.table, finding.key) for finding in tampered.verify().findings}
    assert ("outbox", row["request_id"]) in places


@pytest.mark.parametrize("column", ["outcome", "operation_id", "closed_sequence", "closed_at_us"])
def test_an_outcome_is_the_one_that_its_receipt_says(tampered, column):
    row = next(
        stored_row
        for stored_row in tampered.rows(schema.outbox_outcomes)
        if stored_row["request_id"].startswith("request:binding-evaluation")
    )
    changed = {"outcome": "cancelled", "operation_id": "somebody's"}
    tampered.set(schema.outbox_outcomes, row, **{column: changed.get(column, 7)})
    places = {(finding.table, finding.key) for finding in tampered.verify().findings}
    assert ("outbox_outcomes", row["request_id"]) in places


def test_a_receipt_that_an_operation_emits_gives_up_no_request():
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    accepted(submit(ledger, create("cu-1", "ConsolidatedUnderstanding")))
    with ledger.view() as view:
        (request,) = view.open_requests()
    outcome_effect = effect("receipt_only", request_id=request.request_id, target_cu_id="cu-1")
    outcome_effect["receipt_subkind"] = "authority_recompute_dead_lettered"
    submit(ledger, envelope("search_run_record", [outcome_effect]))
    with ledger.view() as view:
        verification = verify(view)
    assert verification.findings == ()
    assert (verification.requests_open, verification.authorities_pending) == (1, 1)


def test_an_erased_payload_is_named(tampered):
    row = tampered.a_row(schema.blobs)
    tampered.delete(schema.blobs, row)
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.key, first_finding.rule) == (
        "blobs",
        row["blob_ref"],
        "missing",
    )


# --- anything at all --------------------------------------------------------------------------

GARBAGE = {
    "not text": "CAST(x'ff' AS TEXT)",
    "not an object": "x'5b5d'",
    "not JSON": "x'00ff7b'",
    "deep": "CAST(replace(hex(zeroblob(20000)), '00', '[') AS BLOB)",
    "a number": "1e300",
    "numbers": "CAST('{\"n\":1' || replace(hex(zeroblob(3000)), '0', '9') || '}' AS BLOB)",
}


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_garbage_anywhere_is_a_finding_and_never_an_exception(brief_file, tmp_path, table):
    """Every fifth column holds some garbage; with HYPOTHESIS_PROFILE=nightly, each holds all."""
    kinds = [*GARBAGE.values()]
    turns = itertools.islice(itertools.cycle(kinds), len(table.name) % len(kinds), None)
    first, step = (0, 1) if NIGHTLY else (len(table.name) % 5, 5)
    for column in [*table.columns][first::step]:
        for garbage in GARBAGE.values() if NIGHTLY else [next(turns)]:
            path = tmp_path / f"{table.name}.{column.name}.db"
            shutil.copy(brief_file, path)
            if not _spoiled(path, table, column, garbage):
                continue
            verification = verify_file(path)
            path.unlink()
            if (table.name, column.name) not in NOT_ON_RECORD:
                assert not verification.ok, f"{table.name}.{column.name}"


def _spoiled(path, table, column, garbage):
    """Write garbage into the first row of a table; False where the column cannot hold it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        for change in ("update", "delete"):
            db.execute(f"DROP TRIGGER IF EXISTS {table.name}_refuses_{change}")
        try:
            words = ("UPDATE", table.name, "SET", f"{column.name} = {garbage}", "WHERE rowid = ?")
            first = ("SELECT min(rowid) FROM", table.name)
            db.execute(" ".join(words), db.execute(" ".join(first)).fetchone())
        except sqlite3.IntegrityError:
            return False  # a row number holds numbers only
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "table",
    [table for table in TABLES if len(table.columns) > len(table.primary_key.columns)],
    ids=lambda table: table.name,
)
def test_a_table_of_other_types_is_a_finding_and_never_an_exception(tampered_brief, table):
    value = ("randomblob(8)", "random()")[len(table.name) % 2]
    keys = {column.name for column in table.primary_key.columns}
    for column in table.columns:
        if column.name not in keys:
            tampered_brief.run("UPDATE", table.name, f"SET {column.name} = {value}")
    assert not tampered_brief.verify(limit_findings=60).ok


@pytest.mark.parametrize("value", ["x'ff'", "7", "x''"])
@pytest.mark.parametrize("table", [schema.receipts, schema.ephemeral_receipts])
def test_a_receipt_id_of_the_wrong_type_is_named(tampered_brief, table, value):
    """It was emitted by an operation, so somebody asks it with what it begins."""
    row = next(
        stored_row
        for stored_row in tampered_brief.rows(table)
        if stored_row["operation_id"] is not None
    )
    where = f"WHERE rowid = {row['place']}"
    tampered_brief.run("UPDATE", table.name, f"SET receipt_id = {value}", where)
    assert table.name in {finding.table for finding in tampered_brief.verify().findings}


def test_no_more_findings_than_asked_for(tampered):
    tampered.db.execute("UPDATE kernel_event_log SET semantic_intent = 'x'")
    verification = tampered.verify(limit_findings=3)
    assert [finding.key for finding in verification.findings] == ["1", "2", "3"]


@pytest.fixture(scope="module")
def brief_memory():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    write_briefly(ledger, host)
    return ledger


@pytest.mark.parametrize("where", BYTES_COLUMNS, ids=lambda where: f"{where[0].name}.{where[1]}")
@given(data=st.data())
@settings(max_examples=max(1, settings().max_examples // 50))
def test_any_single_flipped_bit_is_found(brief_memory, where, data):
    table, column = where
    store, key_of_row = brief_memory.store, values_getter(key_names(table))
    with store.view() as tables:
        # A first write has no state before it, and so no bit of its hash; what is open has no seal.
        contents = {
            key_of_row(row): row[column] for row in tables.scan(TableQuery(table)) if row[column]
        }
    key = data.draw(st.sampled_from(sorted(contents)), label="row")
    content = contents[key]
    position = data.draw(st.integers(0, len(content) - 1), label="position")
    bit = 1 << data.draw(st.integers(0, 7), label="bit")
    with store.transaction() as tables:
        tables.update(table, key, {column: flipped(content, position, bit)})
    try:
        with brief_memory.view() as view:
            verification = verify(view)
    finally:
        with store.transaction() as tables:
            tables.update(table, key, {column: content})
    assert not verification.ok


# What a finding is called


@pytest.mark.spec("§17.5")
def test_an_envelope_that_does_not_hash_to_its_commitment_is_found_at_its_payload():
    ledger = memory_ledger()
    submit(ledger, create("n", "Note"))
    with ledger.store.transaction() as tables:
        [row] = tables.scan(TableQuery(schema.kernel_event_log))
        blob_ref = row["envelope_payload_blob_ref"]
        content = tables.get(schema.blobs, blob_ref)["content"]
        tables.update(schema.blobs, (blob_ref,), {"content": content.replace(b"Note", b"Nope")})
    with ledger.view() as view:
        findings = verify(view).findings[0]
    assert (findings.table, findings.key, findings.rule) == ("blobs", blob_ref, "bytes_changed")


def test_a_snapshot_of_a_length_that_a_session_never_had_differs_from_the_replay(tampered):
    row = tampered.a_row(schema.belief_snapshots)
    tampered.set(schema.belief_snapshots, row, n_events=999)
    first_finding = tampered.first()
    assert (first_finding.table, first_finding.rule) == ("belief_snapshots", "replay_differs")


def test_of_a_store_that_could_not_be_opened_nothing_was_counted():
    counts = asdict(unreadable([]))
    assert {name: value for name, value in counts.items() if type(value) is int and value} == {}


# Links and names


@pytest.mark.spec("§17.5")
def test_a_walk_ends_before_the_row_that_names_another_prior_row():
    ledger = memory_ledger()
    submit(ledger, *(create(f"n-{number}", "Note") for number in range(3)))
    with ledger.store.transaction() as tables:
        tables.update(schema.kernel_event_log, (2,), {"prior_row_hash": "1" * 64})
    with ledger.view() as view:
        walk = walk_log(view.tables)
    assert (walk.rows, walk.broken_at) == (1, 2)


@pytest.mark.spec("K30")
def test_an_effect_of_a_kind_that_its_version_does_not_have_is_named():
    assert "teleport" in unknown_effect_name({"effect_kind": "teleport"}, rules_of(1))


# Causes


def without_check(monkeypatch, forgotten):
    """Let the kernel forget one of its checks, so that what it refuses gets onto the record."""
    kept = tuple((name, check) for name, check in CHECKS if check is not forgotten)
    assert len(kept) == len(CHECKS) - 1
    monkeypatch.setattr("kernel.transaction.kernel.remaining_checks", lambda _: kept)


@pytest.mark.spec("§2.7")
@pytest.mark.parametrize("cause", ["nowhere", "itself", "later"])
def test_a_cause_that_is_on_no_earlier_row_is_found(monkeypatch, cause):
    without_check(monkeypatch, check_causality)
    ledger = memory_ledger()
    parents = {"causal_parent_operation_ids": [cause]}
    for name in ("first", "itself", "later"):
        fields = parents if name == "itself" else {}
        document = create(name, "Note", envelope={"operation_id": name, **fields})
        accepted(submit(ledger, document, submitter="orchestrator", unseen=True))
    with ledger.view() as view:
        [finding] = verify(view).findings
    assert (finding.table, finding.key, finding.rule) == ("kernel_event_log", "2", "link_broken")
    assert cause in finding.message


@pytest.mark.spec("§2.7")
def test_causes_older_than_those_kept_in_memory_are_looked_up(monkeypatch):
    monkeypatch.setattr("kernel.verify.log.KNOWN_MAX", 2)
    ledger = memory_ledger()
    document = create("n", "Note")
    first = accepted(submit(ledger, document)).operation_id
    for number in range(5):
        fields = {"causal_parent_operation_ids": [first]}
        accepted(submit(ledger, create(f"m-{number}", "Note", envelope=fields)))
    with ledger.view() as view:
        assert verify(view).findings == ()
