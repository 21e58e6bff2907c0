"""A log that several walk side by side: the same findings, in the same order, as of one walk."""

import os
from contextlib import closing

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.verify.stretches import join_states, stretches_of, walk
from tests.kernel.build import FakeHost
from tests.kernel.tampering import Copy, verify_file
from tests.tamper_doc import HOWS, ROW_HOWS, Impossible, honest_file, of_column, of_row

WALKED = (
    schema.kernel_event_log,
    schema.applied_effects,
    schema.causal_parents,
    schema.blobs,
    schema.receipts,
    schema.idempotency_records,
    schema.chain_head,
)
PARTS = 16
ALL_OF_IT = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


class InTurn:
    """Helpers that walk one stretch after the other, each on a snapshot of its own."""

    rows_min = 1

    def __init__(self, path, count):
        self.count = count
        self.walked = None
        self._path = path

    def begin(self, stretches):
        self._stretches = stretches

    def finish(self):
        self.walked = [self._walk(stretch) for stretch in self._stretches]
        return self.walked

    def _walk(self, stretch):
        with (
            closing(SqliteStore(self._path, read_only=True)) as store,
            Ledger(store, FakeHost().host).view() as view,
        ):
            return walk(view, stretch, lambda: None)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return honest_file(tmp_path_factory.mktemp("honest") / "honest.db")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_an_honest_log_is_walked_elsewhere_and_comes_to_the_same(honest, count):
    helpers = InTurn(honest, count)
    assert verify_file(honest, helpers=helpers) == verify_file(honest)
    assert len(helpers.walked) == count
    assert None not in helpers.walked


def test_a_log_is_parted_without_a_gap_and_a_short_one_not_at_all():
    stretches = stretches_of(10, 5, 3, 2)
    assert [(stretch.after, stretch.last) for stretch in stretches] == [(0, 3), (3, 6), (6, 10)]
    assert [len(stretches_of(rows, 5, 3, 4)) for rows in (3, 4, 7, 8, 12, 400)] == [
        0,
        1,
        1,
        2,
        3,
        3,
    ]
    assert stretches_of(10, 5, 0, 1) == []


def test_stretches_that_do_not_begin_where_the_one_before_ended_are_no_walk(honest):
    helpers = InTurn(honest, 3)
    verify_file(honest, helpers=helpers)
    first, second, third = helpers.walked
    assert join_states([first, second, third]).ends.rows == verify_file(honest).rows
    assert join_states([first, third]) is None
    assert join_states([first, None, third]) is None


# Only a log of 256 rows has tiles, and only one with an archive has rows there.
LONG_LOGS_ONLY = (
    schema.tree_tiles,
    schema.archive_segments,
    schema.archived_rows,
    schema.thought_segments,
)


def changes():
    for table in schema.metadata.sorted_tables:
        if table in LONG_LOGS_ONLY or table.name.startswith("landscape_"):
            continue
        whole = ALL_OF_IT or table in WALKED
        for how in ROW_HOWS if whole else ROW_HOWS[:1]:
            yield f"{table.name} {how}", of_row(table, how)
        for column in table.columns if whole else ():
            for how in HOWS:
                yield f"{table.name}.{column.name} {how}", of_column(table, column, how)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS if ALL_OF_IT else 1))
def test_three_find_what_one_finds_word_for_word(tmp_path, honest, part):
    """A part of the changes; with HYPOTHESIS_PROFILE=nightly, all of them."""
    differing, n_found = [], 0
    for name, change in list(changes())[part::PARTS]:
        path = tmp_path / "tampered.db"
        path.write_bytes(honest.read_bytes())
        copy = Copy(path)
        try:
            list(change(copy))
        except (Impossible, copy.db.IntegrityError):
            copy.db.close()
            continue
        copy.close()
        alone = verify_file(path, limit_findings=6)
        if alone != verify_file(path, limit_findings=6, helpers=InTurn(path, 3)):
            differing.append(name)
        n_found += not alone.ok
    assert differing == []
    assert n_found
