"""A recompute is held against the record as it stood at the sequence that it names (§8.2, K12)."""

import math
from contextlib import suppress

import orjson
import pytest

from kernel.authority.as_of import GraphAsOf
from kernel.authority.strategy import BetaPosteriorMean, compute_authority
from kernel.authority.value import authority_of
from kernel.ledger import recent_changes, schema
from kernel.model.authority_strategy import AuthorityInput
from kernel.rollback.execute import rollback_operation
from kernel.transaction.kernel import Kernel
from kernel.values.errors import AuthorityInvalid
from tests.kernel.build import (
    accept,
    adapt,
    code_of,
    create,
    drain,
    effect,
    findings,
    link,
    memory_ledger,
    recompute,
    relink,
    taking,
    unlink,
    work,
)

UNDERSTANDING, CLAIM = "ConsolidatedUnderstanding", "VersionedClaim"

pytestmark = pytest.mark.spec("§8.2")


@pytest.fixture
def ledger():
    """Two claims and an understanding feed `u`, whose recompute is asked for."""
    ledger = memory_ledger()
    accept(
        ledger,
        create("claim", CLAIM, authority=1),
        create("other", CLAIM, authority=0.25),
        *(create(name, UNDERSTANDING) for name in "uvw"),
        link("1", "claim", "u"),
        link("2", "other", "u", "tangential"),
        link("3", "v", "u", "supporting"),
    )
    drain(ledger)
    accept(ledger, adapt("u", title="asked again"))
    return ledger


def read(ledger, name="u"):
    """What an honest worker hands in that reads now."""
    with ledger.view() as view:
        return recompute(view, name)


def stored(ledger, name="u"):
    with ledger.view() as view:
        return view.node(name)["payload"].get("cu_authority")


def undo(ledger, operation_id):
    with ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, operation_id)


def moved_away(ledger):
    moved = effect(
        "edge_create",
        "1",
        source_node_id="claim",
        target_node_id="w",
        edge_type="informs",
        edge_metadata={"essentiality": "core"},
    )
    accept(ledger, relink(effect("edge_remove", "1"), moved))


def retracted(ledger):
    accept(ledger, taking("collapse", "claim", "1"))


CHANGES = {
    "an input": lambda ledger: accept(ledger, adapt("claim", authority=0)),
    "an input, twice": lambda ledger: accept(
        ledger, adapt("claim", authority=0), adapt("claim", authority=0.5)
    ),
    "a retracted input": retracted,
    "a weight": lambda ledger: accept(
        ledger, relink(effect("edge_reclassify", "1", edge_metadata={"essentiality": "supporting"}))
    ),
    "an input less": lambda ledger: accept(ledger, unlink("1")),
    "an input less and back": lambda ledger: accept(ledger, unlink("1"), link("1", "claim", "u")),
    "an edge that leads elsewhere": moved_away,
    "an input more": lambda ledger: accept(ledger, link("4", "w", "u")),
    "the override": lambda ledger: accept(ledger, adapt("u", override_authority=0.5)),
    "nothing of it": lambda ledger: accept(ledger, create("note", "Note")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_read_before_a_change_is_recorded_and_what_it_makes_of_it_is_not(ledger, change):
    with ledger.view() as view:
        expected = authority_of(view, BetaPosteriorMean(), view.node("u"))[0]
        as_of = view.head().ec_sequence_number
    before = read(ledger)
    change(ledger)
    with ledger.view() as view:
        present = authority_of(view, BetaPosteriorMean(), view.node("u"))
        later = recompute(view, "u", as_of)
    if present[0] != expected:
        assert code_of(work(ledger, later)) in {
            "cu_authority_inputs_mismatch",
            "cu_authority_mismatch",
        }
    assert code_of(work(ledger, before)) is None
    assert stored(ledger) == expected
    drain(ledger)
    assert stored(ledger) == authority_of_now(ledger)
    assert findings(ledger) == ()


def authority_of_now(ledger):
    with ledger.view() as view:
        return authority_of(view, BetaPosteriorMean(), view.node("u"))[0]


@pytest.mark.parametrize("what", ["an edge", "an input"])
def test_an_undone_create_was_there_at_that_sequence(ledger, what):
    made = accept(ledger, link("4", "w", "u") if what == "an edge" else adapt("claim", authority=0))
    before = read(ledger)
    undo(ledger, made)
    assert code_of(work(ledger, before)) is None
    assert findings(ledger) == ()


def test_changes_and_recomputes_of_one_transaction_are_held_against_each_other(ledger):
    before = read(ledger)
    with ledger.view() as view:
        at = view.head().ec_sequence_number
    kernel = Kernel(conflict_window_ms=0)
    with ledger.transaction() as transaction:
        changed = kernel.submit(transaction, adapt("claim", authority=0), "caller", draws=False)
        assert code_of(changed) is None
        graph = GraphAsOf(transaction, at)
        assert graph.node("claim")["payload"]["authority"] == 1
        undone = kernel.submit(transaction, unlink("1"), "caller", draws=False)
        assert code_of(undone) is None
        assert [edge["edge_id"] for edge in GraphAsOf(transaction, at).input_edges("u")] == [*"123"]
        assert code_of(kernel.submit(transaction, before, "orchestrator")) is None
    assert stored(ledger) != authority_of_now(ledger)


def test_what_a_savepoint_took_back_was_never_written(ledger):
    with ledger.transaction() as transaction:
        at = transaction.head_now.ec_sequence_number
        kernel = Kernel(conflict_window_ms=0)
        for _ in range(2):
            with suppress(KeyError), transaction.savepoint():
                result = kernel.submit(transaction, unlink("1"), "caller", draws=False)
                assert code_of(result) is None
                assert len([*GraphAsOf(transaction, at).input_edges("u")]) == 3
                assert len([*transaction.input_edges("u")]) == 2
                raise KeyError
            assert len([*transaction.input_edges("u")]) == 3
        changed = kernel.submit(transaction, adapt("claim", authority=0.5), "caller")
        assert code_of(changed) is None, changed
        now = transaction.head_now.ec_sequence_number
        assert GraphAsOf(transaction, now).node("claim")["payload"]["authority"] == 0.5
        assert GraphAsOf(transaction, at).node("claim")["payload"]["authority"] == 1


def test_a_snapshot_that_lies_too_far_back_is_read_again(ledger, monkeypatch):
    monkeypatch.setattr(recent_changes, "SNAPSHOT_OPERATIONS_MAX", 3)
    before = read(ledger)
    accept(ledger, *(create(f"n{number}", "Note") for number in range(3)))
    late = read(ledger)
    accept(ledger, create("n3", "Note"))
    assert code_of(work(ledger, before)) == "recompute_as_of_too_old"
    assert code_of(work(ledger, late)) is None
    accept(ledger, *(adapt("n0", title=str(number)) for number in range(8)))
    assert findings(ledger) == ()


def test_more_effects_than_a_page_are_looked_back_over(ledger, monkeypatch):
    monkeypatch.setattr(recent_changes, "PAGE_ROWS", 1)
    before = read(ledger)
    for value in (0.5, 0.75, 0):
        accept(ledger, adapt("claim", authority=value), unlink("1"), link("1", "claim", "u"))
    assert code_of(work(ledger, before)) is None


# Numbers


@pytest.mark.spec("K13")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.5, -1e-9, None, "0.5", True])
def test_what_a_strategy_gives_is_a_number_from_0_to_1(value):
    class Broken:
        def compute(self, *_):
            return value

    with pytest.raises(AuthorityInvalid) as refused:
        compute_authority(Broken(), [], None)
    assert refused.value.code == "authority_out_of_range"


@pytest.mark.spec("K13")
def test_sums_that_overflow_are_refused():
    class Wide:
        def compute(self, inputs, _):
            return math.fsum(input_.captured_at_authority for input_ in inputs)

    inputs = [AuthorityInput("n", "1", "core", 1.7e308)] * 2
    with pytest.raises(AuthorityInvalid) as refused:
        compute_authority(Wide(), inputs, None)
    assert refused.value.code == "authority_sum_overflow"


@pytest.mark.spec("K13")
@pytest.mark.parametrize("value", [1e308, -1, "0.5", True])
def test_an_input_on_record_that_is_no_authority_is_refused_and_ends_nobody(ledger, value):
    before = read(ledger)
    with ledger.transaction() as transaction:
        row = transaction.tables.get(schema.nodes, "claim")
        record = row["record"].replace(b'"authority":1', b'"authority":' + orjson.dumps(value))
        assert record != row["record"]
        transaction.tables.update(schema.nodes, ("claim",), {"record": record})
    assert code_of(work(ledger, before)) == "authority_out_of_range"
