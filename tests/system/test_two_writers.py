"""Two processes that submit to one ledger at once leave one chain, whatever store is below."""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel.host import Host
from kernel.ledger import schema
from kernel.ledger.ledger import GENESIS_HASH, Ledger
from kernel.verify import verify
from tests.system.submitting_process import COMMON, is_shared, open_store

ROOT = Path(__file__).parents[2]
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


@contextmanager
def submitting(place, *names):
    """Processes that are ready, and killed at the end if they still run."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.system.submitting_process", place, name, str(COUNT)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def begin(processes) -> list[str]:
    """Let them go, and go on once all have begun; returns the first line of each."""
    go(processes)
    first = [process.stdout.readline() for process in processes]
    go(processes)
    return first


def go(processes):
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def answers_in(text: str) -> list[Answer]:
    # A process may have been killed in the middle of a line, which then told nobody anything.
    whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [tuple(json.loads(line)) for line in whole]


def changes_common(operation_id: str) -> bool:
    number = int(operation_id.partition(":")[2])
    return number == 0 or number % 3 == 2


def check_record(place: str, answers: list[Answer]) -> dict[str, int]:
    """One chain without a gap that holds every answer; returns each operation's sequence."""
    ledger = Ledger(open_store(place), Host(lambda: 0, bytes))
    with ledger.view() as view:
        rows = view.tables.select(schema.kernel_event_log)
        head = view.head()
        keys = view.tables.counts(schema.idempotency_records, "idempotency_key")
        founded = view.tables.count(schema.policy_snapshots)
        changes = view.tables.select(
            schema.applied_effects, {"store": "nodes", "record_key": COMMON}
        )
        verification = verify(view)
    ledger.close()
    assert [row["ec_sequence_number"] for row in rows] == list(range(1, len(rows) + 1))
    hashes = [GENESIS_HASH, *(row["row_hash"] for row in rows)]
    assert [row["prior_row_hash"] for row in rows] == hashes[:-1]
    assert (head.ec_sequence_number, head.row_hash) == (len(rows), hashes[-1])
    assert set(keys.values()) == {1}
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
    with submitting(place, "a", "b") as processes:
        texts = begin(processes)
        rest = [process.communicate(timeout=50)[0] for process in processes]
        found = [answers_in(begun + text) for begun, text in zip(texts, rest, strict=True)]
        assert [process.returncode for process in processes] == [0, 0]
    first, second = found
    assert len(first) == len(second) == COUNT
    for one, other in zip(first, second, strict=True):
        # Under a shared key both were told of the same operation, otherwise each of its own.
        assert (one == other) == is_shared(one[0])
    sequences = check_record(place, first + second)
    assert len(sequences) == 2 * COUNT - SHARED


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_process_killed_among_its_submissions_keeps_what_was_answered_and_stops_nobody(
    place, kill
):
    with submitting(place, "a", "b") as processes:
        text, of_survivor = begin(processes)
        killed, survivor = processes
        text += "".join(killed.stdout.readline() for _ in range(KILLED_AFTER_ANSWERS + 7 * kill))
        killed.kill()
        text += killed.communicate()[0]
        answered = answers_in(text)
        finished = answers_in(of_survivor + survivor.communicate(timeout=50)[0])
        assert (killed.returncode, survivor.returncode) == (-9, 0)
    assert KILLED_AFTER_ANSWERS <= len(answered) < COUNT
    assert len(finished) == COUNT
    sequences = check_record(place, answered + finished)
    # At most one submission was committed and its answer lost with the process.
    of_killed = {name for name in sequences if name.startswith("a:")}
    told = {operation_id for _, operation_id, *_ in answered if operation_id.startswith("a:")}
    assert len(of_killed - told) <= 1
