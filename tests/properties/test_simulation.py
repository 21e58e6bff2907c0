"""Whatever is simulated, wherever the ledger stands: nothing changes, and the preview is true."""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.model.result import RejectedResult
from kernel.verify import verify
from tests.kernel.build import (
    changed,
    code_of,
    everything,
    informed,
    ledger_on,
    submit,
    twin,
)
from tests.kernel.simulations import shown, simulatable_course, simulate

COURSE = simulatable_course()
PLACES = st.integers(0, len(COURSE) - 1)
CLASSES = st.sampled_from(["public_open", "work_product_internal", "firewalled", "sealed"])
EXAMPLES = settings().max_examples

HELD_STILL = {
    *(table.name for table in schema.STATE_TABLES),
    *("outbox", "outbox_outcomes", "pre_images", "belief_events", "belief_sessions"),
}

_IDS = frozenset({"preview_id", "simulated_operation_id"})


def still(ledger):
    return {name: rows for name, rows in everything(ledger).items() if name in HELD_STILL}


def places(value, path=""):
    """Every dotted path into a document."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for name, item in items:
        yield f"{path}{name}"
        if isinstance(item, dict | list):
            yield from places(item, f"{path}{name}.")


@functools.cache
def standing(place):
    """A ledger on which the course was taken up to a place, and its host; nobody writes to it."""
    if not place:
        return ledger_on(MemoryStore())
    ledger, fake = twin(*standing(place - 1))
    document = COURSE[place - 1]
    assert code_of(submit(ledger, document, submitter="orchestrator")) is None, document
    return ledger, fake


def at(place):
    """A ledger of one's own on which the course was taken up to a place."""
    ledger, _ = twin(*standing(place))
    return ledger


def images(ledger, sequence):
    """What an operation left behind, by record; without the times at which it did."""
    with ledger.view() as view:
        rows = view.tables.scan(
            TableQuery(schema.applied_effects, {"ec_sequence_number": sequence})
        )
        stored = {(row["store"], row["record_key"]) for row in rows}
        records = {}
        committed_at = view.log_rows(after=sequence - 1, limit=1)[0]["committed_at"]
        for store, key in stored:
            table = schema.metadata.tables[store]
            if "record" in table.columns:
                record = view.record(table, key)
                records[store, key] = {
                    name: value for name, value in record.items() if value != committed_at
                }
        return records


@pytest.mark.spec("INV-G-SIM-1", "V3-AT-10")
@settings(max_examples=EXAMPLES)
@given(place=PLACES, other=PLACES, retention=st.sampled_from(["ephemeral", "durable"]))
def test_simulating_any_operation_at_any_place_of_the_course_changes_no_state(
    place, other, retention
):
    ledger = at(place)
    before = still(ledger)
    result = simulate(ledger, COURSE[other], retention=retention)
    assert result.outcome == "previewed"
    assert still(ledger) == before
    with ledger.view() as view:
        verification = verify(view)
    assert verification.ok, verification.findings


@pytest.mark.spec("§11.5")
@pytest.mark.parametrize("place", range(len(COURSE)), ids=lambda place: f"step-{place}")
def test_what_was_previewed_is_what_submitting_it_does(place):
    ledger = at(place)
    with ledger.view() as view:
        document = informed(view, {**COURSE[place]})
    state = shown(simulate(ledger, document))
    assert state.would_be_rejected is None
    result = submit(ledger, document, submitter="orchestrator")
    assert code_of(result) is None
    previewed = {
        (change.store, change.record_key): change.after for change in state.preview_payload.changes
    }
    assert previewed == images(ledger, result.ec_sequence_number)
    emitted = tuple(receipt["receipt_kind"] for receipt in result.emitted_receipts)
    assert state.preview_payload.would_emit_receipts == emitted


@pytest.mark.spec("§11.5")
@settings(max_examples=EXAMPLES)
@given(
    place=PLACES,
    other=PLACES,
    field=st.sampled_from(
        ["policy_generation_id", "idempotency_key", "actor", "primitive_effects.0.target_ref"]
    ),
    value=st.sampled_from(["n", "PG-9", "nobody", 7, None, "agent"]),
)
def test_a_preview_refuses_what_the_kernel_refuses_and_for_the_same_reason(
    place, other, field, value
):
    ledger = at(place)
    document = changed(COURSE[other], {field: value})
    state = shown(simulate(ledger, document))
    result = submit(ledger, document, submitter="orchestrator")
    refused = state.would_be_rejected
    if isinstance(result, RejectedResult):
        assert refused is not None
        assert (refused.check, refused.reason_code) == (
            result.rejection.check,
            result.rejection.reason_code,
        )
    elif result.duplicate:
        assert refused is not None
        assert refused.check == "V2"
    else:
        assert refused is None


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def spoiled(draw):
    """A step of the course with anything at all in one of its places."""
    document = draw(st.sampled_from(COURSE))
    path = draw(st.sampled_from([*places(document)]))
    return changed(document, {path: draw(ODD)})


@pytest.mark.spec("§11.5", "V3-AT-10")
@settings(max_examples=EXAMPLES * 2)
@given(document=st.one_of(spoiled(), ODD), place=st.sampled_from([0, len(COURSE) // 2]))
def test_anything_at_all_is_answered_and_changes_no_state(document, place):
    ledger = at(place)
    before = still(ledger)
    result = simulate(ledger, document)
    assert result.outcome in ("previewed", "not_supported", "rejected")
    assert still(ledger) == before
    with ledger.view() as view:
        verification = verify(view)
    assert verification.ok, verification.findings


@pytest.mark.spec("§11.5")
@pytest.mark.parametrize("value", [2**53, 2.0**53, 1e17, 2**64, -(2.0**53)])
def test_a_number_too_large_to_be_read_back_is_refused_wherever_it_stands(value):
    ledger = at(len(COURSE) // 2)
    for document in COURSE:
        place = "primitive_effects.0.payload.number"
        result = simulate(ledger, changed(document, {place: value}))
        refused = shown(result).would_be_rejected
        assert (refused.check, refused.reason_code) == ("V1", "envelope_schema_invalid")


@pytest.mark.spec("§11.9", "OBL-A-SIMULATE-COMPOSE-V16-01")
@settings(max_examples=EXAMPLES // 2)
@given(place=PLACES, others=st.lists(PLACES, min_size=1, max_size=4), restricted=CLASSES)
def test_composed_simulations_are_deterministic_and_carry_the_taint_on(place, others, restricted):
    chains = []
    for _ in range(2):
        ledger = at(place)
        before = still(ledger)
        sources, chain = [], []
        tainted = {
            "source_visibility_taint": [restricted],
            "resolved_output_visibility_class": restricted,
        }
        for other in others:
            document = COURSE[other] | {"source_refs": sources} | (tainted if not sources else {})
            result = simulate(ledger, document)
            chain.append(result)
            sources = [result.preview.preview_id]
        assert still(ledger) == before
        chains.append(chain)
    ranks = ["public_open", "work_product_internal", "firewalled", "sealed"]
    taints = [ranks.index(first.preview.simulation_visibility_taint) for first in chains[0]]
    assert taints == sorted(taints)
    assert taints[0] >= ranks.index(restricted)
    first, other = (
        [{k: v for k, v in r.preview.document().items() if k not in _IDS} for r in chain]
        for chain in chains
    )
    assert _anonymous(first, chains[0]) == _anonymous(other, chains[1])


def _anonymous(documents, chain):
    """Documents in which the ids of a chain's own simulations are numbers."""
    text = repr(documents)
    for number, result in enumerate(chain):
        text = text.replace(result.submission.operation_id, f"#{number}")
    return text


@pytest.mark.spec("§11.9")
@settings(max_examples=EXAMPLES // 2)
@given(place=PLACES, other=PLACES)
def test_the_same_simulation_on_the_same_state_gives_the_same_preview_but_for_its_ids(place, other):
    ledger = at(place)
    first, two = (simulate(ledger, COURSE[other]).preview.document() for _ in range(2))
    assert {k: v for k, v in first.items() if k not in _IDS} == {
        k: v for k, v in two.items() if k not in _IDS
    }
