"""A verification from a kept tree head on: what it finds, and what is left to a whole one."""

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import LEDGER_ID
from kernel.proof.tiles import TILE_WIDTH
from kernel.verify import verify
from kernel.verify.since import KeptTree, verify_since
from tests.kernel.build import FakeHost, adapt, create, memory_ledger, submit, twin

pytestmark = pytest.mark.spec("§17.5")

ROWS = TILE_WIDTH + 40
KEPT = 270


@pytest.fixture(scope="module")
def honest():
    host = FakeHost()
    ledger = memory_ledger(host)
    for number in range(1, ROWS + 1):
        document = adapt("n-1", note=number) if number % 9 == 0 else create(f"n-{number}", "Note")
        submit(ledger, document)
        if number % 50 == 0:
            submit(ledger, "nonsense")
    return ledger, host


@pytest.fixture
def ledger(honest):
    return twin(*honest)[0]


def kept_at(ledger, size=KEPT):
    with ledger.view() as view:
        return KeptTree(size, view.log_tree().root(size))


def findings_since(ledger, kept):
    with ledger.view() as view:
        findings = verify_since(view, kept).findings
    return [(finding.table, finding.key, finding.rule) for finding in findings]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, KEPT, ROWS])
def test_an_honest_ledger_is_sound_from_every_head_on(ledger, size):
    with ledger.view() as view:
        steps = []
        kept = kept_at(ledger, size)
        part = verify_since(view, kept, progress=lambda *step: steps.append(step))
        whole = verify(view)
    assert part.findings == ()
    assert (part.rows, part.head, part.tree_root) == (whole.rows, whole.head, whole.tree_root)
    assert len(steps) == ROWS - size


@pytest.mark.parametrize("sequence", [KEPT + 1, ROWS])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        (schema.kernel_event_log, "row_bytes"),
        (schema.kernel_event_log, "row_hash"),
        (schema.kernel_event_log, "operation_id"),
    ],
)
def test_a_row_behind_the_head_that_was_changed_is_found(ledger, table, column, sequence):
    kept = kept_at(ledger)
    with ledger.store.transaction() as tables:
        row = tables.get(table, sequence)
        changed = row[column][:-1] + (b" " if column == "row_bytes" else "x")
        tables.update(table, (sequence,), {column: changed})
    assert (str(table.name), str(sequence)) in [each[:2] for each in findings_since(ledger, kept)]


def test_a_record_that_is_not_as_its_newest_effect_left_it_is_found(ledger):
    kept = kept_at(ledger)
    with ledger.store.transaction() as tables:
        for key in ("n-1", f"n-{ROWS}"):
            record = tables.get(schema.nodes, key)["record"].replace(b"Note", b"Nota")
            tables.update(schema.nodes, (key,), {"record": record})
        tables.delete(schema.nodes, f"n-{ROWS - 1}")
    found_records = findings_since(ledger, kept)
    assert ("nodes", "n-1", "state_differs") in found_records
    assert ("nodes", f"n-{ROWS}", "state_differs") in found_records
    assert ("nodes", f"n-{ROWS - 1}", "missing") in found_records


def test_rows_that_are_gone_and_a_changed_frontier_are_found(ledger):
    kept = kept_at(ledger)
    with ledger.store.transaction() as tables:
        tables.update(schema.chain_head, (LEDGER_ID,), {"frontier": b"x" * 32 * ROWS.bit_count()})
    assert ("chain_head", LEDGER_ID, "frontier_differs") in findings_since(ledger, kept)
    with ledger.store.transaction() as tables:
        tables.delete(schema.kernel_event_log, ROWS)
    assert findings_since(ledger, kept)


def test_a_log_that_does_not_begin_with_the_kept_tree_is_found(ledger):
    honest = kept_at(ledger)
    named = [("kernel_event_log", str(KEPT), "head_not_found")]
    assert findings_since(ledger, KeptTree(KEPT, b"x" * 32)) == named
    longer = [("kernel_event_log", str(ROWS + 1), "head_not_found")]
    assert findings_since(ledger, KeptTree(ROWS + 1, honest.root)) == longer
    with ledger.store.transaction() as tables:
        row = tables.get(schema.tree_tiles, 0, 0)
        hashes = b"x" + row["hashes"][1:]
        tables.update(schema.tree_tiles, (0, 0), {"hashes": hashes})
        tables.update(schema.tree_tiles, (1, 0), {"hashes": b"y" * 32})
    assert findings_since(ledger, honest) == named


def test_a_row_before_the_head_is_left_to_a_whole_verification(ledger):
    kept = kept_at(ledger)
    with ledger.store.transaction() as tables:
        content = tables.get(schema.kernel_event_log, 3)["row_bytes"]
        changed = content.replace(b"create", b"change")
        tables.update(schema.kernel_event_log, (3,), {"row_bytes": changed})
    assert findings_since(ledger, kept) == []
    with ledger.view() as view:
        assert verify_since(view, kept).not_checked
        assert verify(view).findings[0].key == "3"


@pytest.mark.parametrize("text", ["", "3", "3:ab", "-1:" + "0" * 64, "x:" + "0" * 64])
def test_what_is_no_tree_head_is_refused(text):
    with pytest.raises(ValueError, match="SIZE:ROOT"):
        KeptTree.parse(text)
