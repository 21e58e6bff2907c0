"""Sessions of thoughts and rounds on the record: the order of steps, refusals, seals."""

from contextlib import contextmanager

import pytest

from actors.commit.thought_units import (
    ChainVerifiedUnit,
    EndAuditSessionUnit,
    FinalizeUnit,
    OpenRoundUnit,
    RecordThoughtUnit,
    SealDueRoundUnit,
    Sealing,
    SealRoundUnit,
    StartAuditSessionUnit,
)
from actors.errors import ThoughtNotTaken
from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.proof.eta_tree import eta_path, eta_root, verify_eta_path
from kernel.proof.seals import check_signatures, seal_hash
from kernel.proof.signing_keys import KeyKind, SeedKey
from kernel.thoughts.reading import read_chain
from kernel.verify import verify
from tests.actors.harness import bench_on, log_length
from tests.kernel.build import FakeHost, memory_ledger
from workers.views.thoughts import root_view

SIGNERS = (
    SeedKey("example.com/agent", KeyKind.ED25519, b"a" * 32),
    SeedKey("arbiter.example", KeyKind.ED25519, b"b" * 32),
)
UNSIGNED = Sealing()
HOUR_US = 3_600_000_000


def root_of(world, session_id="s"):
    with world.ledger.view() as view:
        return root_view(view, session_id)


class World:
    def __init__(self, sealing=UNSIGNED):
        self.host = FakeHost()
        self.ledger = memory_ledger(self.host)
        self.sealing = sealing

    def run(self, unit):
        with bench_on(self.ledger) as context, context.transaction.savepoint():
            return unit.run(context)

    def start(self, session_id="s", task_id="task"):
        return self.run(StartAuditSessionUnit(session_id, task_id))

    def think(self, number, kind="analysis", session_id="s", content=None):
        content = f"thought {number}" if content is None else content
        return self.run(RecordThoughtUnit(session_id, f"t-{number}", kind, content))

    def verify_chain(self, session_id="s"):
        with self.ledger.view() as view:
            read = read_chain(view, session_id)
        return self.run(ChainVerifiedUnit(session_id, *read))

    def finalize(self, session_id="s"):
        return self.run(FinalizeUnit(session_id, self.sealing))

    def whole(self, session_id="s", thoughts=3):
        self.start(session_id)
        for number in range(1, thoughts):
            self.think(number, session_id=session_id)
        self.verify_chain(session_id)
        self.think(thoughts, "reflection", session_id=session_id)
        return self.finalize(session_id)

    def findings(self):
        with self.ledger.view() as view:
            return verify(view).findings

    def rows(self, table, **where):
        with self.ledger.view() as view:
            return view.tables.scan(TableQuery(table, where))


@contextmanager
def refused(code):
    with pytest.raises(ThoughtNotTaken) as raised:
        yield
    assert raised.value.code == code


@pytest.mark.spec("002 Finalization workflow", "002 merkle_finalize", "002 merkle_root")
@pytest.mark.parametrize("thoughts", [1, 2, 5, 8])
def test_a_session_closes_in_the_order_of_the_seed(thoughts):
    world = World(Sealing(SIGNERS))
    assert world.start()["state"] == "open"
    if thoughts == 1:
        world.think(1, "reflection")
        world.verify_chain()
        root = world.finalize()
    else:
        world = World(Sealing(SIGNERS))
        root = world.whole(thoughts=thoughts)
    records = world.rows(schema.thought_records, session_id="s")
    leaves = [bytes.fromhex(row["content_hash"]) for row in records]
    assert root["merkle_root"] == eta_root(leaves).hex()
    assert root_of(world) == root
    seal = root["seal"]
    assert (seal["leaf_count"], seal["first_sequence"], seal["last_sequence"]) == (
        thoughts,
        1,
        thoughts,
    )
    assert seal["zeta_head"] == records[-1]["content_hash"]
    assert world.run(EndAuditSessionUnit("s"))["state"] == "ended"
    assert not world.findings()


@pytest.mark.spec("002 merkle_root")
def test_the_root_is_null_until_the_session_is_finalized():
    world = World()
    world.start()
    world.think(1)
    assert root_of(world)["merkle_root"] is None
    with refused("audit_session_unknown"):
        root_of(world, "nobody")


@pytest.mark.spec("P2")
def test_an_empty_session_is_not_finalized():
    world = World()
    world.start()
    with refused("audit_session_empty"):
        world.finalize()


@pytest.mark.spec("P3", "002 Finalization workflow")
def test_finalizing_needs_a_closing_reflection_and_a_verified_chain():
    world = World()
    world.start()
    world.think(1)
    world.think(2, "reflection")
    with refused("thought_chain_not_verified"):
        world.finalize()
    world.verify_chain()
    world.think(3)
    with refused("thought_reflection_missing"):
        world.finalize()
    world.think(4, "reflection")
    with refused("thought_chain_not_verified"):
        world.finalize()
    with refused("audit_session_not_finalized"):
        world.run(EndAuditSessionUnit("s"))
    world.verify_chain()
    assert world.finalize()["seal"]["leaf_count"] == 4


@pytest.mark.spec("P3", "002 Finalization workflow")
def test_a_late_thought_is_refused_and_a_late_reflection_needs_another_session():
    world = World()
    world.whole()
    with refused("audit_session_finalized"):
        world.think(9, "reflection")
    world.run(EndAuditSessionUnit("s"))
    with refused("audit_session_over"):
        world.think(9, "reflection")
    assert world.whole("another")["merkle_root"]
    assert not world.findings()


@pytest.mark.spec("002 merkle_finalize")
def test_every_step_that_comes_again_is_answered_as_before_and_writes_nothing():
    world = World(Sealing(SIGNERS))
    root = world.whole()
    ended = world.run(EndAuditSessionUnit("s"))
    length = log_length(world.ledger)
    assert world.finalize() == root
    assert world.run(EndAuditSessionUnit("s")) == ended
    assert world.start()["state"] == "ended"
    assert world.verify_chain()["verified_count"] == 2
    first = world.think(1)
    assert first["duplicate"]
    assert first["sequence"] == 1
    assert log_length(world.ledger) == length
    with refused("audit_session_exists"):
        world.start(task_id="another")


def test_a_thought_id_means_one_thought():
    world = World()
    world.start()
    world.think(1)
    for changes in ({"content": "other"}, {"kind": "decision"}):
        with refused("thought_conflict"):
            world.think(1, **changes)
    assert world.think(1)["duplicate"]
    assert len(world.rows(schema.blobs)) == 3, "two envelopes and one content"


@pytest.mark.spec("002 Load-bearing tables", "P1")
def test_a_thought_is_proved_by_the_stored_nodes_and_the_count_of_the_seal():
    world = World()
    seal = world.whole(thoughts=5)["seal"]
    nodes = {row["node_index"]: row["hash"] for row in world.rows(schema.merkle_nodes)}
    for row in world.rows(schema.thought_records):
        place = row["thought_sequence"] - 1
        path = eta_path(place, seal["leaf_count"], nodes.__getitem__)
        leaf, root = bytes.fromhex(row["content_hash"]), bytes.fromhex(seal["eta_root"])
        verify_eta_path(leaf, place, seal["leaf_count"], path, root)


@pytest.mark.spec("P4", "002 Integration with consensus (future)")
def test_seals_are_signed_and_the_column_takes_several_signers():
    world = World(Sealing(SIGNERS, round_sessions=1))
    root = world.whole()
    keys = [signer.verifier for signer in SIGNERS]
    assert check_signatures(root["seal"], root["signatures"]) == keys
    [sealed] = world.rows(schema.rounds)
    assert sealed["seal_bytes"] is not None
    assert not world.findings()


@pytest.mark.spec("002 Interaction with rounds")
def test_a_full_round_is_sealed_with_its_last_session_and_the_next_embeds_its_roots():
    world = World(Sealing(round_sessions=2))
    roots = [world.whole(name)["merkle_root"] for name in ("a", "b", "c")]
    first, second = world.rows(schema.rounds)
    assert (first["session_count"], second["session_count"]) == (2, 1)
    with bench_on(world.ledger) as context, refused("round_is_open"):
        OpenRoundUnit().run(context)
    sealed = world.run(SealRoundUnit(world.sealing))
    assert [entry["eta_root"] for entry in sealed["genesis"]["parents"]] == roots[:2]
    assert [entry["eta_root"] for entry in sealed["seal"]["sessions"]] == roots[2:]
    opened = world.run(OpenRoundUnit())
    assert opened["genesis"]["parent_seal_hash"] == seal_hash(sealed["seal"])
    assert opened["genesis"]["parents"] == sealed["seal"]["sessions"]
    assert not world.findings()


@pytest.mark.spec("002 Interaction with rounds")
def test_an_empty_round_is_not_sealed_and_an_open_session_goes_on_in_the_next():
    world = World()
    with refused("round_not_open"):
        world.run(SealRoundUnit(world.sealing))
    world.run(OpenRoundUnit())
    with refused("round_empty"):
        world.run(SealRoundUnit(world.sealing))
    world.start("early")
    world.think(1, "reflection", session_id="early")
    world.whole("other")
    world.run(SealRoundUnit(world.sealing))
    world.verify_chain("early")
    assert world.finalize("early")["seal"]["round_number"] == 2


@pytest.mark.spec("002 Interaction with rounds")
def test_a_round_is_sealed_for_its_age_where_it_has_a_session():
    world = World()
    due = SealDueRoundUnit(world.sealing, HOUR_US)
    assert world.run(due) is None
    world.run(OpenRoundUnit())
    world.host.time_us += 2 * HOUR_US
    assert world.run(due) is None
    world.whole()
    assert world.run(due)["seal"]["sealed_by"] == "time"
    assert world.run(due) is None
    assert not world.findings()
