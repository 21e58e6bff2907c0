"""What a batch reads comes with its snapshot where the store is elsewhere; nothing else differs."""

import pytest

from actors.commit.units import IntentUnit
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.model.result import SubmissionResult
from tests.actors.harness import dump, running_committer
from tests.actors.intents import adapt, claim, link, recalculation, source, understanding
from tests.connections import watch_postgres
from tests.kernel.build import FakeHost

pytestmark = pytest.mark.anyio


@pytest.fixture
def on_postgres(monkeypatch, postgres_url):
    postgres = pytest.importorskip("kernel.ledger.postgres.store")
    connections = watch_postgres(monkeypatch)
    store = postgres.PostgresStore(postgres_url)
    yield Ledger.create(store, FakeHost().host), connections
    store.close()


def operations(number):
    """Each operation of a round by what makes its intent from a ledger."""
    s, u, c, d = [f"{letter}-{number}" for letter in "sucd"]
    intents = [source(s), understanding(u, s), claim(c, s, understanding_id=u), claim(d, s)]
    intents += [link(d, u), adapt(c, authority=0.5), adapt(s, note="x")]
    made = [lambda _, intent=intent: intent for intent in intents]
    return [*made, lambda ledger: recalculation(ledger, u)]


def rows_of(ledger):
    return {
        table: sorted(repr(sorted(row.items())) for row in rows)
        for table, rows in dump(ledger).items()
    }


async def test_an_operation_takes_two_messages_and_leaves_what_it_leaves_elsewhere(on_postgres):
    ledger, connections = on_postgres
    here = Ledger.create(MemoryStore(), FakeHost().host)
    async with running_committer(ledger) as committer, running_committer(here) as other:
        for number in range(2):
            taken = []
            for intent_from in operations(number):
                units = [IntentUnit(intent_from(ledger), "s-9")]
                connections.messages = 0
                [result] = await committer.commit(units)
                taken.append(connections.messages)
                assert isinstance(result, SubmissionResult)
                await other.commit([IntentUnit(intent_from(here), "s-9")])
    # The first round shows what the second asks for: the counts of a day of each kind.
    assert taken == [2] * len(operations(0))
    assert rows_of(ledger) == rows_of(here)
