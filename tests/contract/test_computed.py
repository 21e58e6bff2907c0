"""A transaction that is computed on a snapshot is written as if nobody else had been there."""

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, nullcontext, suppress

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import (
    Position,
    create_ledger_id,
    create_shards,
    record_consumed,
    rows_while_held,
    shards_of,
    take_shards,
)
from kernel.ledger.store.tables import HeadMoved
from kernel.transaction.kernel import Kernel
from kernel.values.errors import CommitOutcomeUnknown, LedgerUnavailable
from kernel.verify import verify
from tests.connections import watch_postgres
from tests.kernel.build import FakeHost, create, everything

SHARDS = 3


def founded(store):
    ledger = Ledger.create(store, FakeHost().host)
    with ledger.transaction() as transaction:
        create_shards(transaction, SHARDS)
    return ledger


def submit_in(transaction, name):
    return Kernel().submit(transaction, create(name, "Note"), "orchestrator")


def submit_computed(ledger, name, meanwhile=lambda: None, **options):
    """Submit an operation; `meanwhile` happens after it was computed and before it is written."""
    with ledger.optimistic_transaction(**options) as transaction:
        result = submit_in(transaction, name)
        meanwhile()
        return result


def operations(ledger):
    with ledger.view() as view:
        return [row["operation_id"] for row in view.log_rows()]


def take_all(transaction):
    return take_shards(transaction, "other", shards_of(transaction))


@pytest.fixture
def ledger(store):
    return founded(store)


@pytest.fixture
def on_postgres(monkeypatch, postgres_url):
    """A ledger on PostgreSQL, another process' of the same, and what runs on their connections."""
    postgres = pytest.importorskip("kernel.ledger.postgres.store")
    connections = watch_postgres(monkeypatch)
    stores = [postgres.PostgresStore(postgres_url) for _ in range(2)]
    ledger = founded(stores[0])
    yield ledger, Ledger(stores[1], ledger.host), connections
    for store in stores:
        store.close()


def test_what_is_computed_is_written_as_a_transaction_writes_it(place, ledger):
    with ledger.transaction() as transaction:
        submit_in(transaction, "a")
    result = submit_computed(ledger, "b")
    again = Ledger.create(place.open(), ledger.host)
    assert result.ec_sequence_number == 2
    with again.view() as view:
        assert verify(view).findings == ()
        assert view.head().row_hash == result.row_hash


def test_a_failure_while_computing_writes_nothing(ledger):
    before = everything(ledger)
    with pytest.raises(ZeroDivisionError):
        submit_computed(ledger, "a", lambda: 1 / 0)
    assert everything(ledger) == before
    assert submit_computed(ledger, "b").ec_sequence_number == 1


WRITES = {
    "an operation": lambda transaction: submit_in(transaction, "other"),
    "shards": take_all,
    "an id": create_ledger_id,
    "a place": lambda transaction: record_consumed(transaction, "s", Position("m", "1")),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_moves_the_head(ledger, write):
    with ledger.view() as view:
        before = view.head()
    with ledger.transaction() as transaction:
        WRITES[write](transaction)
    with ledger.view() as view:
        assert view.head() != before


def test_who_writes_nothing_leaves_the_ledger_as_it_was(ledger):
    before = everything(ledger)
    with ledger.transaction():
        pass
    with ledger.optimistic_transaction():
        pass
    assert everything(ledger) == before


@pytest.mark.parametrize("write", WRITES)
def test_what_others_wrote_meanwhile_makes_it_worthless(on_postgres, write):
    ledger, other, _ = on_postgres
    between = []

    def write_as_another():
        # It does not wait: the head is free while somebody computes.
        with other.transaction() as transaction:
            WRITES[write](transaction)
        between.append(everything(other))

    with pytest.raises(HeadMoved):
        submit_computed(ledger, "a", write_as_another)
    assert [everything(ledger)] == between
    submit_computed(ledger, "a")
    with ledger.view() as view:
        assert verify(view).findings == ()


def test_a_shard_that_changed_hands_beside_the_head_is_found_under_the_lock(on_postgres):
    ledger, other, _ = on_postgres
    with ledger.transaction() as transaction:
        fences = take_all(transaction)

    def take_past_the_head():
        with other.store.transaction() as tables:
            tables.update(schema.shard_epochs, (1,), {"epoch": 9})

    with pytest.raises(HeadMoved):
        submit_computed(ledger, "a", take_past_the_head, still=lambda: rows_while_held(fences))
    assert operations(ledger) == []


def test_nothing_is_sent_between_the_lock_of_the_head_and_the_rows(on_postgres):
    ledger, _, connections = on_postgres
    submit_computed(ledger, "a")
    connections.statements.clear()
    submit_computed(ledger, "b")
    sent = [statement for statement, *_ in connections.statements]
    [locked] = [at for at, sql in enumerate(sent) if "FOR UPDATE" in sql]
    reads = [sql for sql in sent[locked + 1 : sent.index("COMMIT")] if sql.startswith("SELECT")]
    assert reads == [], "the lock returns the head"


@pytest.mark.parametrize("writes", [False, True])
def test_who_waits_for_the_head_begins_anew_and_compares_it_then(on_postgres, monkeypatch, writes):
    ledger, other, _ = on_postgres
    monkeypatch.setattr("kernel.ledger.postgres.store.LOOK_EACH_MS", 20)
    refusal = pytest.raises(HeadMoved) if writes else nullcontext()
    with ThreadPoolExecutor() as threads, refusal:
        with other.transaction() as transaction:
            waiting = threads.submit(submit_computed, ledger, "a")
            assert not wait([waiting], timeout=0.2).done, "the head is held"
            if writes:
                submit_in(transaction, "b")
        waiting.result(20)
    assert len(operations(ledger)) == 1


def test_who_waits_too_long_for_a_turn_computes_all_the_same(on_postgres, monkeypatch):
    ledger, other, _ = on_postgres
    monkeypatch.setattr("kernel.ledger.postgres.store.TURN_WAIT_MS", 20)
    with pytest.raises(HeadMoved):
        submit_computed(ledger, "a", lambda: submit_computed(other, "b"))
    assert len(operations(ledger)) == 1


@pytest.mark.parametrize("looks_ahead", [False, True])
def test_who_waits_for_a_turn_computes_on_what_was_written_in_the_one_before(
    on_postgres, monkeypatch, looks_ahead
):
    ledger, other, _ = on_postgres
    if looks_ahead:
        # The message that opens a snapshot asks a question too, with which the snapshot is taken.
        other.store.look_ahead(lambda: None)
    monkeypatch.setattr("kernel.ledger.postgres.store.TURN_WAIT_MS", 20_000)
    with ThreadPoolExecutor() as threads:
        later = []

        def begin_another():
            later.append(threads.submit(submit_computed, other, "b"))
            assert not wait(later, timeout=0.2).done, "it waits for its turn"

        assert submit_computed(ledger, "a", begin_another).ec_sequence_number == 1
        # It was computed once: had it begun before, the head would have moved.
        assert later[0].result(20).ec_sequence_number == 2


@pytest.mark.spec("K25")
@pytest.mark.parametrize("after_the_fact", [False, True])
def test_a_failed_commit_has_an_unknown_outcome_and_the_next_turn_works(
    on_postgres, after_the_fact
):
    import psycopg  # noqa: PLC0415 - there is a server

    ledger, _, connections = on_postgres
    failed = psycopg.OperationalError("server closed the connection unexpectedly")
    writers = []

    def look(sql):
        if "LOCK TABLE ledger_ids" in sql:
            writers.append(connections.last)

    connections.before = look
    with pytest.raises(CommitOutcomeUnknown):
        submit_computed(
            ledger,
            "a",
            lambda: writers[-1].fail_on("COMMIT", failed, after_the_fact=after_the_fact),
        )
    known = 1 if after_the_fact else 0
    assert len(operations(ledger)) == known
    assert submit_computed(ledger, "b").ec_sequence_number == known + 1


def test_a_connection_that_is_lost_while_computing_undoes_it(on_postgres, postgres_url):
    import psycopg  # noqa: PLC0415 - there is a server

    ledger, _, _ = on_postgres

    def end_everybody():
        with psycopg.connect(postgres_url, autocommit=True) as operator:
            operator.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    with pytest.raises(LedgerUnavailable):
        submit_computed(ledger, "a", end_everybody)
    assert operations(ledger) == []
    with suppress(LedgerUnavailable):
        submit_computed(ledger, "b")
    assert submit_computed(ledger, "c").ec_sequence_number == len(operations(ledger))


def test_readers_that_use_every_connection_hold_up_nobody_who_writes(on_postgres):
    ledger, other, _ = on_postgres
    with ExitStack() as opened:
        for _ in range(7):
            opened.enter_context(ledger.view())
        assert submit_computed(ledger, "a").ec_sequence_number == 1
    assert submit_computed(other, "b").ec_sequence_number == 2
