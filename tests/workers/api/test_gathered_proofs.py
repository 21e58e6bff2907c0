"""Proofs that several requests wait for are read from one snapshot, and each gets its own."""

import anyio
import anyio.to_thread
import pytest

from kernel.values.errors import LedgerUnavailable
from tests.kernel.build import FakeHost, create, memory_ledger, submit
from workers.api.gathered_proofs import GatheredProofs
from workers.views.log_proofs import inclusions

pytestmark = pytest.mark.anyio


class Reads:
    """A reader whose first read waits until it is let go."""

    def __init__(self, ledger):
        self.ledger, self.count, self.go_on, self.fails = ledger, 0, anyio.Event(), False

    async def __call__(self, question):
        self.count += 1
        if self.count == 1:
            await self.go_on.wait()
        if self.fails:
            raise LedgerUnavailable("the file is away")
        await anyio.to_thread.run_sync(self.ledger.read, question)


@pytest.fixture
def reads():
    ledger = memory_ledger(FakeHost())
    submit(ledger, *(create(f"n-{number}", "Note") for number in range(9)))
    return Reads(ledger)


async def all_of(reads, wanted, *, cancelled=None):
    """Ask for several at once, while a first read is under way; return what each got."""
    proofs, answers = GatheredProofs(), {}

    async def ask(name, sequences, scope):
        with scope:
            try:
                answers[name] = await proofs.of(sequences, reads)
            except LedgerUnavailable as error:
                answers[name] = error

    scopes = {name: anyio.CancelScope() for name in wanted}
    async with anyio.create_task_group() as group:
        for name, sequences in wanted.items():
            group.start_soon(ask, name, sequences, scopes[name])
            if name == "first":
                await anyio.wait_all_tasks_blocked()
        await anyio.wait_all_tasks_blocked()
        if cancelled is not None:
            scopes[cancelled].cancel()
            await anyio.wait_all_tasks_blocked()
        reads.go_on.set()
    return answers


WANTED = {"first": [9], "second": [1, 4], "third": [2], "fourth": [7, 3]}


async def test_those_that_wait_during_a_read_are_read_together(reads):
    answers = await all_of(reads, WANTED)
    assert reads.count == 2
    for name, sequences in WANTED.items():
        assert answers[name] == reads.ledger.read(lambda view, of=sequences: inclusions(view, of))


@pytest.mark.parametrize("cancelled", ["first", "second"])
async def test_who_is_cancelled_takes_no_proof_from_the_others(reads, cancelled):
    answers = await all_of(reads, WANTED, cancelled=cancelled)
    assert {*answers} == {*WANTED} - {cancelled}
    assert [proof["ec_sequence_number"] for proof in answers["fourth"]] == ["7", "3"]


async def test_a_ledger_that_is_away_is_asked_once_for_all_that_wait(reads):
    reads.fails = True
    answers = await all_of(reads, WANTED)
    assert reads.count == 2
    assert all(isinstance(answer, LedgerUnavailable) for answer in answers.values())
