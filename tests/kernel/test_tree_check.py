"""What verification finds of a frontier and of tiles that are not those of the rows."""

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import LEDGER_ID, build_tree
from kernel.proof.tiles import TILE_WIDTH
from kernel.verify import verify
from tests.kernel.build import FakeHost, create, memory_ledger, submit, twin

pytestmark = pytest.mark.spec("P5")


@pytest.fixture(scope="module")
def honest():
    host = FakeHost()
    ledger = memory_ledger(host)
    for number in range(TILE_WIDTH + 3):
        submit(ledger, create(f"n-{number}", "Note"))
    return ledger, host


@pytest.fixture
def ledger(honest):
    return twin(*honest)[0]


def findings_of(ledger, **options):
    with ledger.view() as view:
        findings = verify(view, fold=False, **options).findings
    return [(finding.table, finding.key, finding.rule) for finding in findings]


def tile(ledger, level, index):
    with ledger.view() as view:
        return view.tables.get(schema.tree_tiles, level, index)


def test_an_honest_tree_is_not_complained_of(ledger):
    with ledger.view() as view:
        verification = verify(view, fold=False)
        assert verification.findings == ()
        assert verification.tree_root == view.log_tree().root().hex()


@pytest.mark.parametrize(
    ("level", "change", "rule"),
    [
        (0, lambda hashes: hashes[:-1] + b"x", "tile_differs"),
        (0, lambda hashes: hashes[:-32], "tile_differs"),
        (1, lambda hashes: hashes + hashes, "tile_differs"),
        (1, lambda _: b"", "tile_differs"),
    ],
)
def test_a_changed_tile_is_named(ledger, level, change, rule):
    row = tile(ledger, level, 0)
    with ledger.store.transaction() as tables:
        tables.put(schema.tree_tiles, row | {"hashes": change(row["hashes"])})
    assert findings_of(ledger) == [("tree_tiles", f"{level}/0", rule)]


def test_a_missing_tile_and_a_strange_one_are_named(ledger):
    row = tile(ledger, 1, 0)
    with ledger.store.transaction() as tables:
        tables.delete(schema.tree_tiles, 0, 0)
        for level, index in ((0, 1), (1, 1), (2, 0), (-1, 0)):
            tables.put(schema.tree_tiles, row | {"tile_level": level, "tile_index": index})
    named = findings_of(ledger)
    assert named[0] == ("tree_tiles", "0/0", "missing")
    assert {key for _, key, rule in named if rule == "extra"} == {"0/1", "1/1", "2/0", "-1/0"}


@pytest.mark.parametrize("frontier", [None, b"", b"x" * 64])
def test_a_changed_frontier_is_named(ledger, frontier):
    with ledger.store.transaction() as tables:
        tables.update(schema.chain_head, (LEDGER_ID,), {"frontier": frontier})
    assert findings_of(ledger) == [("chain_head", LEDGER_ID, "frontier_differs")]
    with ledger.store.transaction() as tables:
        build_tree(tables)
    assert findings_of(ledger) == []


def test_a_search_that_may_name_little_ends(ledger):
    with ledger.store.transaction() as tables:
        tables.delete_before(schema.tree_tiles, "tile_level", 9)
        tables.update(schema.chain_head, (LEDGER_ID,), {"frontier": b""})
    assert findings_of(ledger, limit_findings=1) == [("tree_tiles", "0/0", "missing")]
    assert len(findings_of(ledger, limit_findings=9)) == 3
