"""Two processes that submit to one ledger at once leave one chain, whatever store is below."""

import signal

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.values.canonical import GENESIS_HASH
from kernel.values.host import Host
from kernel.verify import verify
from tests.forked import forked_together, sent
from tests.system.submitting_process import COMMON, is_shared, open_store, submit_all

COUNT = 60
SHARED = sum(is_shared(number) for number in range(COUNT))
KILLED_AFTER_ANSWERS = 15
KILLS = 2

Answer = tuple[int, str, int, str]
"""What a process was told: its number, the operation, the sequence, the hash of the row."""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_empty_url")
    return str(tmp_path / "ledger.db")


def submitting(place, *names):
    """Processes that are ready, and killed at the end if they still run."""
    return forked_together(submit_all, *((place, name, COUNT) for name in names))


def begin(running) -> list[Answer]:
    """Let them go up to the last submission once all have begun; returns the first answers."""
    go(running)
    first = [connection.recv() for _, connection in running]
    go(running)
    return first


def go(running):
    for _, connection in running:
        connection.send("go")


def rest_of(process, connection) -> list[Answer]:
    """What a process tells until it has ended."""
    answers = [*sent(connection)]
    process.join()
    return answers


def changes_common(operation_id: str) -> bool:
    number = int(operation_id.partition(":")[2])
    return number == 0 or number % 3 == 2


def check_record(place: str, answers: list[Answer]) -> dict[str, int]:
    """One chain without a gap that holds every answer; returns each operation's sequence."""
    ledger = Ledger(open_store(place), Host(lambda: 0, bytes))
    with ledger.view() as view:
        rows = view.tables.scan(TableQuery(schema.kernel_event_log))
        head = view.head()
        keys = view.tables.scan(
            TableQuery(schema.idempotency_records, columns=("idempotency_key",), grouped=True)
        )
        founded = view.tables.count(TableQuery(schema.policy_snapshots))
        changes = view.tables.scan(
            TableQuery(schema.applied_effects, {"store": "nodes", "record_key": COMMON})
        )
        verification = verify(view)
    ledger.close()
    assert [row["ec_sequence_number"] for row in rows] == list(range(1, len(rows) + 1))
    hashes = [GENESIS_HASH, *(row["row_hash"] for row in rows)]
    assert [row["prior_row_hash"] for row in rows] == hashes[:-1]
    assert (head.ec_sequence_number, head.row_hash) == (len(rows), hashes[-1])
    assert {count for _, count in keys} == {1}
    assert len(keys) == len(rows)
    assert founded == 1
    assert verification.ok, verification.findings
    assert {row["ec_sequence_number"] for row in changes} == {
        row["ec_sequence_number"] for row in rows if changes_common(row["operation_id"])
    }
    recorded = {row["operation_id"]: row for row in rows}
    for _, operation_id, sequence, row_hash in answers:
        row = recorded[operation_id]
        assert (row["ec_sequence_number"], row["row_hash"]) == (sequence, row_hash)
    return {operation_id: row["ec_sequence_number"] for operation_id, row in recorded.items()}


def test_two_processes_submit_at_once_and_leave_one_chain(place):
    with submitting(place, "a", "b") as running:
        begun = begin(running)
        go(running)
        answers = [
            [answer, *rest_of(*process)] for answer, process in zip(begun, running, strict=True)
        ]
        assert [process.exitcode for process, _ in running] == [0, 0]
    first, second = answers
    assert len(first) == len(second) == COUNT
    for of_first, other in zip(first, second, strict=True):
        # Under a shared key both were told of the same operation, otherwise each of its own.
        assert (of_first == other) == is_shared(of_first[0])
    sequences = check_record(place, first + second)
    assert len(sequences) == 2 * COUNT - SHARED


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_process_killed_among_its_submissions_keeps_what_was_answered_and_stops_nobody(
    place, kill
):
    with submitting(place, "a", "b") as running:
        (killed, told_by_killed), (survivor, told_by_survivor) = running
        first, of_survivor = begin(running)
        answered = [first]
        answered += [told_by_killed.recv() for _ in range(KILLED_AFTER_ANSWERS + 7 * kill)]
        killed.kill()
        told_by_survivor.send("go")
        answered += rest_of(killed, told_by_killed)
        finished = [of_survivor, *rest_of(survivor, told_by_survivor)]
        assert (killed.exitcode, survivor.exitcode) == (-signal.SIGKILL, 0)
    assert KILLED_AFTER_ANSWERS <= len(answered) < COUNT
    assert len(finished) == COUNT
    sequences = check_record(place, answered + finished)
    # At most one submission was committed and its answer lost with the process.
    of_killed = {name for name in sequences if name.startswith("a:")}
    operation_ids = {
        operation_id for _, operation_id, *_ in answered if operation_id.startswith("a:")
    }
    assert len(of_killed - operation_ids) <= 1
