"""Undoing what was undone: each operation's writes follow whether it is in effect (§5.2, K2).

`tests/properties/test_undoing.py` takes random courses beside a model; here stand those by which
operations once lost their writes, and what is refused.
"""

import itertools
import lzma
from contextlib import closing

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.schema import migrate
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.rules_version import RULES_VERSION
from kernel.records.rollback_marks import is_in_effect, mark_of
from kernel.replay.reproduce import reproduce_range
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_operation
from kernel.rollback.plan import plan_operation
from kernel.rollback.rebuild import plan_rebuild
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.verify import verify
from kernel.verify.undoings import undoings_that_differ
from tests.kernel.build import (
    FakeHost,
    adapt,
    code_of,
    create,
    effect,
    envelope,
    findings,
    submit,
)
from tests.kernel.every import own
from tests.ledgers.make import FOLDER

KERNEL = Kernel()

pytestmark = pytest.mark.spec("§5.2", "K2")


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "l.db")
    with closing(Ledger.create(store, FakeHost().host)) as made_ledger:
        yield made_ledger


def accept(ledger, document):
    assert code_of(submit(ledger, {**document}, submitter="orchestrator")) is None, document
    return document["operation_id"]


def undo(ledger, operation_id):
    with ledger.transaction() as transaction:
        return rollback_operation(KERNEL, transaction, operation_id).submission.operation_id


def refusal(ledger, operation_id):
    with pytest.raises(RollbackRefused) as caught:
        undo(ledger, operation_id)
    return caught.value


def node(ledger, node_id="n"):
    with ledger.view() as view:
        return view.node(node_id)


def sealing(node_id="n"):
    sealed = effect("visibility_change", node_id, visibility_class="sealed")
    return envelope("visibility_change", [sealed])


def member(verb, state):
    return envelope(verb, [effect("membership_write", "n", corpus_id="c", to_state=state)])


def brought_back_in_turn(ledger, first, second):
    """Write and undo one, write and undo another, and bring both back in that order."""
    undone = [undo(ledger, accept(ledger, document)) for document in (first, second)]
    return [undo(ledger, undoing) for undoing in undone]


# What is brought back


def test_bringing_back_both_brings_back_both(ledger):
    accept(ledger, create("n", "Note"))
    brought_back_in_turn(ledger, adapt("n", a=1), adapt("n", b=2))
    assert node(ledger)["payload"] == {"a": 1, "b": 2}
    assert node(ledger)["version"] == 3
    assert findings(ledger) == ()
    with ledger.view() as view:
        replayed = [*reproduce_range(view, 1, view.head().ec_sequence_number)]
        assert [replay.difference for replay in replayed if replay.difference] == []
        assert plan_rebuild(KERNEL, view, 0).differences == ()


def test_of_a_field_that_both_wrote_the_later_write_stands(ledger):
    accept(ledger, create("n", "Note"))
    brought_back_in_turn(ledger, adapt("n", a=1, b=1), adapt("n", b=2))
    assert node(ledger)["payload"] == {"a": 1, "b": 2}


def test_what_is_undone_does_not_come_back_with_something_else(ledger):
    accept(ledger, create("n", "Note"))
    first = accept(ledger, adapt("n", p=1))
    undoing = undo(ledger, accept(ledger, adapt("n", a=2)))
    undo(ledger, first)
    undo(ledger, undoing)
    assert node(ledger)["payload"] == {"a": 2}
    assert findings(ledger) == ()


def test_the_same_value_is_written_by_each_that_states_it(ledger):
    accept(ledger, create("n", "Note"))
    first = accept(ledger, adapt("n", a=1))
    undoing = undo(ledger, accept(ledger, adapt("n", a=1)))
    undo(ledger, first)
    undo(ledger, undoing)
    assert node(ledger)["payload"] == {"a": 1}


@pytest.mark.spec("§7.6")
def test_a_sealing_that_is_in_effect_seals(ledger):
    accept(ledger, create("n", "Note"))
    brought_back_in_turn(ledger, sealing(), adapt("n", b=2))
    assert (node(ledger)["visibility_class"], node(ledger)["payload"]) == ("sealed", {"b": 2})
    assert findings(ledger) == ()


@pytest.mark.spec("§4.3.3")
def test_a_rejection_that_is_in_effect_rejects(ledger):
    accept(ledger, create("n", "Note"))
    accept(ledger, member("corpus_membership_add", "candidate"))
    rejected = undo(ledger, accept(ledger, member("corpus_membership_reject", "rejected")))
    deferred = undo(ledger, accept(ledger, member("corpus_membership_defer", "candidate")))
    undo(ledger, rejected)
    # What was put off was a candidate, which it no longer is.
    assert refusal(ledger, deferred).code == "rollback_needs_what_is_undone"
    with ledger.view() as view:
        assert view.record(schema.corpus_membership_records, "c|n")["state"] == "rejected"
    assert findings(ledger) == ()


def test_what_rests_on_something_that_is_undone_waits_for_it(ledger):
    created = accept(ledger, create("n", "Note"))
    undoing = undo(ledger, accept(ledger, adapt("n", a=1)))
    gone = undo(ledger, created)
    assert refusal(ledger, undoing).code == "rollback_needs_what_is_undone"
    undo(ledger, gone)
    undo(ledger, undoing)
    assert node(ledger)["payload"] == {"a": 1}


@pytest.mark.spec("§4.3.17")
def test_a_policy_generation_does_not_come_back_where_another_has_its_place(ledger):
    def advance(name):
        return own("policy_snapshot_advance", name, prior_policy_generation_id="PG-1")

    undoing = undo(ledger, accept(ledger, advance("PG-a")))
    other = accept(ledger, advance("PG-b"))
    error = refusal(ledger, undoing)
    assert error.details["reason_code"] == "rollback_superseded_by_later_write"
    undo(ledger, other)
    undo(ledger, undoing)
    with ledger.view() as view:
        assert view.policy_generation_id() == "PG-a"
    assert findings(ledger) == ()


def test_a_plan_says_which_state_it_puts_back(ledger):
    accept(ledger, create("n", "Note"))
    first, second = (
        undo(ledger, accept(ledger, adapt("n", **fields))) for fields in ({"a": 1}, {"b": 2})
    )
    undo(ledger, first)
    with ledger.view() as view:
        [planned] = plan_operation(view, second).document()["operations"]
    undo(ledger, second)
    with ledger.view() as view:
        [applied, *_] = view.log_tail(1)
        query = TableQuery(
            schema.applied_effects, {"ec_sequence_number": applied["ec_sequence_number"]}
        )
        [effect_row, *_] = view.tables.scan(query)
    assert planned["effects"][-1]["restores"] == effect_row["post_image_hash"].hex()


# Who is in effect


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 25])
def test_a_chain_of_undoings_is_followed_to_its_end(ledger, length):
    accept(ledger, create("n", "Note"))
    earlier = accept(ledger, adapt("n", earlier=1))
    chain = [accept(ledger, adapt("n", a=1))]
    for _ in range(length):
        chain.append(undo(ledger, chain[-1]))
    stands = length % 2 == 0
    assert ("a" in node(ledger)["payload"]) == stands
    with ledger.view() as view:
        in_effect = [not mark_of(view, name)["undone_by"] for name in chain]
        assert is_in_effect(mark_of(view, chain[0])) == stands
    assert in_effect == [(length - place) % 2 == 0 for place in range(length + 1)]
    if stands:
        assert refusal(ledger, earlier).code == "rollback_superseded_by_later_write"
        undo(ledger, chain[0])
    else:
        assert refusal(ledger, chain[0]).code == "rollback_already_applied"
    undo(ledger, earlier)
    assert node(ledger)["payload"] == {}
    assert findings(ledger) == ()


def test_an_undoing_is_undone_once(ledger):
    accept(ledger, create("n", "Note"))
    undoing = undo(ledger, accept(ledger, adapt("n", a=1)))
    again = undo(ledger, undoing)
    error = refusal(ledger, undoing)
    assert (error.code, error.details) == (
        "rollback_already_applied",
        {"inverse_operation_id": again},
    )


def test_an_undoing_of_what_was_undone_otherwise_changes_nothing_and_is_refused(ledger):
    accept(ledger, create("n", "Note"))
    original = accept(ledger, adapt("n", a=1))
    back = undo(ledger, undo(ledger, original))
    undo(ledger, original)
    assert refusal(ledger, back).code == "rollback_superseded_by_later_write"


def test_what_informed_an_operation_does_not_go_by_the_undoing_of_its_return(ledger):
    original = accept(ledger, create("n", "Note"))
    back = undo(ledger, undo(ledger, original))
    citing = create("citing", "Note", envelope={"causal_parent_operation_ids": [original]})
    accept(ledger, citing)
    error = refusal(ledger, back)
    assert error.code == "rollback_still_referenced"
    assert error.details == {"informed_operation_ids": [citing["operation_id"]]}


def test_a_record_that_was_written_too_often_is_left_as_it_is(ledger, monkeypatch):
    monkeypatch.setattr("kernel.records.record_history.WRITES_MAX", 3)
    accept(ledger, create("n", "Note"))
    first, second = (
        undo(ledger, accept(ledger, adapt("n", **fields))) for fields in ({"a": 1}, {"b": 2})
    )
    assert refusal(ledger, first).code == "rollback_history_too_long"
    undo(ledger, second)


def test_an_inverse_that_puts_back_what_is_not_in_effect_is_refused(ledger):
    accept(ledger, create("n", "Note"))
    _, back = brought_back_in_turn(ledger, adapt("n", a=1), adapt("n", b=2))
    with ledger.view() as view:
        honest = view.envelope(back)
        stands = view.tables.get(schema.nodes, "n")["record"]
    forged = {**honest, "operation_id": "forged", "idempotency_key": "forged"}
    undone = honest["primitive_effects"][0]["undoes"]
    record = {**undone["restored_record"], "payload": {"stolen": 1}}
    forged["primitive_effects"] = [
        {
            **honest["primitive_effects"][0],
            "undoes": undone
            | {
                "restored_record": record,
                "restores_hash": hash_of(record),
                "replaces_hash": hash_of(stands),
            },
        },
        *honest["primitive_effects"][1:],
    ]
    result = submit(ledger, forged, submitter="orchestrator")
    assert code_of(result) == "envelope_effect_reversibility_invalid"


def hash_of(record):
    return sha256_hex(record if isinstance(record, bytes) else canonicalize(record))


# Version 1 of the rules


@pytest.fixture
def undone_by_version_1(tmp_path):
    """A ledger on which version 1 of the rules undid what it had undone."""
    path = tmp_path / "undone.db"
    path.write_bytes(lzma.decompress((FOLDER / "undone_1.sqlite.xz").read_bytes()))
    migrate(path)
    host = FakeHost()
    host.counter = itertools.count(1 << 20)
    with closing(Ledger.create(SqliteStore(path), host.host)) as ledger:
        yield ledger


@pytest.mark.spec("K30")
def test_what_version_1_put_back_verifies_and_is_named(undone_by_version_1):
    with undone_by_version_1.view() as view:
        verification = verify(view)
        named = [*undoings_that_differ(view)]
        wrote = {
            field: row["operation_id"]
            for row in view.log_rows()
            for stated in view.envelope(row["operation_id"])["primitive_effects"]
            for field in stated.get("payload", {})
        }
    assert verification.findings == ()
    assert verification.undoings_that_differ == tuple(named)
    assert [(entry.record_key, len(entry.lost), len(entry.brought_back)) for entry in named] == [
        ("lost", 1, 0),
        ("back", 0, 1),
        ("opened", 1, 0),
    ]
    assert named[1].brought_back == (wrote["p"],)
    assert named[2].lost == (wrote["visibility_class"],)


@pytest.mark.spec("K30")
def test_an_undoing_since_version_2_counts_who_is_in_effect_by_then(undone_by_version_1):
    ledger = undone_by_version_1
    accept(ledger, adapt("lost", c=3))
    last = accept(ledger, adapt("sound", c=3))
    with ledger.view() as view:
        [of_lost] = [row for row in view.log_tail(2) if row["operation_id"] != last]
    undo(ledger, of_lost["operation_id"])
    # Nothing was undone or brought back since it was written: what it replaced is put back.
    assert node(ledger, "lost")["payload"] == {"b": 2}
    with ledger.view() as view:
        assert verify(view).findings == ()
        assert [row["rules_version"] for row in view.log_tail(1)] == [RULES_VERSION]
