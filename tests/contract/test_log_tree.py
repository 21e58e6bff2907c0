"""The tree over the log on every store: it moves with the rows and can be built again from them."""

import orjson
import pymerkle
import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import LEDGER_ID, Ledger, build_tree
from kernel.ledger.store.tables import TableQuery
from kernel.proof.merkle_tree import EMPTY_ROOT, HASH_BYTES, leaf_hash
from kernel.proof.tiles import TILE_WIDTH
from kernel.proof.verification import verify_consistency, verify_inclusion
from kernel.values.errors import LedgerCorrupt
from kernel.verify import verify
from tests.contract.test_computed import submit_computed
from tests.kernel.build import FakeHost, abandoned, create, ledger_on, submit

pytestmark = pytest.mark.spec("P5")


def add_rows(ledger, count, *, at_once=64, name="row"):
    """Append rows to the log that no operation wrote, in transactions of some."""
    for begin in range(0, count, at_once):
        with ledger.transaction() as transaction:
            for _ in range(min(at_once, count - begin)):
                add_row(transaction, name)


def add_row(transaction, name="row"):
    head = transaction.head_now
    sequence = head.ec_sequence_number + 1
    row = {
        "ec_sequence_number": sequence,
        "operation_id": f"op-{sequence}",
        "supersedes_sequence": 0,
        "prior_row_hash": head.row_hash,
        "row_hash": f"{sequence:064}",
        "rules_version": 1,
        "row_bytes": orjson.dumps({name: sequence, "receipt_chain_head": head.receipt_hash}),
        "envelope_payload_blob_ref": "b",
        "semantic_intent": "create",
        "session_id": None,
        "commit_epoch_id": None,
        "committed_at": "t",
    }
    transaction.tables.append(schema.kernel_event_log, row)
    head.ec_sequence_number, head.row_hash = sequence, row["row_hash"]


def rows_of(ledger):
    with ledger.view() as view:
        return [row["row_bytes"] for row in view.log_rows(limit=100_000)]


def oracle(rows):
    tree = pymerkle.InmemoryTree(algorithm="sha256")
    for row in rows:
        tree.append_entry(row)
    return tree


def stored_tree(ledger):
    """The frontier and the tiles as they are stored."""
    with ledger.view() as view:
        frontier = view.tables.get(schema.chain_head, LEDGER_ID)["frontier"]
        tiles = view.tables.scan(TableQuery(schema.tree_tiles))
    key = ("tile_level", "tile_index")
    return frontier, sorted((*(row[name] for name in key), row["hashes"]) for row in tiles)


@pytest.fixture
def ledger(store):
    return Ledger.create(store, FakeHost().host)


def test_a_new_ledger_has_the_empty_tree(ledger):
    with ledger.view() as view:
        tree = view.log_tree()
        assert (tree.size, tree.root()) == (0, EMPTY_ROOT)
    assert stored_tree(ledger) == (b"", [])


def test_the_frontier_moves_in_the_transaction_of_the_row(ledger):
    submit(ledger, create("n", "Note"))
    rows = rows_of(ledger)
    with ledger.view() as view:
        tree = view.log_tree()
        assert tree.size == view.head().ec_sequence_number == len(rows)
        assert tree.root() == oracle(rows).get_root()
    before = stored_tree(ledger)
    with abandoned(ledger.transaction()) as transaction:
        add_row(transaction)
    assert stored_tree(ledger) == before


def test_what_a_savepoint_undoes_is_no_leaf(ledger):
    with ledger.transaction() as transaction:
        add_row(transaction)
        with abandoned(transaction.savepoint()):
            add_row(transaction)
        add_row(transaction)
    rows = rows_of(ledger)
    assert len(rows) == 2
    with ledger.view() as view:
        assert view.log_tree().root() == oracle(rows).get_root()


@pytest.mark.parametrize("at_once", [7, 300])
def test_full_tiles_are_stored_with_the_row_that_fills_them(ledger, at_once):
    add_rows(ledger, 2 * TILE_WIDTH - 1, at_once=at_once)
    frontier, tiles = stored_tree(ledger)
    leaves = [leaf_hash(row) for row in rows_of(ledger)]
    assert [tile[:2] for tile in tiles] == [(0, 0), (1, 0)]
    assert tiles[0][2] == b"".join(leaves[:TILE_WIDTH])
    assert len(tiles[1][2]) == HASH_BYTES
    assert len(frontier) == HASH_BYTES * (2 * TILE_WIDTH - 1).bit_count()
    add_rows(ledger, 1)
    frontier, tiles = stored_tree(ledger)
    assert [tile[:2] for tile in tiles] == [(0, 0), (0, 1), (1, 0)]
    assert len(tiles[2][2]) == 2 * HASH_BYTES
    assert frontier == oracle(rows_of(ledger)).get_root()


def test_paths_and_roots_of_every_size_are_those_of_an_oracle(ledger):
    size = TILE_WIDTH + 37
    add_rows(ledger, size, at_once=50)
    rows = rows_of(ledger)
    tree_of_others = oracle(rows)
    with ledger.view() as view:
        tree = view.log_tree()
        assert tree.root() == tree_of_others.get_root() == tree.root(size)
        for old in (1, 2, 36, 255, 256, 257, size):
            old_root = tree.root(old)
            assert old_root == tree_of_others.get_root(old)
            path = tree.consistency_path(old, size)
            verify_consistency(old, old_root, size, tree.root(), path)
            for index in {0, old // 2, old - 1}:
                path = tree.inclusion_path(index, old)
                verify_inclusion(leaf_hash(rows[index]), index, old, path, old_root)


def test_the_tree_is_built_again_from_the_rows(ledger):
    add_rows(ledger, TILE_WIDTH + 5, at_once=100)
    before = stored_tree(ledger)
    with ledger.store.transaction() as tables:
        tables.put(schema.tree_tiles, {"tile_level": 0, "tile_index": 0, "hashes": b"x"})
        tables.put(schema.tree_tiles, {"tile_level": 9, "tile_index": 9, "hashes": b"x"})
        tables.update(schema.chain_head, (LEDGER_ID,), {"frontier": b"y"})
    with ledger.store.transaction() as tables:
        assert build_tree(tables).size == TILE_WIDTH + 5
    assert stored_tree(ledger) == before


def test_an_older_ledger_gets_its_tree_when_it_is_opened_to_write(place):
    ledger, _ = ledger_on(place.open())
    add_rows(ledger, TILE_WIDTH + 5, at_once=100)
    before = stored_tree(ledger)
    with ledger.store.transaction() as tables:
        tables.delete_before(schema.tree_tiles, "tile_level", 9)
        tables.update(schema.chain_head, (LEDGER_ID,), {"frontier": None})
    ledger.close()
    assert stored_tree(Ledger.create(place.open(), FakeHost().host)) == before


def test_nothing_is_appended_to_a_tree_that_is_not_that_of_the_rows(ledger):
    submit(ledger, create("n", "Note"))
    before = rows_of(ledger)
    with ledger.store.transaction() as tables:
        tables.update(schema.chain_head, (LEDGER_ID,), {"frontier": b""})
    with pytest.raises(LedgerCorrupt):
        submit(ledger, create("m", "Note"))
    with pytest.raises(LedgerCorrupt), ledger.view() as view:
        view.log_tree()
    assert rows_of(ledger) == before


def test_a_transaction_that_was_computed_beforehand_moves_the_frontier(ledger):
    submit_computed(ledger, "a")
    submit_computed(ledger, "b")
    rows = rows_of(ledger)
    with ledger.view() as view:
        assert view.log_tree().root() == oracle(rows).get_root()
        verification = verify(view)
    assert verification.findings == ()
    assert verification.tree_root == oracle(rows).get_root().hex()
