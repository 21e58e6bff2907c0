"""PT-3: whatever was recorded is reproduced, and another model's fingerprint blocks it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.ledger.supersession import is_lite
from kernel.migration.job import migrate
from kernel.replay.judgement import replay_all
from kernel.replay.replay_receipts import BLOCKED_KIND, replay_range
from kernel.replay.reproduce import reproduce, reproduce_range
from kernel.transaction.kernel import Kernel
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from tests.kernel.build import (
    adapt,
    code_of,
    create,
    drain,
    effect,
    envelope,
    findings,
    link,
    memory_ledger,
    relink,
    submit,
    submit_answered,
    unlink,
)
from tests.kernel.every import snapshot
from tests.kernel.extractions import completeness
from tests.kernel.lites import lite, take
from tests.properties.family import BESIDE, FAMILY

NODES = st.sampled_from(["a", "b", "c"])
EDGES = st.sampled_from(["e1", "e2"])
KINDS = st.sampled_from(["Note", "VersionedClaim", "ConsolidatedUnderstanding"])
VALUES = st.sampled_from([0, 1, 0.5, 1e21, -2.5e-9, "", "\u00e9\U0001f600", None, [1.0], {"x": {}}])
MODELS = st.sampled_from(["old", "new", "gone"])
BLOCKING = "blocked_on_fingerprint_mismatch"
NEW_ONLY = ActiveModels({"old": "new", "new": "new"})

pytestmark = pytest.mark.timeout(600)
# A thousand ledgers are recorded and replayed; a busy machine takes minutes over them.


def attempted(number, prior, current):
    payload = {"prior_state": prior, "current_state": current, "state_change_reason": "r"}
    payload |= completeness(prior, current)
    if number > 1:
        payload["parent_operation_id"] = f"attempt-{number - 1}"
    step = effect("extraction_state_transition", "run", attempt_number=number, **payload)
    return envelope("extraction_state_change", [step]) | {"operation_id": f"attempt-{number}"}


def generation(number, *, back=False):
    kind = "binding_generation_revert" if back else "binding_generation_advance"
    stated = {"binding_generation_id": str(number), "binding_snapshot": snapshot()}
    payload = stated | {"effective_at": "2026-02-09T00:00:00Z"}
    return envelope(kind, [effect(kind, "binding", **payload)])


def membership(node, state):
    step = effect("membership_write", node, corpus_id="corpus:test", to_state=state)
    verbs = {"confirmed": "corpus_membership_confirm", "rejected": "corpus_membership_reject"}
    return envelope(verbs[state], [step])


DOCUMENTS = st.one_of(
    st.builds(create, NODES, KINDS),
    st.builds(lambda node, value: adapt(node, field=value), NODES, VALUES),
    st.builds(lambda node, value: adapt(node, authority=value), NODES, st.sampled_from([0, 1])),
    st.builds(link, EDGES, NODES, NODES, st.sampled_from(["core", "supporting"])),
    st.builds(unlink, EDGES),
    st.builds(lambda edge: relink(effect("edge_reclassify", edge, edge_type="u")), EDGES),
    st.builds(membership, NODES, st.sampled_from(["confirmed", "rejected"])),
    st.builds(generation, st.integers(1, 3), back=st.booleans()),
    st.builds(
        attempted,
        st.integers(1, 2),
        st.sampled_from(["pending", "running", "degraded"]),
        st.sampled_from(["running", "degraded", "cancelled"]),
    ),
)
STEPS = st.lists(st.tuples(DOCUMENTS, st.none() | MODELS), min_size=1, max_size=8)


def recorded(steps):
    """A ledger on which whatever was admissible is recorded, and what asked which model."""
    ledger, models = memory_ledger(), {}
    submit(ledger, create("a", "Note"), create("b", "VersionedClaim", authority=0.5))
    for number, (built, model) in enumerate(steps):
        document = built | {"operation_id": f"op:{number}", "idempotency_key": f"key:{number}"}
        if model is None:
            submit(ledger, document, submitter="orchestrator")
            continue
        before = answers(ledger)
        if code_of(submit_answered(ledger, document, b"said", model_version=model)) is None:
            models[document["operation_id"]] = model
        else:
            # Whoever put an answer takes it back when its envelope was refused.
            with ledger.transaction() as transaction:
                for blob_ref in answers(transaction) - before:
                    transaction.drop_blob(blob_ref)
    drain(ledger)
    return ledger, models


def answers(where):
    if hasattr(where, "tables"):
        return {row["blob_ref"] for row in where.tables.scan(TableQuery(schema.blobs))}
    with where.view() as view:
        return answers(view)


@pytest.mark.spec("PT-3", "§3.4")
@FAMILY
@given(STEPS, st.data())
def test_every_recorded_operation_gives_its_bytes_again_alone_and_in_any_range(steps, data):
    ledger, _ = recorded(steps)
    with ledger.view() as view:
        last = view.head().ec_sequence_number
        first = data.draw(st.integers(1, last))
        ran = list(reproduce_range(view, first, last))
        alone = [reproduce(view, operation.operation_id) for operation in ran]
    assert [replay.ec_sequence_number for replay in ran] == list(range(first, last + 1))
    assert [replay.difference for replay in ran] == [None] * len(ran)
    assert alone == ran


COMING = st.sampled_from(["of 1.6", "of 1.5", "of 1.5, migrated at once"])


@pytest.mark.spec("PT-3", "K24", "§2.8")
@BESIDE
@given(st.lists(st.tuples(DOCUMENTS, COMING), min_size=1, max_size=8), st.data())
def test_what_was_superseded_gives_its_bytes_again_at_its_first_place(steps, data):
    ledger = memory_ledger()
    submit(ledger, create("a", "Note"), create("b", "VersionedClaim", authority=0.5))
    for number, (built, coming) in enumerate(steps):
        document = built | {"operation_id": f"op:{number}", "idempotency_key": f"key:{number}"}
        if coming == "of 1.6":
            submit(ledger, document, submitter="orchestrator")
        else:
            take(ledger, lite(document))
        if coming == "of 1.5, migrated at once":
            migrate(Kernel(), ledger)
    migrate(Kernel(), ledger)
    drain(ledger)
    with ledger.view() as view:
        rows = view.log_rows()
        first = data.draw(st.integers(1, len(rows)))
        last = data.draw(st.integers(first, len(rows)))
        ran = list(reproduce_range(view, first, last))
        alone = [reproduce(view, operation.operation_id) for operation in ran]
        superseded = {row["supersedes_sequence"] for row in rows}
        assert verify(view).findings == ()
    places = [row for row in rows[first - 1 : last] if not row["supersedes_sequence"]]
    assert [replay.ec_sequence_number for replay in ran] == [
        row["ec_sequence_number"] for row in places
    ]
    assert [replay.difference for replay in ran] == [None] * len(ran)
    assert [replay.applied for replay in ran] == [
        not is_lite(row) or row["ec_sequence_number"] in superseded for row in places
    ]
    assert alone == ran


class AskedOnly:
    """Says which version is in use, and is a model that nobody may call."""

    def __init__(self):
        self.calls = []

    def current_version(self, model_version):
        return NEW_ONLY.current_version(model_version)

    def __call__(self, *arguments):
        self.calls.append(arguments)

    def __getattr__(self, name):
        self.calls.append(name)
        raise AttributeError(name)


OWN_REASONS = {
    BLOCKING: {
        "old": "fingerprint_mismatch",
        "gone": "recorded_output_unavailable",
    },
    "record_only": {"gone": "recorded_output_unavailable"},
}


def expected_reasons(transaction, models, strategy):
    """Why each operation is blocked: for a parent that is blocked, else for its own model."""
    reasons = {}
    for row in transaction.log_rows(after=0, limit=1000):
        name = row["operation_id"]
        envelope = transaction.envelope(name)
        waits = [reasons.get(parent_id) for parent_id in envelope["causal_parent_operation_ids"]]
        own = OWN_REASONS[strategy].get(models.get(name))
        reasons[name] = "operation_not_replayable" if any(waits) else own
    return reasons


@pytest.mark.spec("PT-3", "INV-A-REPLAY-LLM-1", "V3-AT-24")
@BESIDE
@given(STEPS)
def test_another_model_blocks_what_asked_one_and_what_follows_and_is_never_asked(steps):
    ledger, models = recorded(steps)
    with ledger.transaction() as transaction:
        last = transaction.head().ec_sequence_number
        for strategy in OWN_REASONS:
            registry = AskedOnly()
            receipts = replay_range(transaction, 1, last, strategy, registry)
            assert registry.calls == []
            assert [receipt.original_operation_id for receipt in receipts] == [
                row["operation_id"] for row in transaction.log_rows(after=0, limit=1000)
            ]
            reasons = expected_reasons(transaction, models, strategy)
            for receipt in receipts:
                name = receipt.original_operation_id
                assert receipt.block_reason == reasons[name]
                assert receipt.output_reproduced == (reasons[name] is None)
                if receipt.block_reason == "operation_not_replayable":
                    assert reasons[receipt.blocked_by_operation_id] is not None
                elif receipt.output_reproduced:
                    assert receipt.fingerprint_match == (models.get(name) in (None, "new"))
                kinds = [kept["receipt_kind"] for kept in transaction.receipts_of(name)]
                stopped = strategy == BLOCKING and reasons[name] == "fingerprint_mismatch"
                if strategy == BLOCKING:
                    assert (BLOCKED_KIND in kinds) == stopped


@pytest.mark.spec("PT-3")
@given(STEPS)
def test_a_ledger_on_which_everything_was_replayed_verifies(steps):
    ledger, _ = recorded(steps)
    with ledger.transaction() as transaction:
        last = transaction.head().ec_sequence_number
        for strategy in OWN_REASONS:
            replay_range(transaction, 1, last, strategy, AskedOnly())
    assert findings(ledger) == ()


GRAPHS = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        *(st.lists(st.integers(0, max(0, number - 1)), max_size=3) for number in range(count))
    )
)
"""By operation, the operations before it that caused it; the first names none."""


@pytest.mark.spec("§3.4", "PT-3")
@given(GRAPHS)
def test_whatever_causes_what_parents_come_first(graph):
    ledger = memory_ledger()
    parents = {
        f"o-{number}": [f"o-{own_name}" for own_name in names if own_name != number]
        for number, names in enumerate(graph)
    }
    for name, causes in parents.items():
        document = create(name, "Note", envelope={"operation_id": name})
        document |= {"causal_parent_operation_ids": causes}
        assert code_of(submit(ledger, document, submitter="orchestrator")) is None
    with ledger.view() as view:
        verdicts = list(replay_all(view, 1, len(graph), "record_only", NEW_ONLY))
        assert verify(view).findings == ()
    assert all(verdict.output_reproduced for verdict in verdicts)
    place = {operation.operation_id: index for index, operation in enumerate(verdicts)}
    assert place.keys() == parents.keys()
    for name, causes in parents.items():
        assert all(place[cause] < place[name] for cause in causes)
