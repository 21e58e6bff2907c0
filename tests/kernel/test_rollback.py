"""Undoing in three tiers: what is undone, what is made up for, what persists, what is refused."""

import itertools
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from kernel.algebra.effects import EFFECT_KINDS
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.rollback.confirmation import LIFETIME_S, Confirmable, Confirmations
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_epoch, rollback_operation
from kernel.rollback.plan import plan_epoch, plan_operation
from kernel.rollback.rebuild import plan_rebuild, prepare_rebuild, rebuild, state_digest
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    FakeHost,
    adapt,
    belief_anchor,
    changed,
    code_of,
    create,
    drain,
    effect,
    envelope,
    everything,
    findings,
    link,
    submit,
)
from tests.kernel.every import HASH, every_kind, move, own, receipt, states

KEYS = Confirmations({"user": b"u" * 32, "architect": b"a" * 32})
KERNEL = Kernel()
ROOT = Path(__file__).parents[2]
LINK = {
    "recipient_email_hash": HASH,
    "shared_corpus_view_id": "view",
    "share_token_policy_id": "policy",
}


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "l.db")
    made_ledger = Ledger.create(store, FakeHost().host)
    yield made_ledger
    made_ledger.close()


def accept(ledger, *documents):
    for document in documents:
        # A copy: what its author has seen is another ledger's in another test.
        assert code_of(submit(ledger, {**document}, submitter="orchestrator")) is None, document
    return documents[-1]["operation_id"]


def undo(ledger, operation_id):
    with ledger.transaction() as transaction:
        return rollback_operation(KERNEL, transaction, operation_id)


def undo_epoch(ledger, epoch_id, token=None):
    with ledger.transaction() as transaction:
        return rollback_epoch(
            KERNEL, transaction, epoch_id, confirmations=KEYS, user_confirmation_token=token
        )


def token_for(ledger, plan, role="user", name="t1"):
    what = Confirmable(plan.tier, plan.scope, plan.digest)
    return KEYS.issue(role, what, confirmation_id=name, now_us=ledger.host.now_us())


def refused(ledger, do, *arguments):
    before = everything(ledger)
    with pytest.raises(RollbackRefused) as caught:
        do(ledger, *arguments)
    assert everything(ledger) == before
    return caught.value


def state(ledger):
    """Every record of state but the marks of undoing."""
    whole_state = everything(ledger)
    names = {str(table.name) for table in schema.STATE_TABLES}
    return {name: whole_state[name] for name in names}


def receipts(ledger, operation_id):
    with ledger.view() as view:
        return {
            stored_receipt["receipt_kind"]: stored_receipt
            for stored_receipt in view.receipts_of(operation_id)
        }


# Tier 1


@pytest.mark.spec("§5.2", "K2")
def test_an_inverse_leaves_the_bytes_that_were_there_before(ledger):
    accept(ledger, create("n", "Note", title="old"))
    before = state(ledger)
    operation_id = accept(ledger, adapt("n", title="new"))
    assert state(ledger) != before
    done = undo(ledger, operation_id)
    assert state(ledger) == before
    receipt = receipts(ledger, done.submission.operation_id)["tier_1_rollback"]
    assert receipt["original_operation_id"] == operation_id
    assert receipt["inverse_operation_id"] == done.submission.operation_id
    assert receipt["committed_at"] == done.submission.committed_at
    with ledger.view() as view:
        inverse = view.envelope(done.submission.operation_id)
    assert inverse["causal_parent_operation_ids"][0] == operation_id
    assert inverse["primitive_effects"][0]["effect_kind"] == "node_retract"
    assert inverse["primitive_effects"][0]["inverse_operation_kind"] == "node_write"
    assert findings(ledger) == ()


@pytest.mark.spec("§5.2")
def test_effects_are_undone_in_reverse_and_a_record_written_twice_goes_all_the_way_back(ledger):
    accept(ledger, create("n", "Note", title="old"))
    before = state(ledger)
    twice = [
        effect("node_write", "n", title=title) | {"effect_id": title} for title in ("one", "two")
    ]
    operation_id = accept(ledger, envelope("annotate", twice))
    done = undo(ledger, operation_id)
    with ledger.view() as view:
        undone = view.envelope(done.submission.operation_id)["primitive_effects"]
    assert [undoing["undoes"]["effect_id"] for undoing in undone[:2]] == ["two", "one"]
    assert state(ledger) == before
    assert findings(ledger) == ()


@pytest.mark.spec("K2")
def test_what_an_operation_made_is_gone_once_it_is_undone(ledger):
    before = state(ledger)
    operation_id = accept(ledger, create("n", "Note"))
    undo(ledger, operation_id)
    assert state(ledger) == before
    assert code_of(submit(ledger, create("n", "Note"))) is None


@pytest.mark.spec("K2")
def test_undoing_an_undoing_brings_back_what_it_undid_and_it_can_be_undone_anew(ledger):
    accept(ledger, create("n", "Note"))
    before = state(ledger)
    operation_id = accept(ledger, adapt("n", title="new"))
    after = state(ledger)
    first = undo(ledger, operation_id).submission.operation_id
    undo(ledger, first)
    assert state(ledger) == after
    second = undo(ledger, operation_id).submission.operation_id
    assert second != first
    assert state(ledger) == before
    assert findings(ledger) == ()


@pytest.mark.spec("K2")
def test_what_was_written_over_is_not_undone_until_that_is(ledger):
    accept(ledger, create("n", "Note"))
    before = state(ledger)
    first = accept(ledger, adapt("n", title="one"))
    second = accept(ledger, adapt("n", title="two"))
    error = refused(ledger, undo, first)
    assert error.code == "rollback_superseded_by_later_write"
    assert error.details == {"later_operation_ids": [second]}
    undo(ledger, second)
    undo(ledger, first)
    assert state(ledger) == before


@pytest.mark.spec("§5.2")
def test_an_operation_is_undone_once(ledger):
    accept(ledger, create("n", "Note"))
    operation_id = accept(ledger, adapt("n", title="new"))
    done = undo(ledger, operation_id)
    error = refused(ledger, undo, operation_id)
    assert error.code == "rollback_already_applied"
    assert error.details == {"inverse_operation_id": done.submission.operation_id}


def test_a_node_does_not_go_while_an_edge_leads_to_it(ledger):
    cu = create("cu", "ConsolidatedUnderstanding")
    claim = create("claim", "VersionedClaim", authority=0.5)
    edge = link("edge", "claim", "cu")
    accept(ledger, cu, claim, edge)
    error = refused(ledger, undo, claim["operation_id"])
    assert (error.code, error.details) == ("rollback_still_referenced", {"edge_ids": ["edge"]})
    undo(ledger, edge["operation_id"])
    undo(ledger, claim["operation_id"])
    assert findings(ledger) == ()


def test_what_informed_an_operation_in_effect_does_not_go_before_it(ledger):
    source = accept(ledger, create("source", "Note"))
    citing = create("citing", "Note", envelope={"causal_parent_operation_ids": [source]})
    accept(ledger, citing)
    error = refused(ledger, undo, source)
    assert error.code == "rollback_still_referenced"
    assert error.details == {"informed_operation_ids": [citing["operation_id"]]}
    undo(ledger, citing["operation_id"])
    undo(ledger, source)
    assert findings(ledger) == ()


class CountedSnapshot:
    """A snapshot that counts the rows that are read of it."""

    def __init__(self, tables):
        self.tables, self.rows_read = tables, 0

    def get(self, table, *key):
        self.rows_read += 1
        return self.tables.get(table, *key)

    def scan(self, query):
        rows = self.tables.scan(query)
        self.rows_read += len(rows)
        return rows


def test_undoing_a_create_reads_as_much_however_long_the_log_is(ledger):
    def rows_read():
        with ledger.view() as view:
            counted = CountedSnapshot(view.tables)
            plan_operation(LedgerView(counted), made)
        return counted.rows_read

    made = accept(ledger, create("n", "Note"))
    undone = create("citing", "Note", envelope={"causal_parent_operation_ids": [made]})
    undo(ledger, accept(ledger, undone))
    before = rows_read()
    accept(ledger, *(create(f"later-{number}", "Note") for number in range(50)))
    assert rows_read() == before


@pytest.mark.spec("INV-A-AUTHORITY-EAGER-1")
def test_undoing_asks_for_the_authorities_that_it_changes(ledger):
    accept(ledger, create("cu", "ConsolidatedUnderstanding"))
    accept(ledger, create("claim", "VersionedClaim", authority=0.5), link("edge", "claim", "cu"))
    drain(ledger, "a")
    operation_id = accept(ledger, adapt("claim", authority=1))
    drain(ledger, "b")
    undo(ledger, operation_id)
    assert drain(ledger, "c") == ["cu"]
    with ledger.view() as view:
        last = view.log_tail(1)[0]["operation_id"]
    # An authority that was taken back is computed again, and comes out the same.
    undo(ledger, last)
    assert drain(ledger, "d") == ["cu"]
    assert findings(ledger) == ()


def test_requests_for_an_understanding_that_is_undone_are_cancelled(ledger):
    operation_id = accept(ledger, create("cu", "ConsolidatedUnderstanding"))
    undo(ledger, operation_id)
    with ledger.view() as view:
        assert view.open_requests(queue=AUTHORITY_QUEUE) == []
        [outcome] = view.tables.scan(TableQuery(schema.outbox_outcomes))
    assert outcome["outcome"] == "cancelled"
    assert findings(ledger) == ()


@pytest.mark.spec("§2.4")
def test_an_inverse_reaches_no_further_than_a_nodes_neighbours(ledger):
    wide = {
        "scope_kind": "subgraph_within_corpus",
        "affected_node_refs": ["n"],
        "schema_version": 1,
    }
    accept(ledger, create("n", "Note"))
    changes = {"affected_subgraph_descriptor": wide}
    operation_id = accept(ledger, adapt("n", envelope_changes=changes, title="x"))
    assert refused(ledger, undo, operation_id).code == "tier_1_scope_too_wide"
    undo_epoch(ledger, operation_id)


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (envelope("search_run_record", [receipt(query="q")]), "rollback_nothing_to_undo"),
        (belief_anchor("s"), "rollback_of_belief_session"),
    ],
)
def test_some_operations_are_never_undone(ledger, document, code):
    assert refused(ledger, undo, accept(ledger, document)).code == code


def test_what_is_not_on_the_log_is_not_undone(ledger):
    assert refused(ledger, undo, "nothing").code == "operation_not_found"
    assert refused(ledger, undo_epoch, "nothing").code == "epoch_not_found"


@pytest.mark.spec("K2")
@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        ("operation_id", "nobody", "envelope_effect_reversibility_invalid"),
        ("effect_id", "nothing", "envelope_effect_reversibility_invalid"),
        ("record_key", "m", "envelope_effect_reversibility_invalid"),
        ("restores_hash", HASH, "envelope_effect_reversibility_invalid"),
        ("replaces_hash", HASH, "rollback_superseded_by_later_write"),
    ],
)
def test_a_forged_inverse_is_refused(ledger, path, value, code):
    accept(ledger, create("n", "Note"), create("m", "Note"))
    done = undo(ledger, accept(ledger, adapt("n", title="x")))
    with ledger.view() as view:
        honest = view.envelope(done.submission.operation_id)
    forged = changed(honest, {f"primitive_effects.0.undoes.{path}": value})
    own_id = {"operation_id": "forged", "idempotency_key": "forged"}
    assert code_of(submit(ledger, forged | own_id, submitter="orchestrator")) == code


@pytest.mark.spec("K2")
def test_a_state_that_is_not_on_record_cannot_be_put_back():
    store = MemoryStore()
    ledger = Ledger.create(store, FakeHost().host)
    accept(ledger, create("n", "Note"))
    operation_id = accept(ledger, adapt("n", title="x"))
    with store.transaction() as tables:
        [row] = tables.scan(TableQuery(schema.pre_images))
        tables.delete(schema.pre_images, row["content_hash"])
    error = refused(ledger, undo, operation_id)
    assert error.code == "rollback_refused"
    assert error.details["reason_code"] == "rollback_pre_image_missing"


@pytest.mark.spec("K2")
def test_undoing_restores_only_what_was_recorded():
    store = MemoryStore()
    ledger = Ledger.create(store, FakeHost().host)
    accept(ledger, create("n", "Note"))
    operation_id = accept(ledger, adapt("n", title="x"))
    with store.transaction() as tables:
        [row] = tables.scan(TableQuery(schema.pre_images))
        forged = row["content"].replace(b'"Note"', b'"Nota"')
        tables.update(schema.pre_images, (row["content_hash"],), {"content": forged})
    error = refused(ledger, undo, operation_id)
    assert error.code == "rollback_refused"
    assert error.details["reason_code"] == "rollback_pre_image_corrupt"
    with ledger.view() as view:
        assert view.node("n")["payload"]["title"] == "x"


# The decisions of §5.5


def materialized():
    return envelope(
        "document_materialize",
        [
            effect("materialize", "mat", materialized_path="a/b.pdf", content_hash=HASH),
            effect("index_update", "mat", index_name="i", entry={}),
        ],
    )


def shared():
    return envelope(
        "share_link_grant",
        [effect("share_link_grant", "link", **LINK), receipt(receipt_subkind="x")],
    )


@pytest.mark.spec("§5.5")
def test_a_single_node_write_is_undone_by_its_inverse(ledger):
    accept(ledger, create("n", "Note"))
    assert undo(ledger, accept(ledger, adapt("n", title="x")))


@pytest.mark.spec("§5.5")
def test_a_node_write_with_an_index_update_is_undone_by_its_inverse(ledger):
    accept(ledger, create("n", "Note"))
    before = state(ledger)
    note = effect("node_write", "n", title="x")
    index = effect("index_update", "n", index_name="i", entry={"t": "x"})
    undo(ledger, accept(ledger, envelope("annotate", [note, index])))
    assert state(ledger) == before


@pytest.mark.spec("§5.5", "INV-A-ROLLBACK-1")
def test_a_materialization_is_undone_at_tier_2_as_far_as_it_goes(ledger):
    operation_id = accept(ledger, materialized())
    error = refused(ledger, undo, operation_id)
    assert error.code == "tier_1_requires_all_fully_reversible"
    assert [
        irreversible_effect["effect_kind"]
        for irreversible_effect in error.details["irreversible_effects"]
    ] == ["materialize"]
    with ledger.view() as view:
        plan = plan_epoch(view, operation_id)
    done = undo_epoch(ledger, operation_id, token_for(ledger, plan))
    with ledger.view() as view:
        assert view.record(schema.derived_indexes, "i|mat") is None
        assert view.record(schema.materializations, "mat")["state"] == "active"
    emitted = receipts(ledger, done.submission.operation_id)
    persists = emitted["rollback_partial_external_effect_persists"]
    assert persists["descriptors"] == ["materialize at mat"]
    assert persists["epoch_id"] == operation_id
    assert findings(ledger) == ()


@pytest.mark.spec("§5.5", "INV-A-ROLLBACK-1")
def test_a_share_link_is_rolled_back_only_with_the_users_word(ledger):
    grant = own("share_link_grant", "link", **LINK)
    operation_id = accept(ledger, grant)
    code = "tier_1_requires_all_fully_reversible"
    assert refused(ledger, undo, operation_id).code == code
    error = refused(ledger, undo_epoch, operation_id)
    assert error.code == "confirmation_required"
    assert error.details["role"] == "user"


@pytest.mark.spec("§5.5", "K22")
def test_an_epoch_of_reversible_operations_needs_nobodys_word(ledger):
    before = state(ledger)
    accept(
        ledger,
        states("epoch_open", "epoch_opened", epoch_id="e"),
        create("n", "Note") | {"epoch_id": "e"},
        adapt("n", title="x") | {"epoch_id": "e"},
    )
    assert refused(ledger, undo_epoch, "e").code == "rollback_epoch_open"
    accept(ledger, states("epoch_close", "epoch_closed", epoch_id="e"))
    done = undo_epoch(ledger, "e")
    assert state(ledger) == before
    assert len(done.inverse_operation_ids) == 2
    assert refused(ledger, undo_epoch, "e").code == "rollback_already_applied"
    assert findings(ledger) == ()


@pytest.mark.spec("§5.2", "K21")
def test_what_undoing_an_operation_came_to_says_which_and_by_which(ledger):
    accept(ledger, create("n", "Note"))
    original = accept(ledger, adapt("n", title="x"))
    done = undo(ledger, original)
    assert done.document() == {
        "result": "tier_1_rollback_applied",
        "original_operation_id": original,
        "inverse_operation_id": done.submission.operation_id,
        "submission": done.submission.document(),
    }
    with ledger.view() as view:
        inverse = view.envelope(done.submission.operation_id)
    [undone] = [load for load in inverse["primitive_effects"] if "undoes" in load]
    assert undone["target_ref"] == "n"


@pytest.mark.spec("§5.3", "K2")
def test_an_operation_that_is_an_epoch_by_itself_is_not_undone_before_what_was_written_since(
    ledger,
):
    accept(ledger, create("n", "Note"))
    first = accept(ledger, adapt("n", title="x"))
    later = accept(ledger, adapt("n", title="y"))
    error = refused(ledger, undo_epoch, first)
    assert error.code == "rollback_superseded_by_later_write"
    assert error.details["later_operation_ids"] == [later]


@pytest.mark.spec("§5.3")
def test_an_epoch_in_which_nothing_was_done_has_nothing_to_undo(ledger):
    opened = states("epoch_open", "epoch_opened", epoch_id="e")
    accept(ledger, opened, states("epoch_close", "epoch_closed", epoch_id="e"))
    assert refused(ledger, undo_epoch, "e").code == "rollback_nothing_to_undo"


@pytest.mark.spec("§5.2")
@pytest.mark.parametrize("undoing", [undo, undo_epoch])
def test_what_was_erased_cannot_be_undone(ledger, undoing):
    original = accept(ledger, create("n", "Note"))
    with ledger.transaction() as transaction:
        row = transaction.log_row_of(original)
        transaction.tables.delete(schema.blobs, row["envelope_payload_blob_ref"])
    assert refused(ledger, undoing, original).code == "envelope_erased"


# An epoch in pages


@pytest.fixture
def paged(ledger, monkeypatch):
    """A ledger with a closed epoch of five operations, of which a page takes two."""
    monkeypatch.setattr("kernel.rollback.plan.PAGE_OPERATIONS_MAX", 2)
    undoable(ledger)
    return ledger


def write_epoch(ledger, *, outside=False):
    inside = [
        create("n-0", "Note"),
        create("n-1", "Note"),
        link("edge", "n-0", "n-1"),
        adapt("before", title="new"),
        adapt("n-1", title="x"),
    ]
    if outside:
        inside[1:1] = [own("share_link_grant", "link", **LINK)]
    opened = states("epoch_open", "epoch_opened", epoch_id="e")
    closed = states("epoch_close", "epoch_closed", epoch_id="e")
    accept(ledger, opened, *(document | {"epoch_id": "e"} for document in inside), closed)


def undoable(ledger, **inside):
    """Write a record and then the epoch that changes it."""
    accept(ledger, create("before", "Note", title="kept"))
    write_epoch(ledger, **inside)


def under_way(ledger):
    with ledger.view() as view:
        return view.rollback_under_way()


@pytest.mark.spec("§5.3")
def test_an_epoch_goes_back_in_pages_and_says_what_is_left(paged):
    with paged.view() as view:
        whole = plan_epoch(view, "e")
    for page, left in enumerate((3, 1), start=1):
        done = undo_epoch(paged, "e")
        document = done.document()
        assert document["result"] == "tier_2_rollback_under_way"
        assert (document["page"], document["operations_left"]) == (page, left)
        receipt = receipts(paged, done.submission.operation_id)["tier_2_rollback"]
        assert (receipt["page"], receipt["operations_left"]) == (page, left)
        assert receipt["plan_digest"] == whole.digest
        assert under_way(paged)["operations_left"] == left
        with paged.view() as view:
            planned = plan_epoch(view, "e")
        assert (planned.digest, planned.page) == (whole.digest, page + 1)
        assert findings(paged) == ()
    document = undo_epoch(paged, "e").document()
    assert (document["result"], document["operations_left"]) == ("tier_2_rollback_applied", 0)
    assert under_way(paged) is None
    with paged.view() as view:
        assert view.node("n-0") is None
        assert view.node("before")["payload"]["title"] == "kept"
    assert refused(paged, undo_epoch, "e").code == "rollback_already_applied"
    assert findings(paged) == ()


@pytest.mark.spec("§5.3")
@pytest.mark.parametrize("size", [2, 100])
def test_pages_come_to_what_one_transaction_comes_to(ledger, monkeypatch, size):
    monkeypatch.setattr("kernel.rollback.plan.PAGE_OPERATIONS_MAX", size)
    accept(ledger, create("before", "Note", title="kept"))
    before = state(ledger)
    write_epoch(ledger)
    while undo_epoch(ledger, "e").operations_left:
        pass
    assert state(ledger) == before


@pytest.mark.spec("§5.3")
def test_a_page_names_no_more_than_its_envelope_holds(ledger, monkeypatch):
    monkeypatch.setattr("kernel.rollback.plan.PAGE_BYTES_MAX", 0)
    undoable(ledger)
    pages = 1
    while undo_epoch(ledger, "e").operations_left:
        pages += 1
    assert pages == 5
    assert findings(ledger) == ()


@pytest.mark.spec("K17")
def test_the_word_for_the_whole_is_given_once_and_persists_are_named_by_their_page(
    ledger, monkeypatch
):
    monkeypatch.setattr("kernel.rollback.plan.PAGE_OPERATIONS_MAX", 2)
    undoable(ledger, outside=True)
    assert refused(ledger, undo_epoch, "e").code == "confirmation_required"
    with ledger.view() as view:
        plan = plan_epoch(view, "e")
    assert plan.needs_user_confirmation
    assert plan.persists == []
    first = undo_epoch(ledger, "e", token_for(ledger, plan))
    second, third = undo_epoch(ledger, "e"), undo_epoch(ledger, "e")
    assert [len(undone.persistent_external_effects) for undone in (first, second, third)] == [
        0,
        0,
        1,
    ]
    words = {
        receipts(ledger, undone.submission.operation_id)["tier_2_rollback"][
            "user_confirmation_token"
        ]
        for undone in (first, second, third)
    }
    assert words == {"t1"}
    assert findings(ledger) == ()


@pytest.mark.spec("§5.3", "K2")
def test_nothing_comes_into_the_way_of_a_rollback_that_is_under_way(paged):
    accept(paged, create("other", "Note"))
    with paged.view() as view:
        made = view.epoch_rows("e", limit=9)[-2]["operation_id"]
        adapted = view.epoch_rows("e", limit=9)[2]["operation_id"]
    done = undo_epoch(paged, "e")
    in_the_way = [
        adapt("n-0", title="y"),
        link("late", "other", "n-0"),
        create("informed", "Note", envelope={"causal_parent_operation_ids": [made]}),
    ]
    for document in in_the_way:
        assert code_of(submit(paged, document)) == "rollback_under_way"
    error = refused(paged, undo, done.inverse_operation_ids[0])
    assert error.details["reason_code"] == "rollback_under_way"
    assert refused(paged, undo, made).code == "rollback_under_way"
    assert refused(paged, undo, adapted).code == "rollback_under_way"
    other = accept(paged, adapt("other", title="z"))
    assert refused(paged, undo_epoch, other).code == "rollback_under_way"
    while undo_epoch(paged, "e").operations_left:
        pass
    # What would have been in the way may be done once nothing is left, and what rests on something
    # that is undone comes back after it.
    error = refused(paged, undo, done.inverse_operation_ids[0])
    assert error.code == "rollback_needs_what_is_undone"
    undo(paged, done.inverse_operation_ids[1])
    assert findings(paged) == ()


_TWO_PAGES_AND_NO_MORE = """
import itertools, os, pathlib, signal, sys
from kernel.rollback import plan
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import FakeHost
from tests.kernel.test_rollback import undo_epoch

plan.PAGE_OPERATIONS_MAX = 2
host = FakeHost()
host.counter = itertools.count(1 << 20)
ledger = Ledger.create(SqliteStore(pathlib.Path(sys.argv[1])), host.host)
undo_epoch(ledger, "e")
SqliteStore.transaction = lambda _: os.kill(os.getpid(), signal.SIGKILL)
undo_epoch(ledger, "e")
"""


@pytest.mark.spec("§5.3")
def test_a_process_that_is_killed_between_pages_leaves_the_rest_to_another(tmp_path, monkeypatch):
    path = tmp_path / "l.db"
    ledger = Ledger.create(SqliteStore(path), FakeHost().host)
    undoable(ledger)
    ledger.close()
    command = [sys.executable, "-c", _TWO_PAGES_AND_NO_MORE, str(path)]
    killed = subprocess.run(command, check=False, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    monkeypatch.setattr("kernel.rollback.plan.PAGE_OPERATIONS_MAX", 2)
    host = FakeHost()
    host.counter = itertools.count(1 << 30)
    ledger = Ledger.create(SqliteStore(path), host.host)
    assert under_way(ledger)["operations_left"] == 3
    pages = [undo_epoch(ledger, "e").page for _ in range(2)]
    assert pages == [2, 3]
    assert under_way(ledger) is None
    assert findings(ledger) == ()
    ledger.close()


# Compensations


def joined():
    return envelope("corpus_membership_add", [effect("membership_write", "n", corpus_id="c")])


def quarantined():
    return own("quarantine", "n", quarantine_reason="doubt")


CONFIRMED = move("n", "candidate", "confirmed", "user_confirm_event")


@pytest.mark.spec("§5.3")
@pytest.mark.parametrize(
    ("prepare", "document", "table", "key", "expected"),
    [
        ([], quarantined(), schema.nodes, "n", "active"),
        (
            [quarantined()],
            own("unquarantine", "n", quarantine_reason="none"),
            schema.nodes,
            "n",
            "quarantined",
        ),
        ([], CONFIRMED, schema.corpus_membership_records, "c|n", "candidate"),
        (
            [],
            move("n", "candidate", "rejected", "user_reject_event"),
            schema.corpus_membership_records,
            "c|n",
            "candidate",
        ),
        (
            [CONFIRMED],
            move("n", "confirmed", "soft_deleted", "user_delete_event"),
            schema.corpus_membership_records,
            "c|n",
            "confirmed",
        ),
        (
            [CONFIRMED],
            move("n", "confirmed", "policy_blocked", "policy_change_blocking"),
            schema.corpus_membership_records,
            "c|n",
            "confirmed",
        ),
    ],
)
def test_what_cannot_be_undone_is_made_up_for(ledger, prepare, document, table, key, expected):
    accept(ledger, create("n", "Note"))
    accept(ledger, joined())
    accept(ledger, *prepare, document)
    named = document["primitive_effects"][0]["compensating_operation_kind"]
    with ledger.view() as view:
        [step] = plan_epoch(view, document["operation_id"]).document()["operations"]
    assert (step["effects"][0]["outcome"], step["effects"][0]["by"]) == ("compensated", named)
    done = undo_epoch(ledger, document["operation_id"])
    with ledger.view() as view:
        assert view.record(table, key)["state"] == expected
    [compensation] = done.compensations_applied
    assert compensation["original_operation_id"] == document["operation_id"]
    assert compensation["compensating_operation_kind"] == named
    tier_2 = receipts(ledger, done.submission.operation_id)["tier_2_rollback"]
    assert tier_2["compensations_applied"] == [compensation]
    assert findings(ledger) == ()


@pytest.mark.spec("§5.3")
def test_access_is_taken_back_and_a_revoked_link_comes_back_as_another(ledger):
    accept(ledger, create("n", "Note"))
    granted = accept(ledger, own("authorize_access", "n", grantee="u"))
    undo_epoch(ledger, granted)
    with ledger.view() as view:
        assert view.node("n")["payload"]["authorized_access"] == []
    accept(ledger, own("share_link_grant", "link", **LINK))
    revoked = accept(ledger, own("share_link_revoke", "link", revocation_reason="left"))
    undo_epoch(ledger, revoked)
    with ledger.view() as view:
        assert view.record(schema.share_links, "link")["state"] == "revoked"
        assert view.record(schema.share_links, f"link:anew:{revoked}")["state"] == "active"
    assert findings(ledger) == ()


@pytest.mark.spec("§5.3")
def test_access_that_was_taken_back_is_given_again(ledger):
    accept(ledger, create("n", "Note"), own("authorize_access", "n", grantee="u"))
    undo_epoch(ledger, accept(ledger, own("revoke_access", "n", grantee="u")))
    with ledger.view() as view:
        assert view.node("n")["payload"]["authorized_access"] == ["u"]
    assert findings(ledger) == ()


@pytest.mark.spec("§5.2")
def test_a_node_goes_with_the_edge_that_the_same_operation_wrote(ledger):
    [edge] = link("e", "n", "n")["primitive_effects"]
    undo(ledger, accept(ledger, create("n", "Note", edge)))
    with ledger.view() as view:
        assert view.node("n") is None
        assert view.record(schema.edges, "e") is None
    assert findings(ledger) == ()


@pytest.mark.spec("§5.3", "K2")
def test_what_lies_below_a_compensation_in_the_same_epoch_is_undone_too(ledger):
    accept(ledger, create("n", "Note"))
    before = state(ledger)
    accept(
        ledger,
        states("epoch_open", "epoch_opened", epoch_id="e"),
        joined() | {"epoch_id": "e"},
        CONFIRMED | {"epoch_id": "e"},
        states("epoch_close", "epoch_closed", epoch_id="e"),
    )
    undo_epoch(ledger, "e")
    kept = "membership_state_transitions"  # what happened is not made undone
    assert {name for name, rows in state(ledger).items() if rows != before[name]} == {kept}
    assert findings(ledger) == ()


@pytest.mark.spec("§5.3")
def test_an_epoch_is_undone_whole_or_not_at_all(ledger):
    accept(ledger, create("n", "Note"))
    accept(
        ledger,
        states("epoch_open", "epoch_opened", epoch_id="e"),
        quarantined() | {"epoch_id": "e"},
        create("m", "Note") | {"epoch_id": "e"},
        states("epoch_close", "epoch_closed", epoch_id="e"),
        own("unquarantine", "n", quarantine_reason="none"),
    )
    error = refused(ledger, undo_epoch, "e")
    assert (error.code, error.details["check"]) == ("rollback_refused", "apply")
    assert error.details["reason_code"] == "node_state_disallowed"


@pytest.mark.spec("§5.3")
@pytest.mark.parametrize(("operations", "code"), [(1, None), (2, "rollback_epoch_too_large")])
def test_an_epoch_larger_than_its_limit_is_refused_before_anything_is_undone(
    ledger, monkeypatch, operations, code
):
    # What opens an epoch and what closes it are looked at too.
    monkeypatch.setattr("kernel.rollback.plan.EPOCH_OPERATIONS_MAX", 3)
    names = [f"n-{number}" for number in range(operations)]
    accept(
        ledger,
        states("epoch_open", "epoch_opened", epoch_id="e"),
        *(create(name, "Note") | {"epoch_id": "e"} for name in names),
        states("epoch_close", "epoch_closed", epoch_id="e"),
    )
    if code is None:
        undo_epoch(ledger, "e")
    else:
        assert refused(ledger, undo_epoch, "e").code == code


def test_a_page_counts_room_for_every_compensation_that_it_emits(ledger):
    accept(ledger, create("n", "Note"))
    with ledger.view() as view:
        [step] = plan_epoch(view, accept(ledger, quarantined())).steps
    without = replace(step, effects=())
    thrice = replace(step, effects=step.effects * 3)
    assert thrice.named_bytes - without.named_bytes == 3 * 256


# Confirmations


@pytest.fixture
def file_and_token(ledger):
    operation_id = accept(ledger, materialized())
    with ledger.view() as view:
        plan = plan_epoch(view, operation_id)
    return operation_id, plan


@pytest.mark.spec("K17")
def test_a_token_confirms_once(ledger, file_and_token):
    operation_id, plan = file_and_token
    token = token_for(ledger, plan)
    undo_epoch(ledger, operation_id, token)
    assert refused(ledger, undo_epoch, operation_id, token).code == "rollback_already_applied"
    again = accept(ledger, materialized() | {"operation_id": "again"})
    with ledger.view() as view:
        same_id = token_for(ledger, plan_epoch(view, again))
    assert refused(ledger, undo_epoch, again, same_id).code == "confirmation_used"


@pytest.mark.spec("K17")
def test_a_token_of_another_role_plan_time_or_key_confirms_nothing(ledger, file_and_token):
    operation_id, plan = file_and_token
    architect = token_for(ledger, plan, role="architect")
    assert refused(ledger, undo_epoch, operation_id, architect).code == "confirmation_invalid"
    now_us = ledger.host.now_us()
    what = Confirmable(plan.tier, plan.scope, plan.digest)
    other = KEYS.issue("user", Confirmable(2, plan.scope, HASH), confirmation_id="t", now_us=now_us)
    code = "confirmation_of_something_else"
    assert refused(ledger, undo_epoch, operation_id, other).code == code
    late = KEYS.issue("user", what, confirmation_id="t", now_us=now_us - LIFETIME_S * 1_000_000)
    assert refused(ledger, undo_epoch, operation_id, late).code == "confirmation_expired"
    forger = Confirmations({"user": b"x" * 32})
    forged = forger.issue("user", what, confirmation_id="t", now_us=now_us)
    good = token_for(ledger, plan)
    content, _, signature = good.partition(".")
    for bad in (
        forged,
        "",
        ".",
        "no token",
        "é.é",
        content,
        f"{content}.{signature[:-4]}",
        "x" * 9999,
    ):
        assert refused(ledger, undo_epoch, operation_id, bad).code == "confirmation_invalid"
    with pytest.raises(RollbackRefused, match="no key"):
        Confirmations({}).issue("user", what, confirmation_id="t", now_us=now_us)


@pytest.mark.spec("K17")
def test_a_token_confirms_for_a_quarter_of_an_hour(file_and_token):
    _, plan = file_and_token
    what = Confirmable(plan.tier, plan.scope, plan.digest)
    token = KEYS.issue("user", what, confirmation_id="t", now_us=0)
    assert KEYS.check("user", token, what, now_us=15 * 60 * 1_000_000 - 1) == "t"
    with pytest.raises(RollbackRefused) as caught:
        KEYS.check("user", token, what, now_us=15 * 60 * 1_000_000)
    assert caught.value.code == "confirmation_expired"


@pytest.mark.spec("K17")
def test_keys_are_long_enough_and_differ():
    with pytest.raises(ValueError, match="at least"):
        Confirmations({"user": b"short"})
    with pytest.raises(ValueError, match="own"):
        Confirmations({"user": b"k" * 32, "architect": b"k" * 32})


@pytest.mark.spec("K21")
def test_a_dry_run_says_what_happens_and_its_digest_changes_with_it(ledger, file_and_token):
    operation_id, plan = file_and_token
    document = plan.document()
    [step] = document["operations"]
    outcomes = [(load["outcome"], load["by"]) for load in step["effects"]]
    assert outcomes == [("undone", "index_revert"), ("persists", None)]
    assert document["needs_user_confirmation"]
    assert document["persists"] == plan.persists
    assert step["operation_id"] == operation_id
    places = [(load["store"], load["record_key"]) for load in step["effects"]]
    assert places == [("derived_indexes", "i|mat"), ("materializations", "mat")]
    assert orjson.loads(orjson.dumps(document)) == document
    grant = accept(ledger, own("share_link_grant", "link", **LINK))
    with ledger.view() as view:
        assert plan_epoch(view, operation_id).digest == plan.digest
        assert plan_epoch(view, grant).digest != plan.digest
    summary = accept(ledger, create("cu", "ConsolidatedUnderstanding"))
    with ledger.view() as view:
        [step] = plan_epoch(view, summary).document()["operations"]
    outcomes = {load["effect_kind"]: load["outcome"] for load in step["effects"]}
    assert outcomes["receipt_only"] == "stays"


# Tier 3


def build_again(ledger, checkpoint=0, *, archived=None):
    with ledger.view() as view:
        prepared = prepare_rebuild(KERNEL, view, checkpoint)
    return replace_what_differs(ledger, prepared, archived)


def replace_what_differs(ledger, prepared, archived=None):
    token = token_for(ledger, _tier_3(prepared.plan), role="architect", name="t3")
    with closing(prepared), ledger.transaction() as transaction:
        return rebuild_by(transaction, prepared, token, archived)


def rebuild_by(transaction, prepared, token, archived=None):
    return rebuild(
        KERNEL,
        transaction,
        prepared,
        confirmations=KEYS,
        architect_confirmation_token=token,
        archive=(archived if archived is not None else []).append,
    )


class _tier_3:  # noqa: N801 - what a token needs of a plan
    def __init__(self, plan):
        self.tier, self.scope, self.digest = 3, plan.scope, plan.digest


@pytest.mark.spec("§5.4")
def test_a_state_that_the_log_gives_is_proved_and_left_as_it_is(ledger):
    accept(ledger, *every_kind())
    before = everything(ledger)
    archived = []
    done = build_again(ledger, archived=archived)
    after = everything(ledger)
    assert {name for name in after if after[name] != before[name]} <= {
        *("kernel_event_log", "applied_effects", "blobs", "chain_head"),
        *("idempotency_records", "receipts", "daily_operation_counts"),
    }
    assert done.plan.differences == ()
    assert archived == []
    receipt = receipts(ledger, done.submission.operation_id)["tier_3_rebuild"]
    assert "t3" in receipt["architect_confirmation_token"]
    assert receipt["restored_at"] == done.submission.committed_at
    skipped = {skipped_effect["effect_kind"] for skipped_effect in receipt["irreversible_skipped"]}
    irreversible = {
        name
        for name, kind in EFFECT_KINDS.items()
        if kind.reversibility == "irreversible_external_effect"
    }
    assert skipped == irreversible
    assert all(skipped_effect["skipped_at"] for skipped_effect in receipt["irreversible_skipped"])
    assert findings(ledger) == ()


@pytest.mark.spec("§5.4")
def test_a_damaged_state_is_archived_and_built_again(ledger):
    accept(ledger, *every_kind())
    honest = everything(ledger)
    with ledger.transaction() as transaction:
        node = transaction.tables.get(schema.nodes, "n")
        transaction.tables.put(schema.nodes, node | {"record": b"{}"})
        transaction.tables.delete(schema.nodes, "m")
        transaction.tables.put(schema.nodes, node | {"node_id": "invented"})
        digest = state_digest(transaction.tables)
    assert findings(ledger) != ()
    archived = []
    done = build_again(ledger, 3, archived=archived)
    assert done.plan.state_digest != digest
    assert everything(ledger)["nodes"] == honest["nodes"]
    [content] = archived
    kept = {load["record_key"]: load for load in orjson.loads(content)}
    assert set(kept) == {"n", "m", "invented"}
    assert kept["m"]["stored"] is None
    assert kept["invented"]["log_gives"] is None
    assert bytes.fromhex(kept["n"]["stored"]["record"]) == b"{}"
    receipt = receipts(ledger, done.submission.operation_id)["tier_3_rebuild"]
    assert receipt["records_replaced"] == 3
    assert done.document() == {
        "result": "tier_3_rebuild_applied",
        "checkpoint_ec_sequence_number": "3",
        "irreversible_skipped": list(done.plan.irreversible_skipped),
        "records_replaced": 3,
        "state_digest": done.plan.state_digest,
        "submission": done.submission.document(),
    }
    assert findings(ledger) == ()


@pytest.mark.spec("§5.4")
def test_a_dry_run_of_a_rebuild_says_what_differs_and_what_stays_outside(ledger):
    accept(ledger, create("n", "Note"), materialized())
    with ledger.transaction() as transaction:
        transaction.tables.delete(schema.nodes, "n")
    with ledger.view() as view, closing(prepare_rebuild(KERNEL, view, 1)) as prepared:
        plan = prepared.plan
    [skipped] = plan.irreversible_skipped
    assert plan.document() == {
        "tier": 3,
        "scope": "checkpoint:1",
        "digest": plan.digest,
        "checkpoint_ec_sequence_number": "1",
        "state_digest": plan.state_digest,
        "irreversible_skipped": [skipped],
        "differences": [{"store": "nodes", "record_key": "n"}],
    }
    assert skipped["effect_kind"] == "materialize"


@pytest.mark.spec("§5.4")
def test_a_head_that_does_not_hold_is_no_ground_to_build_on(ledger):
    accept(ledger, create("n", "Note"))
    with ledger.transaction() as transaction:
        transaction.head_now.committed_at_us -= 1
    error = refused(ledger, build_again)
    assert error.code == "rebuild_record_damaged"
    assert "chain_head" in str(error)


@pytest.mark.spec("§5.4")
def test_what_is_written_while_the_state_is_built_again_stays_written(ledger):
    accept(ledger, create("n", "Note"), create("m", "Note", title="old"), create("gone", "Note"))
    with ledger.transaction() as transaction:
        row = transaction.tables.get(schema.nodes, "n")
        transaction.tables.put(schema.nodes, row | {"record": b"{}"})
        transaction.tables.delete(schema.nodes, "gone")
    with ledger.view() as view:
        prepared = prepare_rebuild(KERNEL, view, 0)
    token_plan = prepared.plan
    accept(ledger, create("later", "Note"), adapt("m", title="new"), materialized())
    code_of(submit(ledger, "nonsense"))
    with ledger.transaction() as transaction:
        row = transaction.tables.get(schema.nodes, "later")
        transaction.tables.put(schema.nodes, row | {"record": b"{}"})
    done = replace_what_differs(ledger, prepared)
    assert {difference.key for difference in token_plan.differences} == {"n", "gone"}
    assert {difference.key for difference in done.plan.differences} == {"n", "gone", "later"}
    skipped = [skipped_effect["effect_kind"] for skipped_effect in done.plan.irreversible_skipped]
    assert skipped == ["materialize"]
    with ledger.view() as view:
        assert view.node("m")["payload"]["title"] == "new"
        assert view.node("gone") is not None
    assert findings(ledger) == ()


@pytest.mark.spec("§5.4")
def test_a_history_that_was_appended_and_does_not_hold_is_no_ground_to_build_on():
    store = MemoryStore()
    ledger = Ledger.create(store, FakeHost().host)
    accept(ledger, create("n", "Note"))
    with ledger.view() as view:
        prepared = prepare_rebuild(KERNEL, view, 0)
    accept(ledger, create("m", "Note"))
    with store.transaction() as tables:
        content = tables.get(schema.kernel_event_log, 2)["row_bytes"]
        tables.update(schema.kernel_event_log, (2,), {"row_bytes": content + b" "})
    error = refused(ledger, replace_what_differs, prepared)
    assert error.code == "rebuild_record_damaged"


@pytest.mark.spec("§5.4")
def test_what_was_read_of_a_damaged_state_is_forgotten_when_it_is_built_again(ledger):
    accept(ledger, create("n", "Note"))
    with ledger.view() as view:
        honest = view.policy_row()
    forged = {"epoch_id": "e", "record": b'{"epoch_id":"e"}'}
    with ledger.transaction() as transaction:
        changed_row = honest | {"record": honest["record"].replace(b"{", b'{"a":1,', 1)}
        transaction.tables.put(schema.policy_snapshots, changed_row)
        transaction.tables.put(schema.rollbacks_under_way, forged)
    with ledger.view() as view:
        prepared = prepare_rebuild(KERNEL, view, 0)
    token = token_for(ledger, _tier_3(prepared.plan), role="architect")
    with closing(prepared), ledger.transaction() as transaction:
        assert transaction.policy_row() == changed_row
        assert transaction.rollback_under_way() == {"epoch_id": "e"}
        done = rebuild_by(transaction, prepared, token)
        assert transaction.policy_row() == honest
        assert transaction.rollback_under_way() is None
    assert done.document() == {
        "result": "tier_3_rebuild_applied",
        "checkpoint_ec_sequence_number": "0",
        "irreversible_skipped": [],
        "records_replaced": 2,
        "state_digest": prepared.plan.state_digest,
        "submission": done.submission.document(),
    }


@pytest.mark.spec("§5.4")
def test_no_more_effects_outside_are_passed_over_than_a_receipt_holds(ledger, monkeypatch):
    monkeypatch.setattr("kernel.rollback.rebuild.SKIPPED_MAX", 2)
    grants = [own("share_link_grant", f"link-{number}", **LINK) for number in range(3)]
    accept(ledger, *grants[:2])
    with ledger.view() as view:
        assert len(plan_rebuild(KERNEL, view, 0).irreversible_skipped) == 2
    accept(ledger, grants[2])
    with ledger.view() as view, pytest.raises(RollbackRefused) as caught:
        plan_rebuild(KERNEL, view, 0)
    assert caught.value.code == "rebuild_too_much_skipped"


@pytest.mark.spec("§5.4", "K19")
def test_building_again_asks_nobody_to_do_anything_outside(ledger):
    accept(ledger, materialized(), own("share_link_grant", "link", **LINK))
    before = everything(ledger)["outbox"]
    build_again(ledger, 1)
    assert everything(ledger)["outbox"] == before


@pytest.mark.spec("§5.4", "K17")
def test_building_again_needs_the_architect(ledger):
    accept(ledger, create("n", "Note"))
    with ledger.view() as view:
        users = token_for(ledger, _tier_3(plan_rebuild(KERNEL, view, 0)))

    def build(ledger, token, checkpoint=0):
        with ledger.view() as view:
            prepared = prepare_rebuild(KERNEL, view, checkpoint)
        with closing(prepared), ledger.transaction() as transaction:
            rebuild_by(transaction, prepared, token)

    assert refused(ledger, build, None).code == "tier_3_requires_architect"
    assert refused(ledger, build, users).code == "confirmation_invalid"
    assert refused(ledger, build, None, 2).code == "rebuild_checkpoint_unknown"


@pytest.mark.spec("§5.4")
def test_a_history_that_does_not_hold_is_no_ground_to_build_on():
    store = MemoryStore()
    ledger = Ledger.create(store, FakeHost().host)
    accept(ledger, create("n", "Note"), adapt("n", title="x"))
    with store.transaction() as tables:
        content = tables.get(schema.kernel_event_log, 1)["row_bytes"]
        forged = content.replace(b"user", b"mole")
        tables.update(schema.kernel_event_log, (1,), {"row_bytes": forged})
    error = refused(ledger, build_again)
    assert error.code == "rebuild_record_damaged"
