"""Blocks of samples for charts lie in slots that come round again, on every store."""

from kernel.ledger import schema
from kernel.ledger.chart_blocks import SECONDS, ChartBlock, blocks_between, put_blocks
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from tests.kernel.build import FakeHost

START_S = 1_800_000_000
BLOCK_S = SECONDS.block_s


def block(number: int, part: int = 0) -> ChartBlock:
    return ChartBlock(1, part, START_S + number * BLOCK_S, b"%d of %d" % (number, part))


def test_there_are_never_more_rows_than_slots_of_each_gateway(place):
    ledger = Ledger.create(place.open(), FakeHost())
    count = 2 * SECONDS.slots + 7
    with ledger.transaction() as transaction:
        put_blocks(transaction, [block(number, part) for number in range(count) for part in (0, 3)])
    with ledger.view() as view:
        assert view.tables.count(TableQuery(schema.chart_blocks)) == 2 * SECONDS.slots
        kept = blocks_between(view, SECONDS, 0, START_S + count * BLOCK_S)
    newest = range(count - SECONDS.slots, count)
    assert kept == [block(number, part) for part in (0, 3) for number in newest]


def test_a_block_is_written_over_itself_and_an_older_one_is_not_taken_for_it(place):
    ledger = Ledger.create(place.open(), FakeHost())
    with ledger.transaction() as transaction:
        put_blocks(transaction, [block(0), block(1)])
        put_blocks(transaction, [block(1)._replace(samples=b"later")])
    end_s = START_S + 2 * BLOCK_S
    with ledger.view() as view:
        assert [each.samples for each in blocks_between(view, SECONDS, START_S, end_s)] == [
            b"0 of 0",
            b"later",
        ]
        assert blocks_between(view, SECONDS, START_S + 1, START_S + 2) == [block(0)]
        later_s = START_S + SECONDS.slots * BLOCK_S
        assert blocks_between(view, SECONDS, later_s, later_s + 1) == []


def test_blocks_change_nothing_of_the_record(place):
    ledger = Ledger.create(place.open(), FakeHost())
    before = ledger.read(lambda view: view.head())
    with ledger.transaction() as transaction:
        put_blocks(transaction, [block(0)])
    after = ledger.read(lambda view: view.head())
    after.committed_at_us = before.committed_at_us
    assert after == before
