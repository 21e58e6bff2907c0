"""INV-A-BRIDGE-1 where the record can show it: epochs, what a run has read, loops, halts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.records.implications.halts import EXCEEDED, HALTED, halts_of
from kernel.records.implications.loop_limits import CHAIN_EPOCHS_MAX, CYCLE_EPOCHS_MAX, loop_id_of
from kernel.records.implications.runs import newest_epoch, run_of
from tests.kernel.build import (
    accept,
    adapt,
    code_of,
    create,
    effect,
    envelope,
    findings,
    memory_ledger,
    receipts_of_kind,
    submit,
)
from tests.kernel.implied import (
    DETECTOR,
    begin_run,
    go_round,
    halt,
    implied,
    resumption,
    run_envelope,
)

BRIDGE = pytest.mark.spec("INV-A-BRIDGE-1", "§19.1")
NOTE_LOOP = loop_id_of("field_adapt", "n")


def noted(ledger, *names):
    return accept(ledger, *(create(name, "Note") for name in names or ("n",)))


def refused(ledger, document, submitter="orchestrator"):
    result = submit(ledger, document, submitter=submitter)
    return code_of(result)


def standing(ledger):
    with ledger.view() as view:
        return halts_of(view, limit=1000)


# Runs


@BRIDGE
@pytest.mark.spec("K31")
def test_runs_are_numbered_over_all_detectors_and_each_goes_on_where_its_last_one_ended(ledger):
    noted(ledger)
    assert begin_run(ledger, "one") == 1
    assert begin_run(ledger, "two") == 2
    assert begin_run(ledger, "one") == 3
    with ledger.view() as view:
        first, second = run_of(view, "one"), run_of(view, "two")
        assert newest_epoch(view) == 3
    assert (first.after_sequence, first.through_sequence) == (1, 3)
    assert (second.after_sequence, second.through_sequence) == (0, 2)
    assert findings(ledger) == ()


@BRIDGE
@pytest.mark.parametrize(
    ("epoch", "after", "through"),
    [(1, 0, 1), (3, 1, 2), (2, 0, 2), (2, 2, 2), (2, 1, 1), (2, 1, 3), (2, 1, 4)],
    ids=["old", "skipped", "again", "gap", "nothing", "itself", "future"],
)
def test_a_run_that_is_not_the_next_is_refused(ledger, epoch, after, through):
    noted(ledger)
    begin_run(ledger)
    with ledger.view() as view:
        assert view.head().ec_sequence_number == 2
    assert refused(ledger, run_envelope(epoch, after, through)) == "implication_run_does_not_follow"


@BRIDGE
@pytest.mark.spec("§20.1")
@pytest.mark.parametrize("document", [run_envelope(1, 0, 1), halt(), resumption("detector:echo")])
def test_nobody_but_the_runtime_speaks_of_runs_and_halts(ledger, document):
    noted(ledger)
    said = document | {"actor": "user"}
    assert refused(ledger, said, "caller") == "envelope_actor_unauthorized"


# What a run may emit


@BRIDGE
@pytest.mark.spec("K31")
def test_what_is_emitted_carries_the_number_of_its_run_and_what_implied_it(ledger):
    created = noted(ledger)
    epoch = begin_run(ledger)
    operation_id = accept(ledger, implied(adapt("n", title="t"), epoch, created))
    with ledger.view() as view:
        stated = view.envelope(operation_id)["implication"]
    assert stated["implication_epoch"] == epoch
    assert stated["implied_by_operation_ids"] == [created]
    assert findings(ledger) == ()


@BRIDGE
@pytest.mark.spec("K31")
def test_a_run_never_sees_what_belongs_to_its_own_epoch(ledger):
    created = noted(ledger)
    epoch = begin_run(ledger)
    first = accept(ledger, implied(adapt("n", title="t"), epoch, created))
    in_the_same = implied(adapt("n", title="u"), epoch, first)
    assert refused(ledger, in_the_same) == "implication_source_not_in_run"
    later = implied(adapt("n", title="u"), begin_run(ledger), first)
    assert refused(ledger, later) is None


@BRIDGE
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"implication_epoch": 1}, "implication_epoch_not_open"),
        ({"implication_epoch": 3}, "implication_epoch_not_open"),
        ({"detector": "another"}, "implication_epoch_not_open"),
        ({"implied_by_operation_ids": ["nobody"]}, "implication_source_unknown"),
        ({"implied_by_operation_ids": []}, "envelope_schema_invalid"),
        ({"implication_epoch": 0}, "envelope_schema_invalid"),
        ({"implied_by_operation_ids": ["x"] * 65}, "envelope_schema_invalid"),
    ],
)
def test_what_is_of_no_run_that_stands_is_refused(ledger, changes, code):
    created = noted(ledger)
    begin_run(ledger)
    document = implied(adapt("n", title="t"), begin_run(ledger), created)
    document["implication"] |= changes
    assert refused(ledger, document) == code


@BRIDGE
def test_what_an_earlier_run_has_read_is_not_implied_by_a_later_one(ledger):
    created = noted(ledger)
    begin_run(ledger)
    document = implied(adapt("n", title="t"), begin_run(ledger), created)
    assert refused(ledger, document) == "implication_source_not_in_run"


@BRIDGE
@pytest.mark.spec("§20.1")
def test_a_caller_cannot_say_that_its_operation_was_implied(ledger):
    created = noted(ledger)
    document = implied(adapt("n", title="t"), begin_run(ledger), created) | {"actor": "user"}
    assert refused(ledger, document, "caller") == "envelope_actor_unauthorized"


@pytest.mark.spec("INV-K-OUTCOME-1")
@pytest.mark.parametrize("kind", ["ruling_disposition_write", "filing_relationship_write"])
def test_no_ruling_and_no_relationship_is_implied(ledger, kind):
    created = noted(ledger)
    document = envelope(kind, [effect(kind, "r", dispositions=[], scope_targets=[])])
    said = implied(document, begin_run(ledger), created)
    assert refused(ledger, said) == "implication_adjudicates"


# Loops


@BRIDGE
def test_a_loop_is_halted_after_ten_epochs_with_a_durable_receipt_that_says_why(ledger):
    results = go_round(ledger, ["n"], noted(ledger), CYCLE_EPOCHS_MAX + 1)
    assert [code_of(result) for result in results] == [None] * CYCLE_EPOCHS_MAX + [EXCEEDED]
    [receipt] = receipts_of_kind(ledger, EXCEEDED)
    assert (receipt["operation_kind"], receipt["target_ref"]) == ("field_adapt", "n")
    assert receipt["repetitions"] == CYCLE_EPOCHS_MAX
    assert receipt["detector"] == DETECTOR
    assert receipt["envelope"]["target_refs"] == ["n"]
    [stands] = standing(ledger)
    assert (stands.halt_id, stands.reason_code) == (NOTE_LOOP, EXCEEDED)
    assert (stands.operation_kind, stands.target_ref) == ("field_adapt", "n")
    assert findings(ledger) == ()


@BRIDGE
@given(st.integers(min_value=1, max_value=6), st.data())
def test_a_loop_over_any_number_of_targets_ends(period, data):
    """However long a way round a loop takes, each of its targets is counted along it."""
    ledger = memory_ledger()
    targets = [f"n{number}" for number in range(period)]
    first = noted(ledger, *targets)
    noise = data.draw(st.booleans(), "other people's work in between")
    by, emitted = first, 0
    for number in range(period * CYCLE_EPOCHS_MAX + 1):
        if noise:
            accept(ledger, adapt(targets[0], title=f"by hand {number}"))
        document = implied(
            adapt(targets[number % period], title=str(number)), begin_run(ledger), by
        )
        code = refused(ledger, document)
        by, emitted = document["operation_id"], emitted + (code is None)
    assert code == EXCEEDED
    assert emitted == period * CYCLE_EPOCHS_MAX
    assert [stands.target_ref for stands in standing(ledger)] == [targets[0]]


@BRIDGE
def test_what_many_operations_imply_for_one_target_each_by_itself_is_no_loop(ledger):
    noted(ledger)
    for number in range(3 * CYCLE_EPOCHS_MAX):
        by = accept(ledger, adapt("n", title=f"by hand {number}"))
        document = implied(adapt("n", note=str(number)), begin_run(ledger), by)
        assert refused(ledger, document) is None
    assert standing(ledger) == []


@BRIDGE
def test_fresh_work_on_the_target_of_a_loop_does_not_hide_it(ledger):
    by = noted(ledger)
    for number in range(CYCLE_EPOCHS_MAX + 1):
        fresh = accept(ledger, adapt("n", title=f"by hand {number}"))
        epoch = begin_run(ledger)
        looping = implied(adapt("n", note=f"loop {number}"), epoch, by)
        code = refused(ledger, looping)
        if code is not None:
            break
        by = looping["operation_id"]
        assert refused(ledger, implied(adapt("n", note=f"{number}"), epoch, fresh)) is None
    assert (code, number) == (EXCEEDED, CYCLE_EPOCHS_MAX)


@BRIDGE
def test_a_chain_to_ever_new_targets_ends_as_well(ledger):
    by = noted(ledger)
    for _ in range(CHAIN_EPOCHS_MAX):
        document = implied(create(f"made-by-{by}", "Note"), begin_run(ledger), by)
        assert refused(ledger, document) is None
        by = document["operation_id"]
    document = implied(create("one-too-many", "Note"), begin_run(ledger), by)
    assert refused(ledger, document) == EXCEEDED
    [receipt] = receipts_of_kind(ledger, EXCEEDED)
    assert receipt["chain_epochs"] == CHAIN_EPOCHS_MAX + 1


# Halts


@BRIDGE
def test_a_loop_stays_halted_and_others_go_on(ledger):
    first = noted(ledger, "n", "m")
    go_round(ledger, ["n"], first, CYCLE_EPOCHS_MAX + 1)
    by = accept(ledger, adapt("n", title="by hand"))
    epoch = begin_run(ledger)
    assert refused(ledger, implied(adapt("n", title="t"), epoch, by)) == HALTED
    assert refused(ledger, implied(adapt("m", title="t"), epoch, by)) is None
    assert refused(ledger, adapt("n", title="by hand again")) is None
    assert len(receipts_of_kind(ledger, EXCEEDED)) == 1


@BRIDGE
def test_a_person_resumes_it_by_an_operation_and_it_is_counted_anew(ledger):
    first = noted(ledger)
    go_round(ledger, ["n"], first, CYCLE_EPOCHS_MAX + 1)
    accept(ledger, resumption(NOTE_LOOP))
    assert standing(ledger) == []
    by = accept(ledger, adapt("n", title="by hand"))
    results = go_round(ledger, ["n"], by, CYCLE_EPOCHS_MAX + 1)
    assert [code_of(result) for result in results] == [None] * CYCLE_EPOCHS_MAX + [EXCEEDED]
    [resumed] = receipts_of_kind(ledger, "implication_detection_resumed")
    assert resumed["reason"] == "the rule was mended"
    assert findings(ledger) == ()


@BRIDGE
def test_nobody_but_a_person_resumes_and_only_what_is_halted(ledger):
    go_round(ledger, ["n"], noted(ledger), CYCLE_EPOCHS_MAX + 1)
    by_system = resumption(NOTE_LOOP, actor="system")
    assert refused(ledger, by_system) == "implication_resume_unauthorized"
    assert refused(ledger, resumption("unheard of")) == "implication_halt_unknown"
    assert len(standing(ledger)) == 1


@BRIDGE
def test_a_halted_detector_runs_no_more_until_it_is_resumed(ledger):
    noted(ledger)
    begin_run(ledger)
    accept(ledger, halt())
    assert refused(ledger, halt()) == HALTED
    assert refused(ledger, run_envelope(2, 1, 2)) == HALTED
    assert refused(ledger, run_envelope(2, 0, 2, "another")) is None
    accept(ledger, resumption(f"detector:{DETECTOR}"))
    assert refused(ledger, run_envelope(3, 1, 2)) is None


@BRIDGE
@pytest.mark.spec("§17.5")
@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (schema.implication_detectors, {"through_sequence": 0}),
        (schema.implied_operations, {"chain_epochs": 1}),
        (schema.implication_loops, {"repetitions": 1}),
        (schema.implication_halts, {"target_ref": "m"}),
    ],
)
def test_verification_computes_marks_counters_and_halts_again(ledger, table, changes):
    go_round(ledger, ["n"], noted(ledger), CYCLE_EPOCHS_MAX + 1)
    assert findings(ledger) == ()
    with ledger.transaction() as transaction:
        row = next(
            row for row in transaction.tables.scan(TableQuery(table)) if row != row | changes
        )
        key = row[table.primary_key.columns[0].name]
        transaction.tables.update(table, (key,), changes)
    assert {finding.table for finding in findings(ledger)} == {table.name}
