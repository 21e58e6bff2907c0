"""Rows of the log move into the archive, and everything is said of them as before."""

import gzip
import sqlite3
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.audit.export import export_lines
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditFilter, find_operations
from kernel.ledger import schema
from kernel.ledger.archive import Archive, ArchiveUnavailable
from kernel.ledger.archive_segment import (
    SEGMENT_ROWS,
    SegmentRow,
    content_hash_of,
    pack_segment,
    unpack_segment,
)
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.keys import column_names
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.replay.reproduce import reproduce_range
from kernel.retention.log_archival import (
    GRACE_US,
    HOT_ROWS_MIN,
    collect_envelopes,
    move_rows,
    next_segment,
    next_to_collect,
    read_segment,
    write_segment,
)
from kernel.values.errors import LedgerCorrupt, LedgerUnavailable
from kernel.values.host import parse_time_us
from kernel.verify import verify
from kernel.verify.recent import AuditMark, audit_since
from tests.kernel.archives import LATER, archive_next, collect_next, memory_archive
from tests.kernel.build import FakeHost, create, findings, submit, twin
from tests.kernel.honest import write_honestly
from tests.kernel.lites import lite, migrated
from tests.kernel.tampering import flipped

pytestmark = pytest.mark.spec("§17.7")

OPERATIONS = 300


def whole(rows):
    """Every column of the rows, of archived ones too."""
    return [{name: row[name] for name in column_names(schema.kernel_event_log)} for row in rows]


def said_of(ledger):
    """What is said of a record by everything that reads the log."""
    with ledger.view() as view:
        verification = verify(view)
        assert verification.findings == ()
        last = view.head().ec_sequence_number
        rows = view.log_rows(limit=OPERATIONS * 2)
        replays = list(reproduce_range(view, 1, last))
        tree = view.log_tree()
        return {
            "rows": whole(rows),
            "tail": whole(view.log_tail(290)),
            "entries": view.log_entries(after=3, limit=280),
            "export": list(export_lines(view))[1:],
            "counts": (verification.rows, verification.blobs, verification.tree_root),
            "replays": [(replay.difference, replay.erased, replay.applied) for replay in replays],
            "pages": [
                find(view, criteria, limit=OPERATIONS)
                for find in (find_operations, newest_operations)
                for criteria in (
                    AuditFilter(),
                    AuditFilter(semantic_intent="create"),
                    AuditFilter(entity="cu-a"),
                    AuditFilter(entity="cu-a", declared=True),
                    AuditFilter(session_id="session-1"),
                    AuditFilter(from_us=1_700_000_000_100_000),
                )
            ],
            "envelopes": [view.envelope(row["operation_id"]) for row in rows],
            "epochs": [
                whole(view.epoch_rows(row["commit_epoch_id"], limit=9)) for row in rows[:99]
            ],
            "paths": [tree.inclusion_path(index, last) for index in (0, 7, 255, last - 1)],
            "on_record": view.operations_on_record({"x", *(row["operation_id"] for row in rows)}),
            "recent": audit_since(view, AuditMark()).verification.findings,
        }


@pytest.fixture(scope="module")
def world():
    """A ledger of everything, what was said of it before, and its archive."""
    host, archive = FakeHost(), memory_archive()
    ledger = Ledger.create(MemoryStore(), host.host, archive)
    write_honestly(ledger, host)
    migrated(ledger, lite(create("of-1.5", "Note")))
    with ledger.view() as view:
        before = view.head().ec_sequence_number
    for number in range(OPERATIONS - before):
        submit(ledger, create(f"further-{number}", "Note"))
    return ledger, host, said_of(ledger)


def without_receipts(said):
    """The export without the receipts that archiving leaves behind the last row."""
    lines = [line for line in said["export"] if b"log_segment_" not in line]
    return {**said, "export": lines[:-1]}


def test_everything_is_said_as_before_once_rows_and_envelopes_are_in_the_archive(world):
    ledger, host, before = world
    assert archive_next(ledger)
    assert not archive_next(ledger)
    assert without_receipts(said_of(ledger)) == without_receipts(before)
    assert collect_next(ledger, host) == SEGMENT_ROWS
    assert collect_next(ledger, host) == 0
    assert without_receipts(said_of(ledger)) == without_receipts(before)
    with ledger.store.view() as tables:
        assert tables.count(TableQuery(schema.kernel_event_log)) == OPERATIONS - SEGMENT_ROWS
        assert tables.count(TableQuery(schema.archived_rows)) == SEGMENT_ROWS
    with ledger.view() as view:
        assert verify(view).rows_archived == SEGMENT_ROWS
        assert view.archived_at_us(SEGMENT_ROWS) is not None
        assert view.archived_at_us(SEGMENT_ROWS + 1) is None


# --- what is due ------------------------------------------------------------------------------


def short_ledger(rows, archive=None, store=None):
    host = FakeHost()
    ledger = Ledger.create(store or MemoryStore(), host.host, archive or memory_archive())
    for number in range(rows):
        submit(ledger, create(f"n-{number}", "Note"))
    return ledger, host


@pytest.fixture(scope="module")
def two_tiles():
    return short_ledger(2 * SEGMENT_ROWS)


def test_a_segment_is_due_once_its_last_row_is_old_enough_and_enough_rows_follow(two_tiles):
    ledger, _ = two_tiles
    with ledger.view() as view:
        [first, last] = [view.log_row_at(number) for number in (1, SEGMENT_ROWS)]
        first_us, last_us = (parse_time_us(row["committed_at"]) for row in (first, last))
        assert next_segment(view, first_us, hot_rows_min=0) is None
        assert next_segment(view, last_us, hot_rows_min=0) is None
        assert next_segment(view, last_us + 1, hot_rows_min=0) == 0
        assert next_segment(view, last_us + 1, hot_rows_min=SEGMENT_ROWS) == 0
        assert next_segment(view, last_us + 1, hot_rows_min=SEGMENT_ROWS + 1) is None
        assert next_segment(view, LATER) is None
        assert HOT_ROWS_MIN > SEGMENT_ROWS


def copy_of(made):
    ledger, host = twin(*made)
    ledger.archive = memory_archive()
    return ledger, host


def test_who_comes_second_moves_nothing(two_tiles):
    ledger, _ = copy_of(two_tiles)
    with ledger.view() as view:
        written = write_segment(view, ledger.archive, 0)
        again = write_segment(view, ledger.archive, 0)
    assert again == written
    assert list(ledger.archive.files) == [written.content_hash]
    for moved in (SEGMENT_ROWS, 0):
        with ledger.transaction() as transaction:
            assert move_rows(transaction, written) == moved
    assert archive_next(ledger)
    assert findings(ledger) == ()


def test_envelopes_stay_in_the_database_for_seven_days(two_tiles):
    ledger, host = copy_of(two_tiles)
    assert archive_next(ledger)
    with ledger.view() as view:
        moved_us = view.archived_at_us(1)
        assert next_to_collect(view, moved_us + GRACE_US - 1) is None
        assert next_to_collect(view, moved_us + GRACE_US) == 0
        read = read_segment(view, ledger.archive, 0)
    ledger.archive.files.clear()
    host.time_us = moved_us + GRACE_US
    with ledger.view() as view, pytest.raises(ArchiveUnavailable) as caught:
        read_segment(view, ledger.archive, 0)
    assert caught.value.code == "archive_segment_missing"
    for count in (SEGMENT_ROWS, 0):
        with ledger.transaction() as transaction:
            assert collect_envelopes(transaction, read) == count


def test_a_row_that_is_not_the_trees_is_not_archived(two_tiles):
    ledger, _ = copy_of(two_tiles)
    with ledger.store.transaction() as tables:
        row = tables.get(schema.kernel_event_log, 9)
        tables.put(schema.kernel_event_log, row | {"row_bytes": row["row_bytes"][:-1] + b" }"})
    with ledger.view() as view, pytest.raises(LedgerCorrupt, match="row 9 "):
        write_segment(view, ledger.archive, 0)


def test_an_envelope_that_is_not_its_rows_is_not_archived(two_tiles):
    ledger, _ = copy_of(two_tiles)
    with ledger.store.transaction() as tables:
        ref = tables.get(schema.kernel_event_log, 9)["envelope_payload_blob_ref"]
        tables.update(schema.blobs, (ref,), {"content": b"{}"})
    with ledger.view() as view, pytest.raises(LedgerCorrupt, match="of row 9 "):
        write_segment(view, ledger.archive, 0)


def test_the_log_says_to_the_store_that_a_row_may_only_go_where_it_is_archived(tmp_path):
    ledger, host = short_ledger(SEGMENT_ROWS + 1, store=SqliteStore(tmp_path / "ledger.db"))
    with ledger.store.transaction() as tables, pytest.raises(sqlite3.IntegrityError):
        tables.delete(schema.kernel_event_log, 1)
    assert archive_next(ledger)
    assert collect_next(ledger, host) == SEGMENT_ROWS
    assert findings(ledger) == ()
    with ledger.store.transaction() as tables, pytest.raises(sqlite3.IntegrityError):
        tables.delete(schema.archived_rows, 1)
    ledger.close()


# --- what verification says -------------------------------------------------------------------


@pytest.fixture
def archived(two_tiles):
    ledger, host = copy_of(two_tiles)
    assert archive_next(ledger)
    assert archive_next(ledger)
    return ledger, host


def change_file(ledger, change):
    """Change the file of the second segment."""
    with ledger.view() as view:
        name = view.tables.get(schema.archive_segments, 1)["content_hash"]
    ledger.archive = Archive(ledger.archive.files)
    changed = change(ledger.archive.files[name])
    if changed is None:
        del ledger.archive.files[name]
    else:
        ledger.archive.files[name] = changed


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda _: None, "segment_missing"),
        (lambda _: b"", "segment_damaged"),
        (lambda content: content[:-1], "segment_damaged"),
        (flipped, "segment_damaged"),
        (lambda content: gzip.compress(gzip.decompress(content), 1), "segment_damaged"),
    ],
)
def test_a_segment_that_is_gone_or_another_is_named_with_its_rows(archived, change, rule):
    ledger, _ = archived
    change_file(ledger, change)
    with ledger.view() as view:
        verification = verify(view)
    [finding] = verification.findings
    assert (finding.table, finding.key, finding.rule) == ("archive_segments", "1", rule)
    assert "rows 257 to 512" in finding.message
    assert verification.not_checked


def test_a_segment_that_is_written_anew_in_another_way_is_not_the_records(archived):
    """Whoever owns the file and the archive can make both fit; the chain of receipts does not."""
    ledger, _ = archived
    files = ledger.archive.files
    with ledger.view() as view:
        row = view.tables.get(schema.archive_segments, 0)
    content = gzip.decompress(files[row["content_hash"]]).replace(b'"n-7"', b'"n-x"')
    forged = gzip.compress(content, 6, mtime=0)
    files[content_hash_of(forged)] = forged
    with ledger.store.transaction() as tables:
        changes = {"content_hash": content_hash_of(forged), "stored_bytes": len(forged)}
        tables.update(schema.archive_segments, (0,), changes)
    named = {(finding.table, finding.rule) for finding in findings(ledger)}
    assert ("archive_segments", "segment_damaged") in named
    assert ("archive_segments", "state_differs") in named


def test_an_archive_that_does_not_answer_is_no_finding(archived):
    ledger, _ = archived
    ledger.archive = Archive()
    with ledger.view() as view, pytest.raises(LedgerUnavailable) as caught:
        verify(view)
    assert caught.value.code == "archive_not_configured"


# --- the file ---------------------------------------------------------------------------------

OPENED = st.binary(max_size=40).map(lambda name: b'{"a":"%b"}' % name.hex().encode())
ROWS = st.lists(
    st.one_of(
        st.builds(SegmentRow, OPENED, st.binary(min_size=32, max_size=32), OPENED),
        st.builds(SegmentRow, OPENED, st.none(), st.none()),
    ),
    max_size=4,
)


@given(ROWS)
def test_a_file_gives_back_the_bytes_that_it_was_made_of(rows):
    content = pack_segment(3, rows)
    assert unpack_segment(content).rows == tuple(rows)
    assert pack_segment(3, rows) == content
    assert gzip.decompress(content).count(b"\n") == len(rows) + 1


@given(st.binary(), st.booleans())
def test_strange_bytes_are_no_file(content, compressed):
    with pytest.raises(LedgerCorrupt):
        unpack_segment(gzip.compress(content) if compressed else content)


@given(st.data())
def test_a_changed_file_gives_other_rows_or_none(data):
    rows = [SegmentRow(b'{"a":1}', bytes(32), b'{"b":2}'), SegmentRow(b'{"a":2}', None, None)]
    raw = gzip.decompress(pack_segment(0, rows))
    place = data.draw(st.integers(0, len(raw) - 1))
    with suppress(LedgerCorrupt):
        assert unpack_segment(gzip.compress(flipped(raw, place))) != unpack_segment(
            pack_segment(0, rows)
        )


def test_what_would_not_be_read_back_is_not_packed():
    for content in (b'{"a":\n1}', b'{"a":1}\n'):
        with pytest.raises(LedgerCorrupt):
            pack_segment(0, [SegmentRow(b"{}", bytes(32), content)])
    with pytest.raises(LedgerCorrupt):
        pack_segment(0, [SegmentRow(b'{"x":1,"salt":2}', bytes(32), b"{}")])


def test_a_file_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr("kernel.ledger.archive_segment.RAW_BYTES_MAX", 1000)
    with pytest.raises(LedgerCorrupt, match="too large"):
        unpack_segment(gzip.compress(bytes(100_000)))


def test_a_file_with_more_lines_than_a_segment_has_rows_is_refused_without_reading_them():
    """A file that unpacks to newlines alone would be eight times as much as a list of them."""
    lines = 1 << 22
    file = gzip.compress(b'{"first_sequence":"1","format":"rotulus-segment/1"}\n' + b"\n" * lines)
    tracemalloc.start()
    try:
        with pytest.raises(LedgerCorrupt):
            unpack_segment(file)
        assert tracemalloc.get_traced_memory()[1] < 4 * lines
    finally:
        tracemalloc.stop()
