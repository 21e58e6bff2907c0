"""A log of version 1.5 is taken as it is, superseded where it can be, and else held (§2.8, K24)."""

import io
import json

import pytest

from kernel.audit.adjudications import adjudications
from kernel.audit.costs import cost_entries
from kernel.audit.export import export_lines
from kernel.audit.lineage import causal_ancestors
from kernel.audit.log import log_document
from kernel.audit.operations import AuditFilter, find_operations
from kernel.audit.preview import preview_rollback
from kernel.ledger import schema
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.migration import job
from kernel.migration.job import migrate
from kernel.migration.lite_log import LiteLogInvalid, read_lite_log, take_log
from kernel.migration.mapping import REQUIRED
from kernel.migration.review_items import discard
from kernel.model.envelope import MAX_ENVELOPE_BYTES
from kernel.model.lite import LITE_INTENT
from kernel.model.receipt import MIGRATION_KIND
from kernel.replay.judgement import replay_all, replay_one
from kernel.replay.reproduce import reproduce_range
from kernel.rollback.errors import RollbackRefused
from kernel.rollback.execute import rollback_operation
from kernel.transaction.kernel import Kernel
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from kernel.verify.export import verify_export
from tests.kernel.build import (
    HOUR_US,
    adapt,
    advance_policy,
    code_of,
    create,
    drain,
    effect,
    everything,
    findings,
    ledger_on,
    link,
    memory_ledger,
    spans,
    submit,
)
from tests.kernel.every import HASH, own
from tests.kernel.lites import lite, log_of, migrated, take
from tests.kernel.no_lease import NoLease

NOTHING = ActiveModels({})
COST = "estimated_capacity_cost"


def named(document, name, **changes):
    return lite(document, operation_id=name, idempotency_key=f"key:{name}", **changes)


MADE = named(create("n", "Note", title="old"), "made")
CHANGED = named(adapt("n", title="new"), "changed", causal_parent_operation_ids=["made"])
LACKING = named(create("m", "Note"), "lacking", affected_subgraph_descriptor=None)


@pytest.fixture
def ledger():
    """A ledger with one operation of version 1.6, so that sequences are not line numbers."""
    ledger = memory_ledger()
    submit(ledger, create("before", "Note"))
    yield ledger
    assert findings(ledger) == ()


def row_of(view, sequence):
    return view.tables.get(schema.kernel_event_log, sequence)


def held(ledger, state="open"):
    with ledger.view() as view:
        return [
            (
                item.receipt["operation_id"],
                item.receipt["reason_code"],
                item.resolved_by_operation_id,
            )
            for item in adjudications(view, state, kind=MIGRATION_KIND).items
        ]


# Taking a log


@pytest.mark.spec("§2.8")
def test_a_lite_log_is_recorded_and_sealed_in_its_order_and_applied_to_nothing(ledger):
    before = everything(ledger)
    taken = take(ledger, MADE, CHANGED)
    after = everything(ledger)
    assert (taken.taken, taken.on_record) == (2, 0)
    assert {name for name in after if after[name] != before[name]} == {
        "kernel_event_log",
        "causal_parents",
        "blobs",
        "chain_head",
    }
    with ledger.view() as view:
        rows = view.log_rows(after=1)
        assert [row["operation_id"] for row in rows] == ["made", "changed"]
        assert {row["semantic_intent"] for row in rows} == {LITE_INTENT}
        assert rows[1]["prior_row_hash"] == rows[0]["row_hash"]
        assert view.envelope("made") == MADE


def test_a_lite_log_can_be_taken_onto_an_empty_ledger():
    ledger = memory_ledger()
    assert migrated(ledger, MADE).complete
    with ledger.view() as view:
        assert verify(view).ok
        assert view.node("n")["payload"] == {"title": "old"}


@pytest.mark.spec("§2.8", "§2.5")
def test_taking_a_log_again_changes_nothing_before_and_after_its_migration(ledger):
    take(ledger, MADE)
    again = take(ledger, MADE, CHANGED, MADE)
    assert (again.taken, again.on_record) == (1, 2)
    migrate(Kernel(), ledger)
    before = everything(ledger)
    assert take(ledger, MADE, CHANGED).taken == 0
    # The head is written by every transaction, and says the same.
    assert everything(ledger) == before


DEEP = json.loads("[" * 40 + "]" * 40)
BAD_LINES = [
    ("not JSON", b"{\n", "lite_envelope_invalid"),
    ("an empty line", b"\n", "lite_envelope_invalid"),
    ("no object", b"[]\n", "lite_envelope_invalid"),
    ("no UTF-8", b'{"a":"\xff"}\n', "lite_envelope_invalid"),
    ("too long", b" " * (MAX_ENVELOPE_BYTES + 2), "envelope_too_large"),
    ("too many effects", MADE | {"primitive_effects": [{}] * 300}, "envelope_too_large"),
    ("a key twice", b'{"operation_id":"a","operation_\\u0069d":"b"}\n', "json_key_repeated"),
    ("too deep", MADE | {"more": DEEP}, "lite_envelope_invalid"),
    (
        "too deep for one reader and not for another",
        b'{"a":1,"b":' + b"[" * 1_000 + b"]" * 1_000 + b"}\n",
        "lite_envelope_invalid",
    ),
    ("no number", MADE | {"more": 2**60}, "lite_envelope_invalid"),
    ("a name with NUL", MADE | {"session_id": "a\x00"}, "lite_envelope_invalid"),
    ("a session of reports", MADE | {"session_id": "work:q:0"}, "lite_envelope_invalid"),
    ("a session of incidents", MADE | {"session_id": "incident:i"}, "lite_envelope_invalid"),
    ("another shape", MADE | {"source_refs": "a"}, "lite_envelope_invalid"),
    *(
        (f"no {name}", {key: MADE[key] for key in MADE if key != name}, "lite_envelope_invalid")
        for name in ("operation_id", "operation_kind", "idempotency_key", "actor", "recorded_at")
    ),
    ("version 1.6", create("x", "Note"), "envelope_schema_version_unsupported"),
    ("version 1.4", MADE | {"envelope_version": "1.4"}, "envelope_schema_version_unsupported"),
    ("schema 2", MADE | {"schema_version": 2}, "envelope_schema_version_unsupported"),
    ("schema true", MADE | {"schema_version": True}, "envelope_schema_version_unsupported"),
    ("said otherwise", MADE | {"actor": "agent"}, "lite_operation_conflict"),
]


@pytest.mark.spec("§2.8", "§2.2 V1")
@pytest.mark.parametrize(
    ("line", "code"), [line_[1:] for line_ in BAD_LINES], ids=[line_[0] for line_ in BAD_LINES]
)
def test_a_line_that_cannot_be_taken_is_named_and_nothing_is(ledger, line, code):
    log = log_of(CHANGED, MADE, *([line] if isinstance(line, dict) else []))
    log.seek(0, 2)
    log.write(line if isinstance(line, bytes) else b"")
    log.seek(0)
    before = everything(ledger)
    with pytest.raises(LiteLogInvalid, match=r"^line 3: ") as raised:
        take_log(ledger, log)
    assert (raised.value.code, raised.value.line) == (code, 3)
    assert everything(ledger) == before


def test_an_operation_id_that_is_on_the_record_is_no_other_operations(ledger):
    known = create("k", "Note") | {"operation_id": "known"}
    submit(ledger, known, submitter="orchestrator")
    with pytest.raises(LiteLogInvalid) as raised:
        take(ledger, MADE, named(create("k", "Note"), "known"))
    assert (raised.value.code, raised.value.line) == ("lite_operation_conflict", 2)
    take(ledger, MADE)
    again = create("x", "Note") | {"operation_id": "made"}
    assert code_of(submit(ledger, again, submitter="orchestrator")) is not None


def test_a_log_that_is_written_while_it_is_taken_is_refused(ledger):
    class Changing(type(log_of())):
        def seek(self, place, *envelopes):
            self.write(b"\n")
            return super().seek(place, *envelopes)

    log = Changing(log_of(MADE).getvalue())
    with pytest.raises(LiteLogInvalid):
        take_log(ledger, log)
    assert [line.lite.operation_id for line in read_lite_log(log_of(MADE))] == ["made"]


# Superseding


@pytest.mark.spec("K24", "§2.8")
def test_a_lite_operation_is_superseded_by_a_row_of_its_own_that_names_it(ledger):
    take(ledger, MADE, CHANGED)
    with ledger.view() as view:
        before = [dict(row) for row in view.log_rows()]
    migration = migrate(Kernel(), ledger)
    assert (migration.migrated, migration.superseded, migration.complete) == (2, 2, True)
    with ledger.view() as view:
        rows = view.log_rows()
        assert rows[:3] == before
        assert [row["supersedes_sequence"] for row in rows] == [0, 0, 0, 2, 3]
        document = json.loads(rows[4]["row_bytes"])
        assert document["supersedes"] == {"operation_id": "changed", "ec_sequence_number": "3"}
        assert view.node("n")["payload"] == {"title": "new"}
        assert view.node("n")["updated_by_operation_id"] == "changed"


@pytest.mark.spec("K24", "§2.8")
def test_what_identifies_an_operation_holds_and_the_migration_speaks(ledger):
    migrated(ledger, MADE, CHANGED)
    with ledger.view() as view:
        superseding = view.envelope("changed")
    kept = ("operation_id", "idempotency_key", "causal_parent_operation_ids", "recorded_at")
    assert {name: superseding[name] for name in kept} == {name: CHANGED[name] for name in kept}
    assert superseding["envelope_version"] == "1.6"
    assert superseding["actor"] == "migration"
    assert "recorded_model_outputs" not in superseding
    assert superseding["policy_generation_id"] == "PG-1"


@pytest.mark.spec("K24", "§3.7")
def test_reads_show_the_superseding_envelope_at_the_original_place(ledger):
    take(ledger, MADE, CHANGED)
    submit(ledger, create("between", "Note"))
    migrate(Kernel(), ledger)
    with ledger.view() as view:
        place = log_document(view, row_of(view, 2))
        assert (place["ec_sequence_number"], place["superseding_sequence"]) == ("2", "5")
        assert (place["semantic_intent"], place["actor"]) == ("create", "migration")
        every = find_operations(view, AuditFilter()).entries
        assert [log_entry.ec_sequence_number for log_entry in every] == [1, 2, 3, 4]
        assert [operation.superseding_sequence for operation in every] == [None, 5, 6, None]
        wanted = {
            AuditFilter(entity="n"): ["made", "changed"],
            AuditFilter(semantic_intent="create"): [
                every[0].operation_id,
                "made",
                every[3].operation_id,
            ],
            AuditFilter(actor="migration"): ["made", "changed"],
            AuditFilter(semantic_intent=LITE_INTENT): [],
            AuditFilter(entity="n", from_sequence=3): ["changed"],
            AuditFilter(from_sequence=5): [],
        }
        for audit_filter, expected in wanted.items():
            entries = find_operations(view, audit_filter).entries
            assert [entry.operation_id for entry in entries] == expected
        paged = []
        for after in range(5):
            page = find_operations(view, AuditFilter(), after=after, limit=1)
            paged.append([entry.operation_id for entry in page.entries])
        assert paged == [[operation.operation_id] for operation in every] + [[]]
        ancestry = causal_ancestors(view, "changed")
        assert [entry.ec_sequence_number for entry in ancestry.page.entries] == [2, 3]
        assert [entry.operation_id for entry in cost_entries(view).entries] == [
            operation.operation_id for operation in every
        ]


def test_what_is_not_migrated_yet_is_read_as_what_it_is(ledger):
    take(ledger, MADE)
    with ledger.view() as view:
        [entry] = find_operations(view, AuditFilter(semantic_intent=LITE_INTENT)).entries
        assert (entry.operation_id, entry.effect_kinds) == ("made", ())
        assert log_document(view, row_of(view, 2))["semantic_intent"] == LITE_INTENT
        assert len(cost_entries(view).entries) == 1
        with pytest.raises(Exception, match="lite envelope"):
            preview_rollback(view, "made")
    with ledger.transaction() as transaction, pytest.raises(RollbackRefused) as raised:
        rollback_operation(Kernel(), transaction, "made")
    assert raised.value.code == "operation_not_migrated"


@pytest.mark.spec("K24", "§6.3")
def test_a_replay_finds_the_superseding_envelope_at_the_original_place(ledger):
    take(ledger, MADE, CHANGED)
    submit(ledger, create("between", "Note"))
    migrate(Kernel(), ledger)
    with ledger.view() as view:
        replay = replay_one(view, "changed", "record_only", NOTHING)
        assert (replay.ec_sequence_number, replay.output_reproduced) == (3, True)
        every = list(replay_all(view, 1, 6, "record_only", NOTHING))
        assert [replay.ec_sequence_number for replay in every] == [1, 2, 3, 4]
        assert all(replay.output_reproduced for replay in every)
        [alone] = replay_all(view, 3, 3, "record_only", NOTHING)
        assert alone.operation_id == "changed"
        assert list(replay_all(view, 5, 6, "record_only", NOTHING)) == []


@pytest.mark.spec("§6.3")
def test_a_lite_envelope_is_not_replayable_and_blocks_nobody(ledger):
    take(ledger, MADE)
    child = create("c", "Note", envelope={"causal_parent_operation_ids": ["made"]})
    submit(ledger, child)
    with ledger.view() as view:
        replays = [
            (replay.output_reproduced, replay.block_reason)
            for replay in replay_all(view, 1, 3, "record_only", NOTHING)
        ]
        assert [reproduction.applied for reproduction in reproduce_range(view, 1, 3)] == [
            True,
            False,
            True,
        ]
    assert replays == [(True, None), (False, "operation_not_replayable"), (True, None)]


@pytest.mark.spec("K2", "§5.2")
def test_a_superseded_operation_is_rolled_back_like_any_other(ledger):
    migrated(ledger, MADE, CHANGED)
    with ledger.view() as view:
        assert preview_rollback(view, "changed").lowest_tier == 1
    with ledger.transaction() as transaction:
        with pytest.raises(RollbackRefused) as raised:
            rollback_operation(Kernel(), transaction, "made")
        rollback_operation(Kernel(), transaction, "changed")
        rollback_operation(Kernel(), transaction, "made")
    assert raised.value.code == "rollback_superseded_by_later_write"
    with ledger.view() as view:
        assert view.node("n") is None


def test_what_informed_an_operation_before_it_was_superseded_does_not_go(ledger):
    take(ledger, MADE)
    child = create("c", "Note", envelope={"causal_parent_operation_ids": ["made"]})
    submit(ledger, child)
    migrate(Kernel(), ledger)
    with ledger.transaction() as transaction, pytest.raises(RollbackRefused) as raised:
        rollback_operation(Kernel(), transaction, "made")
    assert raised.value.code == "rollback_still_referenced"


def superseding(ledger, number=2, **changes):
    """The envelope that the migration would submit for a row."""
    with ledger.view() as view:
        row = row_of(view, number)
        document = json.loads(view.blob(row["envelope_payload_blob_ref"]))
        return job.map_lite(view, document, number) | changes


@pytest.mark.spec("K24", "K18")
def test_only_a_waiting_lite_operation_is_superseded_and_only_by_the_migration():
    ledger, fake = ledger_on(MemoryStore())
    submit(ledger, create("before", "Note"))
    take(ledger, MADE)
    document = superseding(ledger)
    assert code_of(submit(ledger, document, submitter="caller")) == "envelope_actor_unauthorized"
    first = submit(ledger, document, submitter="orchestrator", unseen=True)
    assert code_of(first) is None
    again = submit(ledger, document, submitter="orchestrator", unseen=True)
    assert (again, again.duplicate) == (first, True)
    other = document | {"target_refs": ["other"]}
    assert code_of(submit(ledger, other, submitter="orchestrator", unseen=True)) == (
        "envelope_idempotency_conflict"
    )
    fake.time_us += 25 * HOUR_US
    later = submit(ledger, document, submitter="orchestrator", unseen=True)
    assert code_of(later) == "envelope_already_superseded"


@pytest.mark.spec("K6")
def test_the_key_of_a_superseded_operation_is_taken(ledger):
    migrated(ledger, MADE)
    other = create("x", "Note") | {"idempotency_key": MADE["idempotency_key"]}
    assert code_of(submit(ledger, other)) == "envelope_idempotency_conflict"


@pytest.mark.spec("§8.6")
def test_authorities_are_computed_as_of_lite_rows_and_for_what_was_migrated(ledger):
    claim = named(create("claim", "VersionedClaim", authority=0.5), "claim")
    understanding = named(create("cu", "ConsolidatedUnderstanding", **spans("own source")), "cu")
    submit(ledger, create("own source", "Note", content="text"))
    submit(ledger, create("own", "ConsolidatedUnderstanding"))
    take(ledger, claim, understanding, named(link("e", "claim", "cu"), "e"))
    assert drain(ledger) == ["own"]
    assert migrate(Kernel(), ledger).complete
    with ledger.view() as view:
        assert {request.priority for request in view.open_requests()} == {"background_low_priority"}
    assert drain(ledger) == ["cu"]


# Holding


@pytest.mark.spec("§2.8")
@pytest.mark.parametrize("name", REQUIRED)
def test_what_lacks_a_field_that_is_required_is_held_and_the_job_goes_on(ledger, name):
    lacking = named(create("m", "Note"), "lacking", **{name: None})
    migration = migrated(ledger, lacking, MADE)
    assert (migration.migrated, migration.held, migration.complete) == (1, 1, False)
    assert held(ledger) == [("lacking", "lite_field_missing", None)]
    with ledger.view() as view:
        [item] = adjudications(view, kind=MIGRATION_KIND).items
        assert item.receipt["missing_fields"] == [name]
        assert item.receipt["ec_sequence_number"] == "2"
        assert adjudications(view).items == ()


OUTSIDE = own("materialization_emit", "mat", materialized_path="a/b.pdf", content_hash=HASH)
POLICY = own("policy_snapshot_advance", "PG-0", prior_policy_generation_id="PG-1")
ANCHOR = create("cause", "CausalNode")
REFUSED = [
    ("made by a model", named(create("m", "Note"), "o", recorded_model_outputs=[{}]), "lite_model"),
    ("seen outside", named(OUTSIDE, "o"), "envelope_supersession_repeats_external_effect"),
    (
        "seen outside, in full",
        named(OUTSIDE, "o", primitive_effects=OUTSIDE["primitive_effects"]),
        "envelope_supersession_repeats_external_effect",
    ),
    ("of the policy", named(POLICY, "o"), "envelope_actor_unauthorized"),
    ("of a session", named(ANCHOR, "o"), "envelope_actor_unauthorized"),
    ("of no verb", named(create("m", "Note"), "o", semantic_intent="do"), "envelope_unknown"),
    ("of no node", named(adapt("m", title="t"), "o"), "node_not_found"),
    ("no effect", named(create("m", "Note"), "o", primitive_effects=[{}]), "envelope_schema_"),
]


@pytest.mark.spec("§2.8")
@pytest.mark.parametrize(
    ("document", "code"),
    [refused_value[1:] for refused_value in REFUSED],
    ids=[refused_value[0] for refused_value in REFUSED],
)
def test_what_a_check_refuses_is_held_with_its_reason(ledger, document, code):
    migration = migrated(ledger, document, MADE)
    assert (migration.migrated, migration.held) == (1, 1)
    [(name, reason, _)] = held(ledger)
    assert name == "o"
    assert reason.startswith(code)


@pytest.mark.spec("§2.8", "K24")
def test_what_was_written_since_by_somebody_else_is_not_written_over(ledger):
    take(ledger, named(adapt("before", title="old"), "stale"))
    submit(ledger, adapt("before", title="new"))
    migrate(Kernel(), ledger)
    assert held(ledger) == [("stale", "superseding_write_out_of_order", None)]
    with ledger.view() as view:
        assert view.node("before")["payload"] == {"title": "new"}


@pytest.mark.spec("§2.8")
@pytest.mark.parametrize(
    "child",
    [
        named(create("c", "Note"), "child", causal_parent_operation_ids=["lacking"]),
        named(adapt("m", title="t"), "child"),
        named(link("e", "n", "m"), "child"),
    ],
    ids=["names it as a cause", "writes its record", "leads to its record"],
)
def test_what_follows_a_held_operation_waits_until_that_is_settled(ledger, child):
    grandchild = named(create("g", "Note"), "grand", causal_parent_operation_ids=["child"])
    migration = migrated(ledger, MADE, LACKING, child, grandchild)
    assert (migration.migrated, migration.held, migration.waiting) == (1, 1, 2)
    assert [held_operation[0] for held_operation in held(ledger)] == ["lacking"]
    with ledger.view() as view:
        [item] = adjudications(view, kind=MIGRATION_KIND).items
    supplied = create(
        "m", "Note", envelope={"adjudicates_receipt_ids": [item.receipt["receipt_id"]]}
    )
    assert code_of(submit(ledger, supplied)) is None
    migration = migrate(Kernel(), ledger)
    assert (migration.migrated, migration.settled, migration.superseded) == (2, 1, 3)
    assert migration.complete
    assert held(ledger) == []
    [resolved] = held(ledger, "resolved")
    assert resolved == ("lacking", "lite_field_missing", supplied["operation_id"])


@pytest.mark.spec("§2.8")
def test_a_held_operation_is_discarded_once_and_never_superseded_afterwards(ledger):
    migrated(ledger, LACKING)
    with ledger.view() as view:
        [item] = adjudications(view, kind=MIGRATION_KIND).items
    receipt_id = item.receipt["receipt_id"]
    with ledger.transaction() as transaction:
        assert code_of(discard(Kernel(), transaction, receipt_id, "a duplicate")) is None
    with ledger.transaction() as transaction:
        again = discard(Kernel(), transaction, receipt_id, "again")
    assert code_of(again) == "envelope_idempotency_conflict"
    migration = migrate(Kernel(), ledger)
    assert (migration.settled, migration.complete) == (1, True)
    scope = create("m", "Note")["affected_subgraph_descriptor"]
    with ledger.view() as view:
        completed = job.map_lite(view, LACKING | {"affected_subgraph_descriptor": scope}, 2)
    refused = submit(ledger, completed, submitter="orchestrator")
    assert code_of(refused) == "envelope_already_superseded"


def test_nobody_discards_what_is_no_item(ledger):
    with ledger.transaction() as transaction:
        result = discard(Kernel(), transaction, "receipt:x", "because")
    assert code_of(result) == "envelope_adjudication_unknown"
    bare = effect("receipt_only") | {"receipt_subkind": "review_item_discarded"}
    document = create("x", "Note") | {
        "operation_kind": "review_discard",
        "semantic_intent": "review_discard",
        "primitive_effects": [bare],
    }
    assert code_of(submit(ledger, document)) == "envelope_adjudication_unknown"


# Going on


class ProcessKilled(BaseException):
    pass


@pytest.mark.spec("§2.8", "§2.5")
@pytest.mark.parametrize("batches", range(3))
def test_the_job_goes_on_where_it_was_killed(ledger, monkeypatch, batches):
    monkeypatch.setattr(job, "BATCH_ROWS", 2)
    documents = [named(create(f"n{number}", "Note"), f"o{number}") for number in range(6)]
    documents[2] = documents[2] | {"semantic_intent": None}
    take(ledger, *({k: v for k, v in document.items() if v is not None} for document in documents))

    def die(done):
        if done > 2 * batches:
            raise ProcessKilled

    with pytest.raises(ProcessKilled):
        migrate(Kernel(), ledger, die)
    migration = migrate(Kernel(), ledger)
    assert (migration.superseded, migration.held) == (5, 1)
    assert len(held(ledger)) == 1
    with ledger.view() as view:
        assert view.head().ec_sequence_number == 1 + 6 + 5


@pytest.mark.spec("§2.8", "§18.2")
def test_capacity_that_is_not_there_stops_the_job_and_holds_nothing(ledger):
    governance = {"ec_capacity_lease_strategy": "queue_until_available"}
    advance_policy(ledger, kernel_cost_governance=governance)
    take(ledger, MADE, CHANGED)
    migration = migrate(Kernel(capacity=NoLease()), ledger)
    assert (migration.left, migration.held, migration.complete) == (2, 0, False)
    assert migration.stopped_by.retry_after_s == 1
    assert migrate(Kernel(), ledger).complete


def test_the_stored_bytes_are_those_of_the_line_with_fields_that_nobody_names(ledger):
    strange = MADE | {"of_version_1_5": {"kept": [1, "x"]}}
    migrated(ledger, strange)
    with ledger.view() as view:
        row = row_of(view, 2)
        assert view.blob(row["envelope_payload_blob_ref"]) == canonicalize(strange)


# Verifying


@pytest.fixture
def recorded():
    """A log on which one operation was superseded and one waits, and its writing transaction."""
    ledger = memory_ledger()
    migrated(ledger, MADE)
    take(ledger, CHANGED)
    submit(ledger, create("after", "Note"))
    return ledger


def rules(view):
    return [(finding.table, finding.key, finding.rule) for finding in verify(view).findings]


def resealed(transaction, number, **changes):
    """Change what the bytes of a row say, and seal it and every row after it anew."""
    log, head = schema.kernel_event_log, transaction.head_now
    prior = None
    for row in transaction.log_rows(after=number - 1):
        document = json.loads(row["row_bytes"])
        document |= changes if row["ec_sequence_number"] == number else {"prior_row_hash": prior}
        content = canonicalize(document)
        supersedes = int(document.get("supersedes", {}).get("ec_sequence_number", 0))
        prior = sha256_hex(content)
        sealed = {"row_bytes": content, "row_hash": prior, "supersedes_sequence": supersedes}
        repeated = {"prior_row_hash": document["prior_row_hash"]}
        transaction.tables.delete(log, row["ec_sequence_number"])
        transaction.tables.put(log, {**row, **sealed, **repeated})
    head.row_hash = prior


@pytest.mark.spec("K24", "§17.5")
@pytest.mark.parametrize(
    ("number", "rule"),
    [(3, "link_broken"), (9, "link_broken"), (2, "link_broken")],
    ids=["another lite row", "no row", "itself"],
)
def test_verification_finds_a_row_that_names_a_wrong_sequence(recorded, number, rule):
    named = {"operation_id": "made", "ec_sequence_number": str(number)}
    with recorded.transaction() as transaction:
        resealed(transaction, 2, supersedes=named)
    with recorded.view() as view:
        assert ("kernel_event_log", "2", rule) in rules(view)


def test_verification_names_an_answer_to_a_lite_row_which_answered_nobody(recorded):
    with recorded.transaction() as transaction:
        [*_, answer] = transaction.tables.scan(TableQuery(schema.idempotency_records))
        forged = {"ec_sequence_number": 3, "idempotency_key": CHANGED["idempotency_key"]}
        transaction.tables.insert(schema.idempotency_records, answer | forged)
    with recorded.view() as view:
        assert rules(view) == [("idempotency_records", "3", "extra")]


@pytest.mark.spec("K24", "§17.5")
def test_verification_finds_a_second_row_for_the_same_operation():
    ledger = memory_ledger()
    migrated(ledger, MADE)
    submit(ledger, create("x", "Note") | {"operation_id": "x"}, submitter="orchestrator")
    with ledger.transaction() as transaction:
        [row] = [log_row for log_row in transaction.log_rows() if log_row["operation_id"] == "x"]
        log = schema.kernel_event_log
        twin = {"operation_id": "made", "ec_sequence_number": "2"}
        document = json.loads(row["row_bytes"]) | {"operation_id": "made", "supersedes": twin}
        content = canonicalize(document)
        forged = {"row_bytes": content, "row_hash": sha256_hex(content), "operation_id": "made"}
        transaction.tables.delete(log, 3)
        transaction.tables.put(log, {**row, **forged, "supersedes_sequence": 2})
        transaction.head_now.row_hash = forged["row_hash"]
    with ledger.view() as view:
        broken_rules = rules(view)
    assert ("kernel_event_log", "3", "double_write") in broken_rules
    assert ("kernel_event_log", "1", "double_write") in broken_rules


@pytest.mark.spec("K24", "§17.5")
@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"supersedes_sequence": 3}, "column_differs"),
        ({"semantic_intent": LITE_INTENT}, "column_differs"),
    ],
)
def test_verification_finds_a_tampered_column(recorded, changes, rule):
    with recorded.transaction() as transaction:
        row = row_of(transaction, 2)
        transaction.tables.delete(schema.kernel_event_log, 2)
        transaction.tables.put(schema.kernel_event_log, {**row, **changes})
    with recorded.view() as view:
        assert ("kernel_event_log", "2", rule) in rules(view)


@pytest.mark.spec("K24", "§17.5")
@pytest.mark.parametrize("number", [1, 2], ids=["the lite one", "the superseding one"])
def test_verification_finds_a_tampered_envelope(recorded, number):
    with recorded.transaction() as transaction:
        row = row_of(transaction, number)
        blob = transaction.tables.get(schema.blobs, row["envelope_payload_blob_ref"])
        forged = blob["content"].replace(b"old", b"odd")
        transaction.tables.put(schema.blobs, blob | {"content": forged})
    with recorded.view() as view:
        assert ("blobs", row["envelope_payload_blob_ref"], "bytes_changed") in rules(view)


@pytest.mark.spec("K24")
def test_verification_finds_a_record_that_somebody_else_had_written_since(monkeypatch):
    ledger = memory_ledger()
    submit(ledger, create("before", "Note"))
    take(ledger, named(adapt("before", title="old"), "stale"))
    submit(ledger, adapt("before", title="new"))
    monkeypatch.setattr("kernel.transaction.kernel.check_order", lambda *_: None)
    assert migrate(Kernel(), ledger).complete
    with ledger.view() as view:
        assert rules(view) == [("kernel_event_log", "4", "order_broken")]


@pytest.mark.spec("K24", "§17.4")
def test_an_export_holds_both_rows_and_verifies_by_itself(recorded):
    with recorded.view() as view:
        lines = list(export_lines(view))
    verification = verify_export(io.BytesIO(b"".join(lines)))
    assert (verification.ok, verification.rows) == (True, 4)


@pytest.mark.spec("K24", "§17.5")
@pytest.mark.parametrize(
    ("named", "rule"),
    [
        ({"operation_id": "made", "ec_sequence_number": "3"}, "double_write"),
        ({"operation_id": "made", "ec_sequence_number": "7"}, "double_write"),
        ({"operation_id": "other", "ec_sequence_number": "1"}, "field_differs"),
    ],
    ids=["another sequence", "no row", "another operation"],
)
def test_an_export_whose_row_names_a_wrong_one_is_found(recorded, named, rule):
    with recorded.transaction() as transaction:
        resealed(transaction, 2, supersedes=named)
        lines = list(export_lines(transaction))
    verification = verify_export(io.BytesIO(b"".join(lines)))
    assert (verification.finding.line, verification.finding.rule) == (3, rule)


def test_an_export_in_which_an_operation_is_superseded_twice_is_found():
    ledger = memory_ledger()
    migrated(ledger, MADE)
    take(ledger, CHANGED)
    migrate(Kernel(), ledger)
    with ledger.transaction() as transaction:
        resealed(transaction, 4, supersedes={"operation_id": "made", "ec_sequence_number": "1"})
        lines = list(export_lines(transaction))
    verification = verify_export(io.BytesIO(b"".join(lines)))
    assert (verification.finding.line, verification.finding.rule) == (5, "double_write")


@pytest.mark.spec("§2.8", "§18.2")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"duration_ms": 1e308}, "duration_ms"),
        (
            {"affected_subgraph_descriptor": MADE["affected_subgraph_descriptor"] | {COST: 1e308}},
            f"affected_subgraph_descriptor.{COST}",
        ),
    ],
)
def test_a_lite_operation_whose_numbers_are_too_large_is_held_for_a_person(changes, field):
    ledger = memory_ledger()
    done = migrated(ledger, MADE | changes)
    assert (done.superseded, done.held) == (0, 1)
    with ledger.view() as view:
        [item] = adjudications(view, kind=MIGRATION_KIND).items
    receipt = item.receipt
    assert (receipt["reason_code"], receipt["field"]) == ("envelope_schema_invalid", field)
    assert findings(ledger) == ()
