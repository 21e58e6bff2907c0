"""Auditing, whatever store is below: filters, pages, causes, grounds, previews, the export."""

import io
from dataclasses import fields, replace

import pytest

from kernel.audit import export as export_module
from kernel.audit import operations as operations_module
from kernel.audit.costs import cost_totals, join_totals
from kernel.audit.export import export_lines
from kernel.audit.lineage import authority_grounds, causal_ancestors
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditError, AuditFilter, find_operations, first_sequence_from
from kernel.audit.preview import LATER_WRITES_MAX, preview_rollback
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import TableQuery
from kernel.values.errors import LedgerCorrupt
from kernel.values.pressure import COST_MAX
from kernel.verify.export import verify_export
from tests.kernel.build import (
    HOUR_US,
    START_US,
    adapt,
    changed,
    code_of,
    create,
    drain,
    effect,
    envelope,
    findings,
    ledger_on,
    link,
    submit,
    unmeasured,
)
from tests.kernel.lites import lite, take

CU, CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"


def token(node_id):
    """A node whose writing reaches outside."""
    document = create(node_id, "ShareTokenPolicy")
    sent = document["primitive_effects"][0]
    del sent["inverse_operation_kind"]
    sent["reversibility"] = "irreversible_external_effect"
    sent["external_effect_descriptor"] = "a link was handed out"
    return document


def named(document, operation_id, **changes):
    return document | {"operation_id": operation_id} | changes


@pytest.fixture(scope="module")
def ledger(kept_store):
    """Ten operations, for all who only read them."""
    return with_ten_operations(kept_store)


@pytest.fixture
def own_ledger(store):
    """The same, for one who writes more."""
    return with_ten_operations(store)


def with_ten_operations(store):
    """Ten operations an hour apart; sequences are their numbers."""
    ledger, host = ledger_on(store)
    for document in (
        named(create("c-1", CLAIM, authority=0.9), "op-claim"),
        named(create("u-1", CU), "op-cu", causal_parent_operation_ids=["op-claim"]),
        named(link("e-1", "c-1", "u-1"), "op-link", causal_parent_operation_ids=["op-cu"]),
        named(adapt("c-1", authority=0.5), "op-adapt", session_id="s-1"),
        named(
            adapt("c-1", note="x"),
            "op-note",
            session_id="s-1",
            causal_parent_operation_ids=["op-adapt", "op-link"],
        ),
        named(token("t-1"), "op-token"),
        named(
            envelope("search_run_record", [effect("receipt_only", query="q", hits=3)]), "op-search"
        ),
        named(create("d-1", "Document"), "op-document"),
        named(
            envelope(
                "corpus_membership_confirm",
                [effect("membership_write", "d-1", corpus_id="corpus:test", to_state="confirmed")],
            ),
            "op-member",
        ),
        named(adapt("u-1", title="t"), "op-title", session_id="s-2"),
    ):
        result = submit(ledger, document, unseen=True, submitter="orchestrator")
        assert code_of(result) is None
        host.time_us += HOUR_US
    drain(ledger, names="op-recompute")
    return ledger


def sequences(ledger, **wanted):
    with ledger.view() as view:
        page = find_operations(view, AuditFilter(**wanted))
        newest = newest_operations(view, AuditFilter(**wanted))
    assert page.next_after is None
    assert (newest.entries, newest.next_after) == (page.entries[::-1], None)
    return [entry.ec_sequence_number for entry in page.entries]


@pytest.mark.spec("§3.7 Q1")
def test_the_operations_of_an_entity_are_those_that_wrote_its_record(ledger):
    assert sequences(ledger, entity="c-1") == [1, 4, 5]
    assert sequences(ledger, entity="e-1") == [3]
    assert sequences(ledger, entity="corpus:test|d-1") == [8, 9]
    assert sequences(ledger, entity="nothing") == []


@pytest.mark.spec("§3.7 Q1")
def test_an_entity_that_is_only_declared_is_found_when_asked_for(ledger):
    assert sequences(ledger, entity="d-1") == [8]
    assert sequences(ledger, entity="d-1", declared=True) == [8, 9]
    assert sequences(ledger, entity="corpus:test|d-1", declared=True) == [8, 9]


@pytest.mark.spec("§3.7 Q1")
def test_an_entity_and_a_time_are_one_question(ledger):
    since = START_US + 3 * HOUR_US
    assert sequences(ledger, entity="c-1", from_us=since) == [4, 5]
    assert sequences(ledger, entity="c-1", from_us=since + HOUR_US // 2) == [5]


@pytest.mark.spec("§3.7 Q2", "§3.4 rule 3")
def test_operations_are_found_by_the_semantic_layer(ledger):
    assert sequences(ledger, semantic_intent="create") == [1, 2, 6, 8]
    assert sequences(ledger, semantic_intent="field_adapt", actor="user") == [4, 5, 10]
    assert sequences(ledger, semantic_intent="field_adapt", session_id="s-1") == [4, 5]
    assert sequences(ledger, session_id="s-2") == [10]
    assert sequences(ledger, actor="agent") == []


@pytest.mark.spec("§3.4 rule 3")
def test_operations_are_found_by_the_primitive_layer_given_or_canonical(ledger):
    assert sequences(ledger, effect_kind="edge_create") == [3]
    assert sequences(ledger, effect_kind="edge_write") == [3]
    assert sequences(ledger, effect_kind="receipt_only") == [2, 7]
    assert sequences(ledger, effect_kind="index_update", actor="user") == []


@pytest.mark.spec("§3.7 Q3")
def test_operations_are_found_by_the_reversibility_of_an_effect(ledger):
    assert sequences(ledger, reversibility="irreversible_external_effect") == [6]
    assert sequences(ledger, reversibility="receipt_only") == [2, 7]
    week = START_US + 6 * HOUR_US
    assert sequences(ledger, reversibility="irreversible_external_effect", from_us=week) == []
    # Its membership is reversible, though the node is not.
    assert 6 in sequences(ledger, reversibility="fully_reversible")
    assert 7 not in sequences(ledger, reversibility="fully_reversible")


def test_bounds_of_sequence_and_time_hold_at_their_ends(ledger):
    assert sequences(ledger, from_sequence=3, to_sequence=5) == [3, 4, 5]
    with ledger.view() as view:
        times = [row["committed_at"] for row in view.log_rows(limit=100)]
        assert first_sequence_from(view, 0) == 1
        assert first_sequence_from(view, START_US + 100 * HOUR_US) == len(times) + 1
        for number in range(10):
            at = START_US + number * HOUR_US
            first = first_sequence_from(view, at)
            assert first == number + 1
    at = START_US + 2 * HOUR_US
    # The third was committed a microsecond or more after its hour began, or at it.
    assert sequences(ledger, from_us=at, before_us=at + HOUR_US) == [3]
    assert sequences(ledger, from_us=at + HOUR_US, before_us=at + HOUR_US) == []


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"entity": "c-1"},
        {"entity": "c-1", "declared": True},
        {"semantic_intent": "create"},
        {"session_id": "s-1"},
        {"effect_kind": "receipt_only"},
        {"to_sequence": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize("scanned", [1, 2, 1000])
@pytest.mark.parametrize("limit", [1, 3])
def test_pages_join_to_the_whole_without_gap_or_overlap(
    ledger, wanted, limit, scanned, monkeypatch
):
    whole = sequences(ledger, **wanted)
    monkeypatch.setattr(operations_module, "SEARCH_ROWS", 2)
    joined, after, pages = [], 0, 0
    with ledger.view() as view:
        while after is not None:
            page = find_operations(
                view, AuditFilter(**wanted), after=after, limit=limit, scanned_rows_max=scanned
            )
            assert len(page.entries) <= limit
            joined += [entry.ec_sequence_number for entry in page.entries]
            after = page.next_after
            pages += 1
            assert pages < 50
    assert joined == whole
    joined, before, pages = [], None, 0
    with ledger.view() as view:
        while pages == 0 or before is not None:
            page = newest_operations(
                view, AuditFilter(**wanted), before=before, limit=limit, scanned_rows_max=scanned
            )
            assert len(page.entries) <= limit
            joined += [entry.ec_sequence_number for entry in page.entries]
            before = page.next_after
            pages += 1
            assert pages < 50
    assert joined == whole[::-1]


class CountedView:
    """A snapshot that counts what is read of it."""

    def __init__(self, tables):
        self.tables, self.selected, self.got = tables, [], 0

    def get(self, table, *key):
        self.got += 1
        return self.tables.get(table, *key)

    def scan(self, query):
        self.selected.append((query.table.name, tuple(query.where)))
        return self.tables.scan(query)


def test_an_entity_is_found_through_the_index_of_effects_and_a_time_by_halving(own_ledger):
    submit(own_ledger, *(create(f"n-{number}", "Document") for number in range(100)))
    with own_ledger.view() as view:
        watched = CountedView(view.tables)
        page = find_operations(LedgerView(watched), AuditFilter(entity="c-1", from_us=START_US))
    assert len(page.entries) == 3
    quarantines = ("receipts", ("receipt_kind",))
    assert set(watched.selected) == {("applied_effects", ("store", "record_key")), quarantines}
    assert watched.selected.count(quarantines) == 1
    assert watched.got < 20


def test_an_entry_tells_both_layers_and_its_sequence_as_text(ledger):
    with ledger.view() as view:
        [entry] = find_operations(view, AuditFilter(entity="e-1")).entries
        row = view.log_row_of("op-link")
    document = entry.document()
    # Only one that is quarantined says so.
    names = [field.name for field in fields(entry)]
    assert [*document, "quarantined"] == names
    assert [*replace(entry, quarantined=True).document()] == names
    assert document["ec_sequence_number"] == "3"
    assert document["semantic_intent"] == "document_relationship_create"
    assert document["effect_kinds"] == ("edge_create",)
    assert document["canonical_effect_kinds"] == ("edge_write",)
    assert document["row_hash"] == row["row_hash"]


def test_an_operation_that_writes_a_record_twice_is_one_answer(own_ledger):
    twice = envelope(
        "annotate",
        [
            effect("node_write", "d-1", a=1) | {"effect_id": "first"},
            effect("node_write", "d-1", b=2) | {"effect_id": "second"},
        ],
    )
    sequence = submit(own_ledger, twice).ec_sequence_number
    assert sequences(own_ledger, entity="d-1") == [8, sequence]


def test_an_empty_record_has_no_operations(store):
    ledger, _ = ledger_on(store)
    assert sequences(ledger) == []
    assert sequences(ledger, entity="x", from_us=START_US) == []


@pytest.mark.spec("§3.7 Q4")
def test_causes_are_walked_back_to_the_roots(ledger):
    with ledger.view() as view:
        ancestors = causal_ancestors(view, "op-note")
        assert causal_ancestors(view, "op-gone") is None
    assert [entry.operation_id for entry in ancestors.page.entries] == [
        "op-claim",
        "op-cu",
        "op-link",
        "op-adapt",
        "op-note",
    ]
    assert ancestors.roots == ("op-claim", "op-adapt")
    assert ancestors.missing == ()
    assert ancestors.complete


@pytest.mark.spec("§3.7 Q4", "§2.8")
def test_a_cause_that_an_earlier_log_lacks_is_told_as_missing(store):
    ledger, _ = ledger_on(store)
    document = create("n", "Note") | {"operation_id": "op-old"}
    take(ledger, lite(document, causal_parent_operation_ids=["op-gone"]))
    with ledger.view() as view:
        ancestors = causal_ancestors(view, "op-old")
    assert ancestors.missing == ("op-gone",)
    assert ancestors.complete


@pytest.mark.spec("§3.7 Q4")
def test_causes_come_in_pages_and_the_walk_says_when_it_stopped(ledger):
    with ledger.view() as view:
        first = causal_ancestors(view, "op-note", limit=3)
        rest = causal_ancestors(view, "op-note", after=first.page.next_after, limit=3)
        short = causal_ancestors(view, "op-note", ancestors_max=2)
    entries = first.page.entries + rest.page.entries
    assert [entry.ec_sequence_number for entry in entries] == [1, 2, 3, 4, 5]
    assert rest.page.next_after is None
    assert not short.complete
    assert len(short.page.entries) == 2


@pytest.mark.spec("§8.5")
def test_what_informed_an_authority_is_told_core_first_with_its_recompute(own_ledger):
    submit(own_ledger, create("c-0", CLAIM, authority=0.2), link("e-0", "c-0", "u-1", "tangential"))
    submit(own_ledger, create("c-2", CLAIM, authority=0.4), link("e-2", "c-2", "u-1", "supporting"))
    drain(own_ledger, names="op-second")
    submit(own_ledger, adapt("u-1", title="again"))
    with own_ledger.view() as view:
        grounds = authority_grounds(view, "u-1")
        assert authority_grounds(view, "c-1") is None
        assert authority_grounds(view, "nothing") is None
        stored = view.node("u-1")["payload"]
    inputs = [(input_["edge_essentiality"], input_["parent_node_id"]) for input_ in grounds.inputs]
    assert inputs == [("core", "c-1"), ("supporting", "c-2"), ("tangential", "c-0")]
    assert grounds.cu_authority == stored["cu_authority"]
    assert grounds.operation.operation_id == "op-second:0"
    assert grounds.operation.semantic_intent == "recalculate_authority"


def test_an_authority_before_its_first_recompute_has_no_grounds(store):
    ledger, _ = ledger_on(store)
    submit(ledger, create("u-9", CU))
    with ledger.view() as view:
        grounds = authority_grounds(view, "u-9")
    assert (grounds.inputs, grounds.operation) == ((), None)


@pytest.mark.spec("§3.7 Q5", "§4.5")
def test_a_preview_goes_through_the_effects_backwards_and_names_what_undoes_them(ledger):
    with ledger.view() as view:
        preview = preview_rollback(view, "op-claim")
        assert preview_rollback(view, "op-gone") is None
    assert [
        (stated_effect.store, stated_effect.undone_by) for stated_effect in preview.effects
    ] == [
        ("corpus_membership_records", "membership_revoke"),
        ("nodes", "node_retract"),
    ]
    assert preview.lowest_tier == 1
    assert not preview.needs_user_confirmation
    assert preview.not_automatic == ()
    assert preview.effects[1].superseded_by == ("op-adapt", "op-note")
    assert preview.superseded
    assert all(stated_effect.restores is None for stated_effect in preview.effects)


@pytest.mark.spec("§3.7 Q5", "§4.5")
def test_a_preview_names_the_effects_that_nothing_undoes(ledger):
    with ledger.view() as view:
        token_found = preview_rollback(view, "op-token")
        search_found = preview_rollback(view, "op-search")
        adapt_found = preview_rollback(view, "op-note")
    [persisting] = token_found.not_automatic
    assert persisting.persists == "a link was handed out"
    assert persisting.undone_by is None
    assert token_found.lowest_tier == 2
    assert token_found.needs_user_confirmation
    assert token_found.counts == {"fully_reversible": 1, "irreversible_external_effect": 1}
    # A receipt is not undone, and nothing needs to be.
    assert (search_found.lowest_tier, search_found.not_automatic) == (1, ())
    assert not adapt_found.superseded
    assert len(adapt_found.effects[0].restores) == 64


def test_a_preview_names_so_many_later_writes_and_no_more(own_ledger):
    for number in range(LATER_WRITES_MAX + 3):
        submit(own_ledger, adapt("d-1", n=number))
    with own_ledger.view() as view:
        preview = preview_rollback(view, "op-document")
    assert len(preview.effects[-1].superseded_by) == LATER_WRITES_MAX


def test_an_erased_envelope_leaves_the_questions_that_the_row_answers(ledger, monkeypatch):
    with ledger.view() as view:
        erased = view.log_row_of("op-note")["envelope_payload_blob_ref"]
    kept = LedgerView.blob
    monkeypatch.setattr(
        LedgerView, "blob", lambda view, ref: None if ref == erased else kept(view, ref)
    )
    assert sequences(ledger, entity="c-1") == [1, 4, 5]
    assert sequences(ledger, entity="c-1", declared=True) == [1, 4, 5]
    assert sequences(ledger, reversibility="irreversible_external_effect") == [5, 6]
    with ledger.view() as view, pytest.raises(AuditError) as refused:
        preview_rollback(view, "op-note")
    assert refused.value.code == "envelope_erased"


def test_an_export_verifies_and_does_not_depend_on_the_size_of_pages(own_ledger, monkeypatch):
    submit(own_ledger, "nonsense")
    submit(own_ledger, create("c-1", CLAIM))
    with own_ledger.view() as view:
        whole = b"".join(export_lines(view))
        head = view.head()
    monkeypatch.setattr(export_module, "LARGE_ROWS", 1)
    with own_ledger.view() as view:
        assert b"".join(export_lines(view)) == whole
    verification = verify_export(io.BytesIO(whole))
    assert verification.ok, verification.finding
    assert (verification.rows, verification.receipts) == (
        head.ec_sequence_number,
        head.receipt_sequence,
    )
    assert verification.head_hash == head.row_hash


def test_an_export_of_nothing_verifies(store):
    ledger, _ = ledger_on(store)
    with ledger.view() as view:
        lines = list(export_lines(view))
    verification = verify_export(io.BytesIO(b"".join(lines)))
    assert (verification.ok, verification.lines, verification.rows, len(lines)) == (True, 2, 0, 2)


def test_bytes_that_are_no_document_are_called_a_corrupt_ledger(store):
    ledger, _ = ledger_on(store)
    submit(ledger, named(create("c-1", CLAIM), "op-claim"), submitter="orchestrator")
    with ledger.store.transaction() as tables:
        [row] = tables.scan(TableQuery(schema.kernel_event_log))
        blob_ref = row["envelope_payload_blob_ref"]
        tables.update(schema.blobs, (blob_ref,), {"content": b"[]"})
    with ledger.view() as view, pytest.raises(LedgerCorrupt):
        preview_rollback(view, "op-claim")


@pytest.mark.spec("§18.3", "INV-A-COST-1")
def test_a_sum_over_costs_that_earlier_releases_did_not_limit_answers(store):
    ledger, _ = ledger_on(store)
    scope = "affected_subgraph_descriptor.estimated_capacity_cost"
    with unmeasured():
        for number, cost in enumerate((1e308, 1e308, 3)):
            assert (
                code_of(submit(ledger, changed(create(f"n-{number}", "Note"), {scope: cost})))
                is None
            )
    with ledger.view() as view:
        [total] = cost_totals(view).totals
        pages = [cost_totals(view, after=after, limit=1) for after in range(3)]
    assert (total.operations, total.operations_over_limit) == (3, 2)
    assert total.estimated_cost == 2 * COST_MAX + 3
    assert join_totals(pages) == (total,)
    assert findings(ledger) == ()
