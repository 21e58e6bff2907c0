"""Replay reproduces what is recorded, byte for byte, and never asks a model (seed 004 §6)."""

import socket
import subprocess
import sys

import orjson
import pytest

from kernel.ledger import schema
from kernel.ledger.applied_effects import effect_of
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.replay import AuditContext
from kernel.replay.judgement import replay_all, replay_one
from kernel.replay.replay_receipts import RANGE_MAX, replay_operation, replay_range
from kernel.replay.reproduce import reproduce, reproduce_range
from kernel.values.errors import KernelError, LedgerCorrupt
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from tests.kernel.build import (
    FakeHost,
    adapt,
    code_of,
    create,
    drain,
    everything,
    findings,
    link,
    output,
    receipts_of_kind,
    submit,
    submit_answered,
)
from tests.kernel.every import every_kind
from tests.kernel.lites import lite, migrated

OPUS = "claude-opus-4-7"
IN_USE = ActiveModels({OPUS: OPUS})
BUMPED = ActiveModels({OPUS: "claude-opus-5-1"})
RETIRED = ActiveModels({})
BLOCKING = "blocked_on_fingerprint_mismatch"
STRATEGIES = ("record_only", BLOCKING)

pytestmark = pytest.mark.spec("INV-A-REPLAY-LLM-1")


@pytest.fixture
def answered_operation(ledger):
    """An operation that asked a model twice."""
    submit(ledger, create("n", "Note"))
    document = adapt("n", summary="what the model said")
    assert code_of(submit_answered(ledger, document, b"one answer", b"another")) is None
    return document["operation_id"]


@pytest.fixture(scope="module")
def used():
    """A ledger on which every kind of effect was applied, recomputes included."""
    ledger = Ledger.create(MemoryStore(), FakeHost().host)
    documents = [
        *every_kind(),
        create("claim", "VersionedClaim", authority=0.5),
        create("cu", "ConsolidatedUnderstanding"),
        link("feeds", "claim", "cu"),
        adapt("claim", authority=0.75),
    ]
    for document in documents:
        assert code_of(submit(ledger, document, submitter="orchestrator")) is None
    drain(ledger)
    return ledger


def replay(ledger, operation_id, strategy="record_only", registry=IN_USE, context=None):
    with ledger.transaction() as transaction:
        return replay_operation(transaction, operation_id, strategy, registry, context)


def change(ledger, table, key, **fields):
    """Change a record behind the kernel's back."""
    with ledger.transaction() as transaction:
        row = transaction.tables.get(table, key)
        record = orjson.loads(row["record"]) | fields
        transaction.tables.update(table, (key,), {"record": orjson.dumps(record)})


# --- scenarios --------------------------------------------------------------------------------


@pytest.mark.spec("§6.7")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_scenario_a_the_recorded_output_is_reproduced(ledger, answered_operation, strategy):
    replayed = replay(ledger, answered_operation, strategy)
    assert (replayed.fingerprint_match, replayed.output_reproduced) == (True, True)
    assert (replayed.block_reason, replayed.retention_class) == (None, "ephemeral")
    assert (replayed.recorded_model_version, replayed.current_model_version) == (OPUS, OPUS)
    [receipt] = receipts_of_kind(ledger, "audit_replay")
    assert receipt["receipt_id"] == replayed.receipt_id
    assert receipt["original_operation_id"] == answered_operation
    assert "block_reason" not in receipt


@pytest.mark.spec("§6.7", "V3-AT-24")
def test_scenario_b_another_model_blocks_with_two_durable_receipts(ledger, answered_operation):
    before = everything(ledger)["kernel_event_log"]
    replayed = replay(ledger, answered_operation, BLOCKING, BUMPED)
    assert (replayed.fingerprint_match, replayed.output_reproduced) == (False, False)
    assert (replayed.block_reason, replayed.retention_class) == ("fingerprint_mismatch", "durable")
    assert (replayed.recorded_model_version, replayed.current_model_version) == (
        OPUS,
        "claude-opus-5-1",
    )
    [receipt] = receipts_of_kind(ledger, "audit_replay")
    [blocked] = receipts_of_kind(ledger, "replay_blocked_fingerprint_mismatch")
    assert blocked["replay_receipt_id"] == receipt["receipt_id"]
    assert blocked["recorded_output_id"] == f"{answered_operation}:0"
    assert everything(ledger)["kernel_event_log"] == before, "a fresh operation under an old name"


@pytest.mark.spec("§6.7")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_scenario_c_the_output_of_a_retired_model_is_unavailable(
    ledger, answered_operation, strategy
):
    replayed = replay(ledger, answered_operation, strategy, RETIRED)
    assert (replayed.output_reproduced, replayed.fingerprint_match) == (False, False)
    assert (replayed.block_reason, replayed.retention_class) == (
        "recorded_output_unavailable",
        "durable",
    )
    assert replayed.recorded_model_version == OPUS
    assert receipts_of_kind(ledger, "replay_blocked_fingerprint_mismatch") == []


@pytest.mark.spec("§6.7")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_scenario_d_what_asked_no_model_is_reproduced_whatever_models_there_are(ledger, strategy):
    document = create("n", "Note")
    submit(ledger, document)
    replayed = replay(ledger, document["operation_id"], strategy, RETIRED)
    assert (replayed.fingerprint_match, replayed.output_reproduced) == (True, True)
    assert (replayed.recorded_model_version, replayed.current_model_version) == (None, None)


@pytest.mark.spec("§6.3")
def test_an_operation_that_is_not_on_the_log_is_not_replayable(ledger):
    replayed = replay(ledger, "nowhere")
    assert (replayed.output_reproduced, replayed.fingerprint_match) == (False, False)
    assert (replayed.block_reason, replayed.retention_class) == (
        "operation_not_replayable",
        "durable",
    )


def test_an_operation_whose_envelope_was_erased_is_not_replayable(ledger, answered_operation):
    with ledger.transaction() as transaction:
        row = transaction.log_row_of(answered_operation)
        transaction.drop_blob(row["envelope_payload_blob_ref"])
    assert replay(ledger, answered_operation).block_reason == "operation_not_replayable"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_answer_that_was_erased_is_unavailable(ledger, answered_operation, strategy):
    with ledger.transaction() as transaction:
        record = transaction.record(schema.recorded_model_outputs, f"{answered_operation}:1")
        transaction.drop_blob(record["output_payload_blob_ref"])
    assert (
        replay(ledger, answered_operation, strategy).block_reason == "recorded_output_unavailable"
    )


def test_an_answer_that_was_captured_as_not_to_be_replayed_is_unavailable(ledger):
    document = create("n", "Note")
    submit_answered(ledger, document, b"answer", replay_eligible=False)
    replayed = replay(ledger, document["operation_id"])
    assert replayed.block_reason == "recorded_output_unavailable"


# --- the whole fingerprint --------------------------------------------------------------------


@pytest.mark.spec("K26")
@pytest.mark.parametrize("part", ["model_version", "prompt_hash", "parameter_hash"])
def test_each_part_that_the_stored_output_says_otherwise_is_a_mismatch(
    ledger, answered_operation, part
):
    other = "another" if part == "model_version" else "cd" * 32
    change(ledger, schema.recorded_model_outputs, f"{answered_operation}:1", **{part: other})
    blocked = replay(ledger, answered_operation, BLOCKING)
    assert (blocked.block_reason, blocked.fingerprint_match) == ("fingerprint_mismatch", False)
    went_on = replay(ledger, answered_operation, "record_only")
    assert (went_on.output_reproduced, went_on.fingerprint_match) == (True, False)


@pytest.mark.spec("K26")
def test_a_combined_fingerprint_that_is_not_that_of_its_parts_is_a_mismatch(
    ledger, answered_operation
):
    change(
        ledger,
        schema.recorded_model_outputs,
        f"{answered_operation}:1",
        fingerprint_combined="cd" * 32,
    )
    assert replay(ledger, answered_operation, BLOCKING).block_reason == "fingerprint_mismatch"


@pytest.mark.spec("K26")
@pytest.mark.parametrize("part", ["model_version", "prompt_hash", "parameter_hash"])
def test_an_output_whose_fingerprint_its_parts_do_not_give_is_not_recorded(ledger, part):
    document = create("other", "Note")
    with ledger.transaction() as transaction:
        stated = output(document["operation_id"], transaction.put_blob(b"answer"))
    stated[part] = "another" if part == "model_version" else "cd" * 32
    result = submit(
        ledger, document | {"recorded_model_outputs": [stated]}, submitter="orchestrator"
    )
    assert (result.rejection.check, code_of(result)) == ("V7", "envelope_schema_invalid")


@pytest.mark.spec("§17.2")
def test_going_on_in_spite_of_drift_is_recorded_durably(ledger, answered_operation):
    replayed = replay(ledger, answered_operation, "record_only", BUMPED)
    assert (replayed.output_reproduced, replayed.fingerprint_match) == (True, False)
    assert (replayed.block_reason, replayed.retention_class) == (None, "durable")
    assert receipts_of_kind(ledger, "replay_blocked_fingerprint_mismatch") == []


# --- receipts ---------------------------------------------------------------------------------


@pytest.mark.spec("§6.6", "§17.2")
@pytest.mark.parametrize(
    ("context", "retention"),
    [
        (None, "ephemeral"),
        (AuditContext("audit_view_browse"), "ephemeral"),
        (AuditContext("ci_test"), "ephemeral"),
        (AuditContext("other"), "ephemeral"),
        (AuditContext("expert_deposition_reconstruction"), "durable"),
        (AuditContext("litigation_evidence_re_derivation"), "durable"),
        (AuditContext("other", retention_upgrade_required=True), "durable"),
    ],
)
def test_the_caller_decides_how_long_a_clean_replay_is_remembered(
    ledger, answered_operation, context, retention
):
    replayed = replay(ledger, answered_operation, context=context)
    assert replayed.retention_class == retention
    rows = everything(ledger)
    table = "receipts" if retention == "durable" else "ephemeral_receipts"
    assert [row["receipt_kind"] for row in rows[table]].count("audit_replay") == 1
    assert len(receipts_of_kind(ledger, "audit_replay")) == 1
    assert findings(ledger) == ()


def test_a_replays_receipt_is_not_taken_for_one_that_the_operation_emitted(
    ledger, answered_operation
):
    replay(ledger, answered_operation, BLOCKING, BUMPED)
    replay(ledger, answered_operation)
    submit(ledger, adapt("n", later=1))
    assert findings(ledger) == ()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("operation_id", "another"),
        ("receipt_kind", "simulation_preview_emit"),
        ("expires_at_us", 1),
        ("receipt_bytes", b"{}"),
    ],
)
def test_an_ephemeral_receipt_of_a_replay_says_what_its_bytes_say(
    ledger, answered_operation, column, value
):
    key = (replay(ledger, answered_operation).receipt_id,)
    with ledger.transaction() as transaction:
        transaction.tables.update(schema.ephemeral_receipts, key, {column: value})
    with ledger.view() as view:
        faults = verify(view).findings
    assert [(claim.table, claim.key) for claim in faults] == [("ephemeral_receipts", key[0])]


def test_reading_again_without_a_receipt_writes_nothing(ledger, answered_operation):
    before = everything(ledger)
    with ledger.view() as view:
        assert reproduce(view, answered_operation).difference is None
        assert (
            replay_one(view, answered_operation, BLOCKING, BUMPED).block_reason
            == "fingerprint_mismatch"
        )
        assert len(list(replay_all(view, 1, 2, BLOCKING, IN_USE))) == 2
    assert everything(ledger) == before


def test_a_replay_writes_receipts_and_nothing_else(used):
    before = everything(used)
    replay(used, before["kernel_event_log"][-1]["operation_id"], BLOCKING, BUMPED)
    after = everything(used)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"ephemeral_receipts", "chain_head"}


# --- every effect, computed again -------------------------------------------------------------


@pytest.mark.spec("§3.4", "PT-3")
def test_every_operation_of_every_kind_is_reproduced_by_itself(used):
    with used.view() as view:
        rows = view.log_rows(limit=1000)
        reproductions = [reproduce(view, row["operation_id"]) for row in rows]
    assert len(reproductions) > 90
    assert [
        reproduction
        for reproduction in reproductions
        if reproduction.difference is not None or reproduction.erased
    ] == []


@pytest.mark.spec("§3.4", "PT-3")
@pytest.mark.parametrize("first", [1, 2, 17, 40, 80])
def test_a_range_is_reproduced_from_wherever_it_begins(used, first):
    with used.view() as view:
        last = view.head().ec_sequence_number
        reproductions = list(reproduce_range(view, first, last))
    assert [reproduction.ec_sequence_number for reproduction in reproductions] == list(
        range(first, last + 1)
    )
    assert [
        reproduction for reproduction in reproductions if reproduction.difference is not None
    ] == []


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        (schema.applied_effects, "effect_id", "x"),
        (schema.applied_effects, "post_image_hash", b"x"),
        (schema.kernel_event_log, "row_bytes", b"{}"),
        (schema.kernel_event_log, "operation_id", "another"),
    ],
)
def test_what_is_recorded_otherwise_is_corruption_and_is_raised(ledger, table, column, value):
    documents = [create(f"n-{number}", "Note") for number in range(3)]
    for document in documents:
        submit(ledger, document)
    key = (2, 0) if table is schema.applied_effects else (2,)
    with ledger.transaction() as transaction:
        transaction.tables.update(table, key, {column: value})
    with ledger.view() as view:
        reproductions = list(reproduce_range(view, 1, 3))
    assert [reproduction.difference is None for reproduction in reproductions] == [
        True,
        False,
        True,
    ]
    before = everything(ledger)
    with pytest.raises(LedgerCorrupt, match="row 2"), ledger.transaction() as transaction:
        replay_range(transaction, 1, 3, "record_only", IN_USE)
    assert everything(ledger) == before


def test_a_pre_image_that_was_changed_is_found_by_the_operation_that_needs_it(ledger):
    documents = [create("n", "Note"), adapt("n", a=1), adapt("n", a=2)]
    for document in documents:
        submit(ledger, document)
    with ledger.transaction() as transaction:
        [effect] = transaction.tables.scan(
            TableQuery(schema.applied_effects, {"ec_sequence_number": 3}, limit=1)
        )
        key = effect_of(effect)["pre_image_hash"]
        kept = transaction.tables.get(schema.pre_images, key)["content"]
        spoilt = {"content": kept.replace(b'"a":1', b'"a":9')}
        transaction.tables.update(schema.pre_images, (key,), spoilt)
    with ledger.view() as view:
        assert reproduce(view, documents[2]["operation_id"]).difference is not None
        # A run computes the state itself, and needs no pre-image for what it has computed.
        assert [reproduction.difference for reproduction in reproduce_range(view, 1, 3)] == [
            None,
            None,
            None,
        ]


def test_a_receipt_that_an_effect_emitted_is_compared_too(used):
    with used.view() as view:
        rows = view.tables.scan(TableQuery(schema.receipts, {"receipt_kind": "extraction_attempt"}))
        operation_id = rows[0]["operation_id"]
        assert reproduce(view, operation_id).difference is None
    copy = orjson.loads(rows[0]["receipt_bytes"]) | {"current_state": "cancelled"}
    with used.transaction() as transaction:
        key = (rows[0]["receipt_sequence"],)
        changed = {"receipt_bytes": orjson.dumps(copy)}
        transaction.tables.update(schema.receipts, key, changed)
    with used.view() as view:
        spoilt = reproduce(view, operation_id).difference
    with used.transaction() as transaction:
        back = {"receipt_bytes": rows[0]["receipt_bytes"]}
        transaction.tables.update(schema.receipts, key, back)
    assert spoilt is not None
    assert "receipt" in spoilt


# --- order ------------------------------------------------------------------------------------


def chain(ledger, *parents):
    """Operations o-0, o-1, … with these causal parents; returns their ids."""
    for number, names in enumerate(parents):
        document = create(f"n-{number}", "Note")
        document |= {"operation_id": f"o-{number}", "causal_parent_operation_ids": list(names)}
        assert code_of(submit(ledger, document, submitter="orchestrator")) is None


def verdicts(ledger, first, last, registry=IN_USE):
    with ledger.view() as view:
        return list(replay_all(view, first, last, BLOCKING, registry))


@pytest.mark.spec("§3.4")
def test_parents_are_replayed_before_their_children(ledger):
    chain(ledger, [], ["o-0"], ["o-1"], ["o-0", "o-2"])
    operation_ids = [verdict.operation_id for verdict in verdicts(ledger, 1, 4)]
    assert operation_ids == ["o-0", "o-1", "o-2", "o-3"]


@pytest.mark.spec("§3.4")
def test_a_child_of_what_was_not_replayed_is_blocked_and_names_it(ledger):
    asking = create("n", "Note") | {"operation_id": "asking"}
    submit_answered(ledger, asking, b"answer")
    chain(ledger, ["asking"], ["o-0"], [], ["o-2"])
    by_operation = {verdict.operation_id: verdict for verdict in verdicts(ledger, 1, 5, BUMPED)}
    assert by_operation["asking"].block_reason == "fingerprint_mismatch"
    for child, parent in (("o-0", "asking"), ("o-1", "o-0")):
        assert by_operation[child].block_reason == "operation_not_replayable"
        assert by_operation[child].blocked_by_operation_id == parent
        assert not by_operation[child].output_reproduced
    assert by_operation["o-2"].output_reproduced
    assert by_operation["o-3"].output_reproduced
    with ledger.transaction() as transaction:
        recorded = replay_range(transaction, 1, 5, BLOCKING, BUMPED)
    assert [replayed_row.output_reproduced for replayed_row in recorded] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert len(receipts_of_kind(ledger, "audit_replay")) == 5
    assert findings(ledger) == ()


def test_a_parent_outside_of_the_range_counts_as_replayed(ledger):
    asking = create("n", "Note") | {"operation_id": "asking"}
    submit_answered(ledger, asking, b"answer")
    chain(ledger, ["asking"], ["o-0"])
    assert [verdict.output_reproduced for verdict in verdicts(ledger, 2, 3, BUMPED)] == [True, True]


@pytest.mark.spec("§2.7", "§2.8")
def test_of_parents_that_an_earlier_log_lacks_or_has_later_only_a_later_one_blocks(ledger):
    caused = {"o-0": ["nowhere"], "o-1": ["o-2"], "o-2": ["o-1", "o-0"], "o-3": ["o-0"]}
    documents = [
        create(f"n-{name}", "Note", envelope={"operation_id": name})
        | {"causal_parent_operation_ids": parents}
        for name, parents in caused.items()
    ]
    assert migrated(ledger, *map(lite, documents)).superseded == 4
    verdict_list = verdicts(ledger, 1, 4)
    assert [
        (operation.operation_id, operation.blocked_by_operation_id) for operation in verdict_list
    ] == [
        ("o-0", None),
        ("o-1", "o-2"),
        ("o-2", "o-1"),
        ("o-3", None),
    ]
    # The later parent is outside of the range.
    assert [verdict.output_reproduced for verdict in verdicts(ledger, 1, 2)] == [True, True]
    assert findings(ledger) == ()


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 1), (1, RANGE_MAX + 1)])
def test_a_range_has_bounds(ledger, first, last):
    with pytest.raises(KernelError) as caught, ledger.transaction() as transaction:
        replay_range(transaction, first, last, "record_only", IN_USE)
    assert caught.value.code == "replay_range_invalid"


# --- no model ---------------------------------------------------------------------------------


@pytest.mark.spec("V3-AT-24")
def test_replaying_opens_no_socket(ledger, answered_operation, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a socket was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    assert (
        replay(ledger, answered_operation, BLOCKING, BUMPED).block_reason == "fingerprint_mismatch"
    )
    assert replay(ledger, answered_operation).output_reproduced


class CountedClient:
    """A model and the registry of it, in one object, as a careless caller might hand over."""

    calls = 0

    def current_version(self, model_version):
        return model_version

    def complete(self, *_, **__):
        self.calls += 1

    __call__ = generate = invoke = complete


@pytest.mark.spec("V3-AT-24")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_client_within_reach_is_never_called(ledger, answered_operation, strategy):
    client = CountedClient()
    assert replay(ledger, answered_operation, strategy, client).output_reproduced
    with ledger.transaction() as transaction:
        replay_range(transaction, 1, 2, strategy, client)
    assert client.calls == 0


@pytest.mark.spec("V3-AT-24", "K16")
def test_nothing_that_replay_imports_could_reach_a_model():
    code = "import sys, kernel.replay.replay_receipts;print('\\n'.join(sorted(sys.modules)))"
    names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "kernel.replay.reproduce" in names
    ours = [name for name in names if name.split(".")[0] in ("actors", "queues", "workers")]
    assert ours == []
    assert not {"httpx", "http.client", "urllib3", "requests", "openai"} & set(names)
    clients = [name for name in names if name.startswith("kernel.") and "client" in name]
    assert clients == []
