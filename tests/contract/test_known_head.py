"""A ledger that went back behind what a process knows is neither read nor written, on any store."""

import pytest

from kernel.ledger import schema
from kernel.ledger.head_watch import HeadWatch, LedgerWentBack
from kernel.ledger.ledger import LEDGER_ID, Head, Ledger, LedgerView
from kernel.ledger.shards import create_shards, shards_of, take_shards
from kernel.ledger.store.memory import MemoryStore
from kernel.records.head_acceptance import (
    HeadNotAccepted,
    accept_head,
    head_document,
    head_of,
    losses,
    lost_answers,
    newest_acceptance,
    record_finding,
    standing_findings,
)
from kernel.records.legal_holds import Grounds
from kernel.transaction.kernel import Kernel
from tests.connections import watch_postgres
from tests.kernel.build import FakeHost, create

pytestmark = pytest.mark.spec("§17")

GROUNDS = Grounds("the disk was lost", "operations")


def watched(ledger, **options):
    """The same ledger as another process has it open, with a head that it knows."""
    process = Ledger(ledger.store, ledger.host)
    process.watch(HeadWatch(**options))
    process.read(LedgerView.head)
    return process


@pytest.fixture
def ledger(store):
    return Ledger.create(store, FakeHost().host)


def submit(ledger, name):
    with ledger.optimistic_transaction() as transaction:
        return Kernel().submit(transaction, create(name, "Note"), "orchestrator")


def put_head(ledger, head):
    """Put the head of the chains elsewhere, behind everybody's back."""
    with ledger.store.transaction() as tables:
        values = {name: getattr(head, name) for name in Head.__slots__}
        tables.update(schema.chain_head, (LEDGER_ID,), values)


def head(ledger):
    return Ledger(ledger.store, ledger.host).read(LedgerView.head)


def test_a_process_goes_on_from_what_others_have_written(ledger):
    ours, theirs = watched(ledger), watched(ledger)
    for number in range(3):
        submit(ours, f"ours-{number}")
        submit(theirs, f"theirs-{number}")
        assert ours.read(LedgerView.head) == theirs.read(LedgerView.head) == head(ledger)
    assert ours.watch_of_head.known == head(ledger)


@pytest.mark.parametrize("way", ["snapshot", "transaction", "computed"])
def test_a_head_behind_the_known_one_ends_reading_and_writing(ledger, way):
    process = watched(ledger)
    submit(process, "kept")
    before = head(ledger)
    submit(process, "lost")
    put_head(ledger, before)
    ask = {
        "snapshot": lambda: process.read(LedgerView.head),
        "transaction": lambda: process.transaction().__enter__(),
        "computed": lambda: submit(process, "again"),
    }
    with pytest.raises(LedgerWentBack) as refused:
        ask[way]()
    assert (refused.value.code, refused.value.departure) == ("ledger_went_back", "behind")
    put_head(ledger, process.watch_of_head.known)
    for refuse in ask.values():
        with pytest.raises(LedgerWentBack):
            refuse()


def test_a_clock_behind_the_known_one_is_enough(ledger):
    process = watched(ledger)
    submit(process, "kept")
    with process.transaction() as transaction:
        create_shards(transaction, 2)
    behind = head(ledger)
    behind.committed_at_us -= 1
    put_head(ledger, behind)
    with pytest.raises(LedgerWentBack):
        process.read(LedgerView.head)


@pytest.mark.parametrize("name", ["row_hash", "receipt_hash"])
def test_another_hash_at_the_known_place_is_another_history(ledger, name):
    process = watched(ledger)
    submit(process, "first")
    known = process.watch_of_head.known.copy()
    setattr(known, name, "f" * 64)
    if name == "receipt_hash":
        known.receipt_sequence = known.receipt_sequence or 1
    process.watch_of_head._known = known  # noqa: SLF001 - what it knows is of another history
    submit(ledger, "second")
    submit(ledger, "third")
    later = head(ledger)
    later.receipt_sequence = max(later.receipt_sequence, known.receipt_sequence)
    put_head(ledger, later)
    with pytest.raises(LedgerWentBack) as refused:
        process.read(LedgerView.head)
    kinds = {"row_hash": "other_rows", "receipt_hash": "other_receipts"}
    assert refused.value.departure == kinds[name]


def lost_from(ledger):
    """What a process knows that has written two operations more than this ledger has."""
    elsewhere = watched(Ledger.create(MemoryStore(), FakeHost().host))
    submit(elsewhere, "kept")
    submit(ledger, "kept")
    results = [submit(elsewhere, name) for name in ("lost-1", "lost-2")]
    memory = elsewhere.watch_of_head.memory()
    # Salts are random, so the first operation is another one there.
    first, *others = memory.remembered
    first = first._replace(head=head(ledger))
    return memory._replace(remembered=(first, *others)), results


def test_a_finding_is_written_once_halts_others_and_is_accepted_with_a_reason(ledger):
    memory, results = lost_from(ledger)
    for _ in range(2):
        with ledger.transaction() as transaction:
            record_finding(transaction, "a", memory)
    [finding] = ledger.read(lambda view: [*standing_findings(view)])
    assert (finding["is_all"], head_of(finding["known"])) == (True, memory.known)
    lost = {each.name for each in lost_answers([finding]) if each.kind == "operation"}
    assert lost == {result.operation_id for result in results}
    with pytest.raises(LedgerWentBack) as refused:
        watched(ledger)
    assert refused.value.departure == "finding_stands"
    waiting = watched(ledger, stands_halted=True)
    with pytest.raises(HeadNotAccepted), ledger.transaction() as transaction:
        accept_head(transaction, Grounds(" ", "operations"), lambda _: "op")
    with ledger.transaction() as transaction:
        create_shards(transaction, 2)
        take_shards(transaction, "a", shards_of(transaction))
        assert accept_head(transaction, GROUNDS, lambda _: "op")
        assert not accept_head(transaction, GROUNDS, lambda _: "op")
    assert not waiting.read(LedgerView.finding_stands)
    acceptance, accepted = ledger.read(newest_acceptance)
    assert (acceptance["reason"], accepted) == ("the disk was lost", [finding])
    assert {shard.owner for shard in ledger.read(shards_of)} == {""}
    watched(ledger)


def test_who_has_nothing_to_add_to_a_finding_writes_none(ledger):
    memory, _ = lost_from(ledger)
    nothing = memory._replace(since=memory.known, remembered=())
    with ledger.transaction() as transaction:
        assert record_finding(transaction, "a", memory)
        assert not record_finding(transaction, "b", nothing)
    with ledger.transaction() as transaction:
        goes_on = memory._replace(known=transaction.head_now.copy())
        assert not record_finding(transaction, "c", goes_on)


def test_whoever_does_not_remember_far_enough_says_so(ledger):
    memory, results = lost_from(ledger)
    late = memory._replace(since=memory.remembered[1].head, remembered=memory.remembered[2:])
    known = ledger.read(lambda view: losses(view, late))
    assert (known.is_all, known.common) == (False, None)
    named = [each.name for each in known.answered if each.kind == "operation"]
    assert named == [results[-1].operation_id]


def test_a_head_is_stated_and_read_again(ledger):
    submit(ledger, "one")
    assert head_of(head_document(head(ledger))) == head(ledger)


@pytest.mark.parametrize("adapter", ["postgres"], indirect=True)
def test_the_look_at_the_head_costs_no_round_trip(ledger, monkeypatch):
    process = watched(ledger)
    submit(process, "one")
    connections = watch_postgres(monkeypatch)
    ledger.store.close()
    counts = []
    for known in (None, lambda: process.watch_of_head.known):
        ledger.store.look_ahead(known)
        for _ in range(2):
            connections.messages = 0
            connections.statements.clear()
            Ledger(ledger.store, ledger.host).read(lambda view: view.log_row_at(1))
            counts.append(connections.messages)
    # The first opens the connection.
    assert counts[1:] == [2, 2, 2]
    assert [sql for sql, _ in connections.statements if "SELECT row_hash FROM" in sql]
