"""A store that only this program knows, and what it takes to have one: run by a test.

    python -m tests.kernel.toy_store

Before anything else is imported, four tables get an entry each: the schema one for the store, the
registry one for each of its effect kinds, the appliers one, and the comparisons one. Nothing else
is told of it.
"""

from types import MappingProxyType

from sqlalchemy import Column, LargeBinary, String, Table

from kernel.algebra import effects
from kernel.ledger import schema
from kernel.ledger.store import storage

TOYS = Table(
    "toys",
    schema.metadata,
    Column("toy_id", String, primary_key=True),
    Column(
        "box", String, nullable=False, info=storage.of_record(lambda toy: toy["payload"]["box"])
    ),
    Column("record", LargeBinary, nullable=False),
    info=storage.state(storage.StateStore("tests", searched_by=())),
)
schema.STATE_TABLES = (*schema.STATE_TABLES, TOYS)
schema.STORES["toys"] = TOYS

KINDS = (
    effects.EffectKind("toy_write", "toy_write", "toys", effects.REVERSIBLE, ("toy_retract",)),
    effects.EffectKind("toy_retract", "toy_write", "toys", effects.REVERSIBLE, ("toy_write",)),
)
effects.EFFECT_KINDS = MappingProxyType(
    {**effects.EFFECT_KINDS, **{kind.name: kind for kind in KINDS}}
)


from kernel.records import appliers  # noqa: E402
from kernel.records.conflicts import compared  # noqa: E402
from kernel.records.typed import Name, Payload, TypedStore  # noqa: E402
from kernel.values.errors import EffectInapplicable  # noqa: E402


class Toy(Payload):
    box: Name


STORE = TypedStore(TOYS, Toy, frozenset({"toy_retract"}))
compared.COMPARED = MappingProxyType({**compared.COMPARED, TOYS: STORE.comparison})


def apply_toy(effect, operation):
    """Search the store, as an applier may: a box holds two toys at most."""
    box = {"box": effect.payload.get("box")}
    if (
        effect.effect_kind == "toy_write"
        and len(operation.transaction.tables.scan(TableQuery(TOYS, box))) > 1
    ):
        raise EffectInapplicable("the box is full", code="box_full", field="payload.box")
    return STORE.apply(effect, operation)


appliers.APPLIERS = MappingProxyType({**appliers.APPLIERS, "toy_write": apply_toy})

from kernel.audit.operations import WRITTEN_STORES  # noqa: E402
from kernel.ledger.ledger import Ledger  # noqa: E402
from kernel.ledger.registry import STORAGE_REGISTRY  # noqa: E402
from kernel.ledger.store.memory import MemoryStore  # noqa: E402
from kernel.ledger.store.tables import TableQuery  # noqa: E402
from kernel.replay.reproduce import reproduce_range  # noqa: E402
from kernel.rollback.execute import rollback_operation  # noqa: E402
from kernel.rollback.rebuild import plan_rebuild  # noqa: E402
from kernel.transaction.kernel import Kernel  # noqa: E402
from kernel.verify import verify  # noqa: E402
from tests.kernel.build import FakeHost, code_of, effect, envelope, submit  # noqa: E402


def put(toy_id, **fields):
    return envelope("toy_write", [effect("toy_write", toy_id, **fields)])


def wrote(ledger, host, *documents):
    for document in documents:
        assert code_of(submit(ledger, document, submitter="orchestrator")) is None, document
        host.time_us += 60_000_000


def main():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    first, second = put("bear", box="a"), put("train", box="a")
    wrote(ledger, host, first, second)
    assert code_of(submit(ledger, put("ball", box="a"))) == "box_full"
    moved = put("train", box="b")
    wrote(ledger, host, moved, put("ball", box="a"))
    wrote(ledger, host, envelope("toy_retract", [effect("toy_retract", "bear")]))

    # Two that had not seen each other.
    mine = put("train", box="c", owner_ref="x")
    assert code_of(submit(ledger, mine, unseen=True)) is None
    other = submit(ledger, put("train", box="d", owner_ref="x"), unseen=True)
    assert code_of(other) == "envelope_conflict_first_writer_wins"
    # What the graph keeps side by side is for a person to decide where there is one value.
    theirs = submit(ledger, put("train", box="c", owner_ref="y"), unseen=True)
    assert code_of(theirs) == "envelope_conflict_user_review_required"

    # Undone: the record is what it was.
    last = put("ball", box="e")
    host.time_us += 60_000_000
    wrote(ledger, host, last)
    with ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, last["operation_id"])
    with ledger.view() as view:
        ball = view.record(TOYS, "ball")
        assert ball is not None
        assert ball["payload"]["box"] == "a"
        assert verify(view).findings == ()
        replayed = list(reproduce_range(view, 1, view.head().ec_sequence_number))
        assert [
            reproduction.difference for reproduction in replayed if reproduction.difference
        ] == []
        assert plan_rebuild(Kernel(), view, 0).differences == ()

    # Damaged: found, and given back by the log.
    with ledger.transaction() as transaction:
        transaction.tables.update(TOYS, ("ball",), {"record": b"{}"})
        transaction.tables.delete(TOYS, "bear")
    with ledger.view() as view:
        places = {(finding.table, finding.key) for finding in verify(view).findings}
        assert {("toys", "ball"), ("toys", "bear")} <= places, places
        differing = {difference.key for difference in plan_rebuild(Kernel(), view, 0).differences}
        assert differing == {"ball", "bear"}
    assert "toys" in WRITTEN_STORES
    assert STORAGE_REGISTRY["toys"].owner == "tests"


if __name__ == "__main__":
    main()
