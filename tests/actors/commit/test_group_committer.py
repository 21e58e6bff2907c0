"""Many submitters, few transactions, and nobody answered before COMMIT."""

import gc
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import anyio
import pytest

from actors.commit import group_committer as committer_module
from actors.commit import units as units_module
from actors.commit.units import EnvelopeUnit, IntentUnit
from actors.error_codes import is_retryable
from actors.errors import (
    ActorFailed,
    CommitFailed,
    IntentInvalid,
    MailboxFull,
    RequestUnprocessable,
)
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.buffer import BufferedTables
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import SubmissionResult
from kernel.transaction import kernel as kernel_module
from kernel.transaction.checks import schema as envelope_schema
from kernel.values.errors import LedgerCorrupt, LedgerFailed, LedgerUnavailable
from kernel.verify import verify
from tests.actors.harness import (
    Gate,
    dump,
    log_length,
    make_committer,
    running_committer,
    scripted_ledger,
)
from tests.actors.intents import adapt, source
from tests.connections import watch_sqlite
from tests.kernel.build import FakeHost, op_id
from tests.kernel.build import create as envelope

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("each_kind_of_store")]


def create(node_id, **changes):
    return IntentUnit(source(node_id, **changes), "s-1")


@dataclass
class Note:
    """A unit that writes nothing and remembers that it ran."""

    answer: object = None
    ran_on: list[int] = field(default_factory=list)

    def run(self, context):  # noqa: ARG002 - every unit is given it
        self.ran_on.append(threading.get_ident())
        return self.answer


@dataclass
class Breaking:
    """A unit that writes a node and then fails."""

    node_id: str
    error: Exception = field(default_factory=lambda: RuntimeError("half way"))

    def run(self, context):
        create(self.node_id).run(context)
        raise self.error


async def submit_all(committer, lists, answers):
    """Let every list of units be a caller of its own; answers arrive as (number, results)."""

    async def submit(number, units):
        try:
            answers[number] = await committer.commit(units)
        except Exception as error:  # noqa: BLE001 - the error is the answer
            answers[number] = error

    async with anyio.create_task_group() as tasks:
        for number, units in enumerate(lists):
            tasks.start_soon(submit, number, units)


async def run_to_its_end(committer, lists, answers):
    """Let callers that nothing cancels submit to a committer that is about to fail."""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as callers, anyio.create_task_group() as process:
            process.start_soon(committer.run)
            callers.start_soon(submit_all, committer, lists, answers)


# --- one batch ------------------------------------------------------------------------------------


async def test_results_come_in_the_order_of_the_units():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        results = await committer.commit([Note(1), create("a"), Note(2), create("b"), Note(3)])

    assert results[::2] == [1, 2, 3]
    assert [result.ec_sequence_number for result in results[1::2]] == [1, 2]


async def test_what_a_batch_held_is_freed_before_garbage_is_collected():
    alive = []

    def buffers():
        return {id(each) for each in gc.get_objects() if isinstance(each, BufferedTables)}

    gc.collect()
    others = buffers()

    def count_buffers(phase, _):
        if phase == "start":
            alive.append(len(buffers() - others))

    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        threshold = gc.get_threshold()
        gc.callbacks.append(count_buffers)
        gc.set_threshold(100)
        try:
            await committer.commit([create(f"n-{number}") for number in range(50)])
        finally:
            gc.set_threshold(*threshold)
            gc.callbacks.remove(count_buffers)
    assert alive
    assert not any(alive)


async def test_units_run_off_the_event_loop():
    ledger, _ = scripted_ledger()
    note = Note()
    async with running_committer(ledger) as committer:
        await committer.commit([note])

    assert note.ran_on != [threading.get_ident()]
    assert len(note.ran_on) == 1


async def test_envelopes_are_read_before_the_transaction_begins(monkeypatch):
    """A mebibyte that is read inside would keep every other writer waiting."""
    ledger, _ = scripted_ledger()
    open_transactions, seen = [], []
    begin = ledger.transaction

    @contextmanager
    def transaction():
        with begin() as begun:
            open_transactions.append(begun)
            try:
                yield begun
            finally:
                open_transactions.pop()

    def parse(document):
        seen.append((document["operation_id"], len(open_transactions)))
        return envelope_schema.parse(document)

    monkeypatch.setattr(ledger, "transaction", transaction)
    monkeypatch.setattr(units_module, "parse", parse)
    monkeypatch.setattr(kernel_module, "parse", parse)
    envelopes = [
        envelope(f"n-{number}", "SourceArtifact", envelope={"operation_id": op_id(f"op-{number}")})
        for number in range(2)
    ]
    async with running_committer(ledger) as committer:
        units = [
            EnvelopeUnit(stated_envelope, "s-1")
            for stated_envelope in (*envelopes, {"operation_id": "none"})
        ]
        *accepted, refused = await committer.commit(units)

    assert seen == [(op_id("op-0"), 0), (op_id("op-1"), 0), ("none", 0)]
    assert [acceptance.ec_sequence_number for acceptance in accepted] == [1, 2]
    assert refused.rejection.check == "V1"


async def test_a_unit_that_fails_is_undone_alone():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        results = await committer.commit(
            [create("a"), Breaking("half"), IntentUnit(adapt("none", note="x"), "s-1"), create("b")]
        )

    assert store.transactions == 1
    assert isinstance(results[0], SubmissionResult)
    assert isinstance(results[1], RequestUnprocessable)
    assert isinstance(results[2], IntentInvalid)
    assert isinstance(results[3], SubmissionResult)
    with ledger.view() as view:
        assert [row["ec_sequence_number"] for row in view.log_rows()] == [1, 2]
        assert view.node("a")
        assert view.node("b")
        assert view.node("half") is None
        assert view.head().row_hash == results[3].row_hash


async def test_one_callers_failing_unit_is_not_anothers():
    ledger, store = scripted_ledger()
    answers = {}
    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [Note()])
            await gate.reached()
            tasks.start_soon(
                submit_all, committer, [[create("a")], [Breaking("x")], [create("b")]], answers
            )
            await anyio.wait_all_tasks_blocked()
            gate.open()

    assert store.transactions == 2
    assert isinstance(answers[1][0], RequestUnprocessable)
    assert [answers[number][0].ec_sequence_number for number in (0, 2)] == [1, 2]


# --- the output gate ------------------------------------------------------------------------------


async def test_nobody_is_answered_before_commit_has_returned():
    ledger, store = scripted_ledger()
    answers, recorded = {}, []
    async with running_committer(ledger, committed=recorded.append) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit_all, committer, [[create("a")], [Note(1)]], answers)
            await gate.reached()
            await anyio.wait_all_tasks_blocked()
            assert answers == {}
            assert recorded == []
            gate.open()

    assert isinstance(answers[0][0], SubmissionResult)
    assert answers[1] == [1]
    assert recorded[0].head.ec_sequence_number == 1


async def test_what_was_answered_is_on_record_at_that_moment():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        for number in range(5):
            (result,) = await committer.commit([create(f"n-{number}")])
            with ledger.view() as view:
                assert view.head().row_hash == result.row_hash


# --- batching -------------------------------------------------------------------------------------


async def test_what_is_submitted_while_the_committer_is_busy_is_the_next_batch():
    ledger, store = scripted_ledger()
    answers = {}
    units = [[create(f"n-{number}")] for number in range(100)]
    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [Note()])
            await gate.reached()
            tasks.start_soon(submit_all, committer, units, answers)
            await anyio.wait_all_tasks_blocked()
            gate.open()

    assert store.transactions == 2
    assert [answers[number][0].ec_sequence_number for number in range(100)] == list(range(1, 101))


async def test_an_idle_committer_commits_at_once():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        for number in range(3):
            await committer.commit([create(f"n-{number}")])

    assert store.transactions == 3


async def test_a_batch_has_a_limit():
    ledger, store = scripted_ledger()
    lengths = []
    store.after_commit = lambda: lengths.append(log_length(ledger))
    answers = {}
    async with running_committer(ledger, batch_max_units=8) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [Note()])
            await gate.reached()
            callers = [[create(f"n-{number}")] for number in range(20)]
            tasks.start_soon(submit_all, committer, callers, answers)
            await anyio.wait_all_tasks_blocked()
            gate.open()

    assert lengths == [0, 8, 16, 20]
    assert len(answers) == 20


async def test_what_one_caller_submits_together_is_never_torn_apart():
    ledger, store = scripted_ledger()
    async with running_committer(ledger, batch_max_units=2) as committer:
        results = await committer.commit([create(f"n-{number}") for number in range(5)])

    assert store.transactions == 1
    assert len(results) == 5


async def test_a_caller_with_nothing_to_commit_is_answered():
    ledger, _ = scripted_ledger()
    async with running_committer(ledger) as committer:
        assert await committer.commit([]) == []


# --- when COMMIT fails ----------------------------------------------------------------------------


@pytest.mark.spec("K25")
async def test_a_commit_that_failed_and_is_on_record_is_answered_with_its_results():
    ledger, store = scripted_ledger()
    recorded = []
    async with running_committer(ledger, committed=recorded.append) as committer:
        store.faults.append("found")
        (result,) = await committer.commit([create("a")])

        assert isinstance(result, SubmissionResult)
        assert [batch.head.row_hash for batch in recorded] == [result.row_hash]
        (after,) = await committer.commit([create("b")])
    assert after.ec_sequence_number == 2


def receipts(ledger):
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.receipts, order_by="receipt_sequence"))
        return [(row["receipt_kind"], row["operation_id"], row["reason_code"]) for row in rows]


@pytest.mark.spec("K25", "§2.3", "§17.6")
async def test_each_operation_whose_commit_was_undone_has_a_durable_receipt():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        (old,) = await committer.commit([create("old", intent_key="old")])
        store.faults.append("lost")
        with pytest.raises(CommitFailed):
            await committer.commit([create("old", intent_key="old"), create("a"), create("b")])
        undone = receipts(ledger)
        code = "envelope_commit_rolled_back"
        assert [(kind, reason) for kind, _, reason in undone] == [(code, code)] * 2
        assert old.operation_id not in {operation_id for _, operation_id, _ in undone}

        (result,) = await committer.commit([create("a")])
    assert (result.ec_sequence_number, result.duplicate) == (2, False)
    with ledger.view() as view:
        assert view.node("b") is None
        assert verify(view).findings == ()


@pytest.mark.spec("K25", "§2.3")
async def test_where_no_receipt_can_be_written_the_answer_is_the_same():
    ledger, store = scripted_ledger()
    before = dump(ledger)
    async with running_committer(ledger) as committer:
        store.faults.extend(["lost", "lost"])
        # Nothing of the store: its errors name the database.
        with pytest.raises(CommitFailed, match=r"^nothing was committed; ask again$"):
            await committer.commit([create("a")])
        store.faults.extend(["lost", "unavailable"])
        with pytest.raises(CommitFailed):
            await committer.commit([create("a")])
    assert dump(ledger) == before


@pytest.mark.spec("K25")
@pytest.mark.parametrize("fault", ["lost", "unavailable"])
async def test_a_commit_that_is_not_on_record_is_told_to_everybody_in_it(fault):
    ledger, store = scripted_ledger()
    before, answers = dump(ledger), {}
    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        store.faults.extend(["", fault, *(["unavailable"] if fault == "lost" else [])])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [Note()])
            await gate.reached()
            callers = [[create("a")], [create("b"), Breaking("x")], [Note()]]
            tasks.start_soon(submit_all, committer, callers, answers)
            await anyio.wait_all_tasks_blocked()
            gate.open()
        assert [type(answers[number]) for number in range(3)] == [CommitFailed] * 3
        assert is_retryable(answers[0].code)
        assert dump(ledger) == before

        (result,) = await committer.commit([create("a")])
    assert result.ec_sequence_number == 1
    assert not result.duplicate


BEHIND = {"held": CommitFailed, "lost": list}


@pytest.mark.parametrize("fault", BEHIND)
async def test_who_waits_behind_a_batch_is_answered_with_it_where_another_has_the_head(fault):
    """The next batch would wait as long again; after any other failure it may succeed."""
    ledger, store = scripted_ledger()
    first, behind = {}, {}
    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        store.faults.append(fault)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit_all, committer, [[create("a")]], first)
            await gate.reached()
            tasks.start_soon(submit_all, committer, [[create("b")], []], behind)
            await anyio.wait_all_tasks_blocked()
            gate.open()
        assert type(first[0]) is CommitFailed
        assert [type(behind[number]) for number in range(2)] == [BEHIND[fault]] * 2

        (result,) = await committer.commit([create("c")])
    assert result.ec_sequence_number == (1 if fault == "held" else 2)


@pytest.mark.spec("K25")
async def test_an_outcome_that_cannot_be_looked_up_is_never_called_a_failure(monkeypatch):
    monkeypatch.setattr(committer_module, "LOOK_UP_PAUSES_S", (0.001,))
    ledger, store = scripted_ledger()
    store.faults.append("found")
    store.views_fail = True
    committer, answers = make_committer(ledger), {}

    with pytest.raises(ExceptionGroup) as ended:
        await run_to_its_end(committer, [[create("a")]], answers)

    assert ended.group_contains(LedgerUnavailable)
    assert type(answers[0]) is ActorFailed


@pytest.mark.spec("K25")
async def test_an_outcome_is_looked_up_again_while_the_store_is_away(monkeypatch):
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        store.faults.append("found")
        store.views_fail = True

        def comes_back(_):
            store.views_fail = False

        monkeypatch.setattr(
            committer_module,
            "time",
            SimpleNamespace(perf_counter=time.perf_counter, sleep=comes_back),
        )
        (result,) = await committer.commit([create("a")])
    assert result.ec_sequence_number == 1
    with ledger.view() as view:
        assert view.head().row_hash == result.row_hash


# --- when the ledger cannot be trusted ------------------------------------------------------------


@pytest.mark.parametrize("fault", ["disk", "corrupt"])
async def test_a_fatal_error_ends_the_committer_and_nobody_waits_for_ever(fault):
    ledger, store = scripted_ledger()
    committer, answers = make_committer(ledger, batch_max_units=1), {}
    if fault == "disk":
        store.faults.append("broken")
        callers, expected = [[create("a")], [create("b")], [Note()]], OSError
    else:
        corrupt = Breaking("a", LedgerCorrupt("a row fails its own rules"))
        callers, expected = [[corrupt], [create("b")], [Note()]], LedgerCorrupt

    with pytest.raises(ExceptionGroup) as ended:
        await run_to_its_end(committer, callers, answers)
    with pytest.raises(CommitFailed):
        await committer.commit([Note()])

    assert ended.group_contains(expected)
    assert type(answers[0]) is ActorFailed
    assert [type(answers[number]) for number in (1, 2)] == [CommitFailed] * 2
    assert log_length(ledger) == 0


async def test_a_disk_that_is_full_in_the_middle_of_a_batch_answers_nobody_with_success(
    monkeypatch, tmp_path
):
    connections = watch_sqlite(monkeypatch)
    store = SqliteStore(tmp_path / "ledger.db")
    ledger = Ledger.create(store, FakeHost().host)
    [writer] = connections.open
    pages = writer.execute("PRAGMA page_count").fetchone()[0]
    writer.execute(f"PRAGMA max_page_count = {pages + 30}")
    committer, answers = make_committer(ledger), {}
    units = [create(f"n-{number}", text="x" * 3000) for number in range(20)]

    with pytest.raises(ExceptionGroup) as ended:
        await run_to_its_end(committer, [units], answers)

    assert ended.group_contains(LedgerFailed)

    assert type(answers[0]) is ActorFailed
    ledger.close()
    reopened = Ledger(SqliteStore(tmp_path / "ledger.db", read_only=True), ledger.host)
    with reopened.view() as view:
        assert (
            view.tables.count(TableQuery(schema.kernel_event_log))
            == view.head().ec_sequence_number
            == 0
        )
        assert view.tables.count(TableQuery(schema.nodes)) == 0
    reopened.close()


# --- cancellation ---------------------------------------------------------------------------------


async def test_a_caller_that_is_cancelled_leaves_the_committer_healthy():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [create("a")])
            await gate.reached()
            tasks.start_soon(committer.commit, [create("b")])
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        gate.open()
        (result,) = await committer.commit([create("c")])

    assert result.ec_sequence_number == 3
    with ledger.view() as view:
        assert view.node("a")
        assert view.node("b")


async def test_a_batch_that_is_being_written_is_finished_when_the_committer_is_cancelled():
    ledger, store = scripted_ledger()
    committer, answers = make_committer(ledger), {}
    gate = store.gate = Gate()
    async with anyio.create_task_group() as callers, anyio.create_task_group() as tasks:
        tasks.start_soon(committer.run)
        callers.start_soon(submit_all, committer, [[create("a")]], answers)
        await gate.reached()
        callers.start_soon(_expect_stopped, committer)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        gate.open()

    assert isinstance(answers[0][0], SubmissionResult)
    assert log_length(ledger) == 1


async def _expect_stopped(committer):
    with pytest.raises(CommitFailed):
        await committer.commit([create("late")])


async def test_who_measures_is_told_of_every_batch_and_only_what_is_durable():
    ledger, store = scripted_ledger()
    transactions = []
    async with running_committer(ledger, measured=transactions.append) as committer:
        await committer.commit([Note("one"), Note("two")])
        store.faults.append("unavailable")
        with pytest.raises(CommitFailed):
            await committer.commit([create("n-1")])
    assert [
        (transaction.units, transaction.durable, transaction.results)
        for transaction in transactions
    ] == [
        (2, True, ["one", "two"]),
        (1, False, []),
    ]
    assert all(transaction.seconds > 0 for transaction in transactions)


async def test_callers_that_wait_are_counted():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [Note()])
            await gate.reached()
            for number in range(3):
                tasks.start_soon(committer.commit, [create(f"n-{number}")])
            await anyio.wait_all_tasks_blocked()
            assert committer.waiting == 3
            gate.open()
        assert committer.waiting == 0


# --- what is urgent -------------------------------------------------------------------------------


@dataclass
class SlowUnit:
    seconds: float

    def run(self, context):  # noqa: ARG002 - every unit is given it
        time.sleep(self.seconds)


async def test_urgent_units_wait_for_the_batch_in_hand_and_for_no_other():
    ledger, store = scripted_ledger()
    ended = []

    async def submit(committer, name, units, **options):
        await committer.commit(units, **options)
        ended.append(name)

    async with running_committer(ledger, batch_max_units=4) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit, committer, "first", [Note()])
            await gate.reached()
            for number in range(12):
                tasks.start_soon(submit, committer, number, [Note(), Note()])
                await anyio.wait_all_tasks_blocked()
            tasks.start_soon(partial(submit, committer, "urgent", [Note()], urgent=True))
            await anyio.wait_all_tasks_blocked()
            gate.open()
    assert ended.index("urgent") <= ended.index(1)
    assert [ended_row for ended_row in ended if isinstance(ended_row, int)] == list(range(12))


async def test_too_much_that_is_urgent_is_refused_and_not_taken(monkeypatch):
    monkeypatch.setattr(committer_module, "URGENT_MAX", 1)
    ledger, store = scripted_ledger()
    note = Note()
    async with running_committer(ledger) as committer:
        gate = store.gate = Gate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(committer.commit, [Note()])
            await gate.reached()
            tasks.start_soon(partial(committer.commit, [Note()], urgent=True))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(MailboxFull):
                await committer.commit([note], urgent=True)
            gate.open()
    assert not note.ran_on


async def test_a_slow_ledger_has_small_batches_and_never_none(monkeypatch):
    monkeypatch.setattr(committer_module, "BATCH_UNITS_LEAST", 8)
    monkeypatch.setattr(committer_module, "BATCH_S", 0.001)
    ledger, _ = scripted_ledger()
    sizes = []
    async with running_committer(
        ledger, measured=lambda transaction: sizes.append(transaction.units)
    ) as committer:
        await committer.commit([SlowUnit(0.01) for _ in range(8)])
        answers: dict[int, object] = {}
        await submit_all(committer, [[SlowUnit(0.001)] for _ in range(64)], answers)
    assert len(answers) == 64
    assert max(sizes[1:]) == 8


async def test_a_committer_says_for_how_long_nothing_could_be_committed():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer:
        assert committer.stalled_s == 0.0
        store.faults.extend(["unavailable", "unavailable"])
        assert not await committer.probe()
        stalled_s = committer.stalled_s
        assert stalled_s > 0.0
        assert not await committer.probe()
        assert committer.stalled_s > stalled_s
        assert await committer.probe()
        assert committer.stalled_s == 0.0


async def test_a_commit_that_hangs_counts_from_its_begin():
    ledger, store = scripted_ledger()
    async with running_committer(ledger) as committer, anyio.create_task_group() as tasks:
        gate = store.gate = Gate()
        tasks.start_soon(committer.probe)
        await gate.reached()
        assert committer.stalled_s > 0.0
        gate.open()
