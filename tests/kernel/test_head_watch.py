"""The head that a process knows: whether the record went back, and what is lost by it (§17)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ledger.head_watch import Answered, HeadLook, HeadWatch, LedgerWentBack, departure
from kernel.ledger.ledger import Head
from kernel.values.canonical import GENESIS_HASH


def history(steps):
    """Return the heads of a history: each step writes a row, a receipt, or both."""
    heads = [Head()]
    for number, (name, kinds, later) in enumerate(steps, start=1):
        last = heads[-1]
        head = last.copy()
        head.committed_at_us = last.committed_at_us + later
        if "row" in kinds:
            head.ec_sequence_number += 1
            head.row_hash = f"{last.row_hash[:8]}/{name}{number}"
        if "receipt" in kinds:
            head.receipt_sequence += 1
            head.receipt_hash = f"{last.receipt_hash[:8]}/{name}{number}"
        heads.append(head)
    return heads


def look_at(heads, known):
    """Return what a record with these heads answers about a known head."""
    now = heads[-1]
    rows = {head.ec_sequence_number: head.row_hash for head in heads}
    receipts = {head.receipt_sequence: head.receipt_hash for head in heads}
    return HeadLook(
        now, rows.get(known.ec_sequence_number), receipts.get(known.receipt_sequence), False
    )


kinds = st.sampled_from([("row",), ("receipt",), ("row", "receipt")])
steps = st.lists(st.tuples(st.just("a"), kinds, st.integers(1, 3)), max_size=8)
others = st.lists(st.tuples(st.just("b"), kinds, st.integers(1, 3)), max_size=8)


@pytest.mark.spec("§17")
@given(steps, others, st.integers(0, 8), st.integers(0, 8))
def test_a_record_departs_unless_it_goes_on_from_the_known_head(ours, theirs, shared, known_at):
    whole = history(ours)
    shared = min(shared, len(ours))
    known = whole[min(known_at, len(ours))]
    record = [*history(ours[:shared]), *history([*ours[:shared], *theirs])[shared + 1 :]]
    goes_on = known in record
    assert (departure(known, look_at(record, known)) is None) == goes_on


@pytest.mark.spec("§17")
def test_each_way_to_depart_has_its_name():
    before, known = history([("a", ("row", "receipt"), 5)])
    again = known.copy()
    again.row_hash = "other"
    assert departure(known, HeadLook(before, None, None, False)) == "behind"
    later = known.copy()
    later.committed_at_us += 1
    look = HeadLook(later, "other", known.receipt_hash, False)
    assert departure(known, look) == "other_rows"
    assert departure(known, look._replace(row_hash=known.row_hash, receipt_hash="x")) == (
        "other_receipts"
    )
    sound = look._replace(row_hash=known.row_hash)
    assert departure(known, sound) is None
    assert departure(Head(), HeadLook(known, GENESIS_HASH, GENESIS_HASH, False)) is None


def test_after_a_finding_nothing_is_read_or_written():
    watch = HeadWatch()
    heads = history([("a", ("row",), 5)] * 3)
    watch.look(None, HeadLook(heads[2], None, None, False))
    with pytest.raises(LedgerWentBack):
        watch.look(watch.known, HeadLook(heads[1], None, None, False))
    with pytest.raises(LedgerWentBack):
        watch.expect_sound()
    assert watch.known == heads[2]


def test_a_finding_that_stands_halts_whoever_does_not_wait_for_its_end():
    look = HeadLook(history([("a", ("row",), 5)])[1], None, None, True)
    with pytest.raises(LedgerWentBack):
        HeadWatch().look(None, look)
    HeadWatch(stands_halted=True).look(None, look)


def test_the_newest_names_are_remembered_and_from_where_on():
    watch = HeadWatch(remembered_max=4)
    heads = history([("a", ("row",), 5)] * 5)
    watch.look(None, HeadLook(heads[0], None, None, False))
    for number, head in enumerate(heads[1:]):
        names = tuple(Answered("operation", f"op-{number}-{at}", number) for at in range(2))
        watch.note_commit(head, names)
    memory = watch.memory()
    assert [part.head for part in memory.remembered] == heads[4:]
    assert (memory.known, memory.since) == (heads[5], heads[3])
