"""Of two who write a ledger's incidents, the one with the older epoch writes nothing."""

import pytest

from actors.errors import StaleEpoch
from actors.incidents.incidents import Incidents
from actors.incidents.ledger_elimination_store import LedgerEliminationStore
from kernel.belief.elimination_store import EliminationProvenance
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.shards import (
    INCIDENTS_SHARD,
    Fence,
    create_shards,
    holds,
    shards_of,
    take_away_all,
)
from kernel.ledger.store.tables import TableQuery
from kernel.records.causal_graph import CausalNode, Mark
from tests.kernel.build import findings

SESSION = "incident-7"
WHY = EliminationProvenance("adapter://test", "probe:1")
NODE = CausalNode("n", "SERVICE", "a service", hypothetical=False, provenance=(Mark("a", "b", ""),))

WRITES = {
    "creating": lambda store, _: store.create_session("another", {"a"}),
    "eliminating": lambda store, _: store.eliminate(SESSION, {"c"}, WHY),
    "opening an incident": lambda store, ledger: Incidents(ledger, store).create("inc"),
    "merging the graph": lambda store, ledger: Incidents(ledger, store).merge([NODE], []),
}


def content_of(ledger: Ledger):
    with ledger.view() as view:
        return {
            table.name: view.tables.scan(TableQuery(table))
            for table in schema.metadata.sorted_tables
        }


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_the_owner_with_the_older_epoch_is_refused_and_writes_nothing(ledger, write):
    older, newer = (LedgerEliminationStore(ledger, owner=name) for name in ("older", "newer"))
    older.create_session(SESSION, {"a", "b", "c"})
    assert newer.eliminate(SESSION, {"a"}, WHY).applied == {"a"}
    before = content_of(ledger)
    for _ in range(2):
        with pytest.raises(StaleEpoch) as refused:
            write(older, ledger)
        assert refused.value.code == "stale_epoch"
    assert content_of(ledger) == before
    assert older.get_survivors(SESSION) == {"b", "c"}, "it reads what the other has written"
    write(newer, ledger)
    assert findings(ledger) == ()


def test_an_owner_that_takes_the_shard_before_it_writes_refuses_the_other_from_then_on(ledger):
    older, newer = (LedgerEliminationStore(ledger, owner=name) for name in ("older", "newer"))
    older.create_session(SESSION, {"a"})
    newer.take()
    with pytest.raises(StaleEpoch):
        older.eliminate(SESSION, {"a"}, WHY)
    newer.take()
    assert newer.eliminate(SESSION, {"a"}, WHY).applied == {"a"}


def test_gateways_share_out_their_shards_beside_that_of_incidents(ledger):
    with ledger.transaction() as transaction:
        create_shards(transaction, 4)
    LedgerEliminationStore(ledger).take()
    with ledger.transaction() as transaction:
        create_shards(transaction, 4)
        assert [shard.shard for shard in shards_of(transaction)] == [0, 1, 2, 3]
        row = transaction.tables.get(schema.shard_epochs, INCIDENTS_SHARD)
        fence = Fence(INCIDENTS_SHARD, 1, row["owner"])
        assert holds(transaction, fence)
        take_away_all(transaction)
        assert not holds(transaction, fence)
