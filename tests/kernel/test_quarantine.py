"""Reads of a quarantined range carry a mark, and nothing is computed from it (§17.5)."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.audit.costs import cost_entries, cost_totals
from kernel.audit.export import export_lines
from kernel.audit.lineage import causal_ancestors
from kernel.audit.log import log_document
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditFilter, find_operations
from kernel.audit.preview import preview_rollback
from kernel.audit.proofs import operation
from kernel.audit.provenance_steps import provenance_of
from kernel.landscape.runtime.stretches import open_stretch
from kernel.landscape.runtime.views import run_view
from kernel.ledger import schema
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.ledger.quarantine import (
    RangeQuarantined,
    SequenceRange,
    merge_ranges,
    without,
)
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.records.sources import SourceClasses, sources_of
from kernel.replay.asof import StateAsOf
from kernel.replay.judgement import replay_all, replay_one
from kernel.rollback.plan import plan_operation
from kernel.rollback.rebuild import plan_rebuild
from kernel.transaction.kernel import Kernel
from kernel.transaction.rules import RULES
from kernel.values.model_registry import ActiveModels
from kernel.values.visibility import VISIBILITY_CLASSES
from kernel.verify import verify, violation
from kernel.verify.recent import AuditMark, audit_since
from kernel.verify.since import KeptTree, verify_since
from kernel.verify.violation import record_violation
from tests.kernel.archives import archive_next, memory_archive
from tests.kernel.build import (
    FakeHost,
    adapt,
    code_of,
    create,
    effect,
    envelope,
    memory_ledger,
    submit,
)
from tests.kernel.quarantining import change, lift, quarantined, ranges, row_of
from workers.views.log_proofs import inclusions
from workers.views.records import describe_operation

pytestmark = pytest.mark.spec("§17.5")

BAD = 3
"""The row that is damaged: the second write of `n-1`."""

MODELS = ActiveModels({})


@pytest.fixture
def ledger() -> Ledger:
    ledger = memory_ledger()
    submit(ledger, create("n-0", "Note"), create("n-1", "Note"))
    submit(ledger, adapt("n-1", title="first"))
    submit(ledger, adapt("n-0", title="other"), adapt("n-1", title="second"))
    return ledger


def operation_at(ledger: Ledger, sequence: int) -> str:
    return str(row_of(ledger, sequence)["operation_id"])


def open_run(view: LedgerView) -> str:
    stretch = open_stretch(view)
    assert stretch is not None
    return stretch.run_id


def state_as_of(view: LedgerView, sequence: int) -> StateAsOf:
    state = StateAsOf(view.tables, view.quarantines().expect_none_over)
    state.begin(sequence, ())
    return state


Question = Callable[[LedgerView, str], Any]

COMPUTED: dict[str, Question] = {
    "replay": lambda view, bad: replay_one(view, bad, "record_only", MODELS),
    "replay of a range": lambda view, _: list(replay_all(view, 1, 5, "record_only", MODELS)),
    "rollback": plan_operation,
    "preview of a rollback": preview_rollback,
    "rebuild": lambda view, _: plan_rebuild(Kernel(), view, 0),
    "export": lambda view, _: list(export_lines(view)),
    "proof": lambda view, bad: operation(view, bad, with_envelope=True),
    "inclusion": lambda view, _: inclusions(view, [1, BAD]),
    "records of a run": lambda view, _: run_view(view, open_run(view)),
    # What n-1 was before it, only its own effect says.
    "state before it": lambda view, _: state_as_of(view, BAD).get(schema.nodes, "n-1"),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_nothing_is_computed_from_it_until_it_is_lifted(ledger, name):
    bad = operation_at(ledger, BAD)
    stored = row_of(ledger, BAD)["row_bytes"]
    quarantine_id = quarantined(ledger, BAD)
    with ledger.view() as view, pytest.raises(RangeQuarantined) as refused:
        COMPUTED[name](view, bad)
    assert refused.value.code == "range_quarantined"
    assert refused.value.details == {
        "first_sequence": str(BAD),
        "last_sequence": str(BAD),
        "quarantine_ids": [quarantine_id],
    }
    assert "rotulus quarantine lift" in str(refused.value)
    change(ledger, BAD, stored)
    lift(ledger, quarantine_id)
    with ledger.view() as view:
        COMPUTED[name](view, operation_at(ledger, 5) if "rollback" in name else bad)


def test_what_others_wrote_is_computed_all_the_same(ledger):
    quarantined(ledger, BAD)
    with ledger.view() as view:
        plan_operation(view, operation_at(ledger, 4))
        assert replay_one(view, operation_at(ledger, 5), "record_only", MODELS).output_reproduced
        assert len(inclusions(view, [1, 2, 4])) == 3


def test_new_work_goes_on_on_the_same_record(ledger):
    quarantined(ledger, BAD)
    assert code_of(submit(ledger, adapt("n-1", title="third"))) is None
    named = create("n-9", "Note") | {"causal_parent_operation_ids": [operation_at(ledger, BAD)]}
    assert code_of(submit(ledger, named)) is None


def test_whatever_lists_operations_marks_them(ledger):
    bad = operation_at(ledger, BAD)
    quarantined(ledger, BAD)
    with ledger.view() as view:
        oldest = find_operations(view, AuditFilter()).entries
        newest = newest_operations(view, AuditFilter()).entries
        for entries in (oldest, newest):
            assert [each.ec_sequence_number for each in entries if each.quarantined] == [BAD]
        documents = [each.document() for each in oldest]
        assert [each.get("quarantined") for each in documents] == [None, None, True, None, None]
        rows = [log_document(view, row) for row in view.log_rows()]
        assert [each.get("quarantined") for each in rows] == [None, None, True, None, None]
        described = describe_operation(view, bad)
        assert described is not None
        assert described["row"]["quarantined"] is True
        assert described["envelope"] is not None
        ancestry = causal_ancestors(view, bad)
        assert ancestry is not None
        assert any(each.quarantined for each in ancestry.page.entries)
        way = provenance_of(view, bad)
        assert way is not None
        assert way.subject.says["quarantined"] is True
        costs = cost_entries(view)
        assert [each.quarantined for each in costs.entries] == [False, False, True, False, False]
        totals = cost_totals(view)
        assert (sum(each.operations for each in totals.totals), totals.left_out) == (4, 1)


def test_a_row_that_cannot_be_read_is_refused_with_the_code_and_the_next_ones_are_read(ledger):
    bad = operation_at(ledger, BAD)
    quarantined(ledger, BAD, b"\xff{")
    with ledger.view() as view:
        for ask in (
            lambda: find_operations(view, AuditFilter()),
            lambda: describe_operation(view, bad),
            lambda: provenance_of(view, bad),
            lambda: cost_entries(view),
        ):
            with pytest.raises(RangeQuarantined):
                ask()
        assert len(find_operations(view, AuditFilter(), after=BAD).entries) == 2


def test_the_class_of_a_quarantined_source_is_the_most_restrictive_one(ledger):
    bad = operation_at(ledger, BAD)

    def class_of() -> str | None:
        [source] = sources_of([bad], (), ())
        with ledger.view() as view:
            return SourceClasses(view, ()).of(source)

    assert class_of() != VISIBILITY_CLASSES[-1]
    quarantined(ledger, BAD)
    assert class_of() == VISIBILITY_CLASSES[-1]


def test_verification_reads_it_all_the_same(ledger):
    with ledger.view() as view:
        kept = KeptTree(1, view.log_tree().root(1))
    quarantined(ledger, BAD)
    with ledger.view() as view:
        for verification in (verify(view), verify_since(view, kept)):
            places = {(finding.table, finding.key) for finding in verification.findings}
            assert ("kernel_event_log", str(BAD)) in places


@pytest.mark.parametrize("kind", ["kernel_event_log_integrity_violation", "log_quarantine_lifted"])
def test_nobody_places_or_lifts_one_by_an_envelope_of_his_own(ledger, kind):
    quarantine_id = quarantined(ledger, BAD)
    body = {
        "kernel_event_log_integrity_violation": {
            "reason_code": "kernel_event_log_integrity_violation",
            "head_hash": "0" * 64,
            "rows_verified": "5",
            "receipts_verified": "0",
            "findings": [],
            "quarantined": [{"first_sequence": "1", "last_sequence": "5"}],
        },
        "log_quarantine_lifted": {
            "quarantine_id": quarantine_id,
            "ranges": [],
            "reason": "r",
            "authority": "a",
        },
    }[kind]
    stated = effect("receipt_only", **body) | {"receipt_subkind": kind}
    for verb in ("search_run_record", "quarantine_lift"):
        for submitter in ("caller", "orchestrator"):
            refused = submit(ledger, envelope(verb, [stated]), submitter=submitter)
            assert code_of(refused) is not None
            assert ranges(ledger) == ((BAD, BAD),)
    decided = effect("receipt_only", decided_by="me", reason="mine")
    decided |= {"receipt_subkind": "operator_decided"}
    target = {"target_refs": [f"quarantine:{quarantine_id}"]}
    refused = submit(ledger, envelope("quarantine_lift", [decided], **target))
    assert code_of(refused) == "envelope_actor_unauthorized"
    # Even the runtime's own decision lifts nothing without the receipt behind it.
    submit(ledger, envelope("quarantine_lift", [decided], **target), submitter="orchestrator")
    assert ranges(ledger) == ((BAD, BAD),)


def test_a_record_with_a_quarantine_that_was_lifted_is_sound(ledger):
    stored = row_of(ledger, BAD)["row_bytes"]
    quarantine_id = quarantined(ledger, BAD)
    change(ledger, BAD, stored)
    lift(ledger, quarantine_id)
    with ledger.view() as view:
        assert verify(view).findings == ()
        assert plan_rebuild(Kernel(), view, 0).differences == ()
        assert list(replay_all(view, 1, 6, "record_only", MODELS))


def test_an_archive_that_does_not_answer_is_no_damage():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host, memory_archive())
    for number in range(SEGMENT_ROWS + 2):
        submit(ledger, create(f"n-{number}", "Note"))
    assert archive_next(ledger)
    away = Ledger(ledger.store, host.host)
    verification = away.read(lambda view: audit_since(view, AuditMark())).verification
    assert not verification.ok
    with away.transaction() as transaction:
        record_violation(transaction, verification)
    assert ranges(away) == ()


def test_more_ranges_than_are_kept_apart_become_one(ledger, monkeypatch):
    monkeypatch.setattr(violation, "RANGES_MAX", 1)
    quarantined(ledger, 2)
    quarantined(ledger, 4)
    assert ranges(ledger) == ((2, 4),)


def test_a_quarantine_of_the_batch_itself_is_known_in_it(ledger):
    change(ledger, BAD, row_of(ledger, BAD)["row_bytes"] + b" ")
    with ledger.transaction() as transaction:
        assert transaction.quarantines().ranges == ()
        verification = audit_since(transaction, AuditMark()).verification
        with suppress(ZeroDivisionError), transaction.savepoint():
            record_violation(transaction, verification)
            assert transaction.quarantines().ranges == ((BAD, BAD),)
            raise ZeroDivisionError
        assert transaction.quarantines().ranges == ()


def test_version_1_of_the_rules_has_no_quarantine():
    old, new = RULES[1], RULES[2]
    assert "quarantine_lift" in new.verbs - old.verbs
    assert "quarantine_lift" in new.operation_kinds - old.operation_kinds
    assert "log_quarantine_lifted" in new.receipts.kinds.keys() - old.receipts.kinds.keys()
    body = {
        "receipt_kind": "kernel_event_log_integrity_violation",
        "reason_code": "r",
        "head_hash": "0" * 64,
        "rows_verified": "1",
        "receipts_verified": "1",
        "findings": [],
        "quarantined": [{"first_sequence": "1", "last_sequence": "1"}],
    }
    assert new.receipts.problem(body) is None
    assert old.receipts.problem(body) is not None


def test_without_a_violation_one_look_into_an_index_answers(ledger, monkeypatch):
    tables_read: list[Any] = []
    with ledger.view() as view:
        scan = view.tables.scan

        def counted(query: TableQuery) -> Any:
            tables_read.append(query.table)
            return scan(query)

        monkeypatch.setattr(view.tables, "scan", counted)
        for sequence in range(1, 100):
            view.quarantines().expect_none_over(sequence)
    assert tables_read == [schema.receipts]


RANGES = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 6)).map(
        lambda pair: SequenceRange(pair[0], sum(pair))
    ),
    max_size=8,
)


def rows_in(listed: Any) -> set[int]:
    return {row for each in listed for row in range(each.first, each.last + 1)}


@given(RANGES, RANGES)
def test_ranges_are_sets_of_rows(some, known):
    apart = merge_ranges(some)
    assert rows_in(apart) == rows_in(some)
    assert all(each.last + 1 < following.first for each, following in pairwise(apart))
    assert rows_in(without(some, known)) == rows_in(some) - rows_in(known)
