"""A valid envelope with one place of it spoiled, where it would have been next: all or nothing."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.ledger.schema import metadata
from kernel.ledger.store.tables import TableQuery
from kernel.model.envelope import MAX_DEPTH, MAX_EFFECTS, MAX_REFS
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.verify import verify
from tests.kernel.build import ABSENT, changed, informed, memory_ledger, places
from tests.properties.course import COURSE, KERNEL, renamed

SPOILT_IN_A_ROW = 20
FREE = frozenset({"receipts", "chain_head"})
"""What a refusal may write; the head of the chain holds the head of the receipts."""

ODD = [
    *(None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e17, 5e-324, 2**53, 2**60, 10**400),
    *(float("nan"), float("inf"), float("-inf"), b"bytes", ("a",), {1, 2}, {1: 2}, object),
    *("", "a", "5", "\ud800", "\x00", "\U0001f600", "a|b", "a.b", "x" * 513, "x" * (1 << 20)),
    *([], {}, [[]], [None], ["a"], [{}], {"a": 1}, {"": {}}, {"\x00": 1}, {"\ud800": 1}),
    *("n", "sealed", "recalculate_authority", "node_write", "causal-node:x", "2026-02-30"),
    *("2026-02-09T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "ab" * 32),
    ABSENT,
]


def deepened(value, levels):
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def at(document, place):
    for part in place.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


@st.composite
def spoilt(draw, document):
    """The document with one place taken out, of another value, deeper, longer or from elsewhere."""
    every_place = [*places(document)]
    # What the shape leaves open gets past the first check.
    inside = [path for path in every_place if ".payload." in path]
    place = draw(st.sampled_from(inside if inside and draw(st.booleans()) else every_place))
    value = at(document, place)
    how = draw(st.sampled_from(["odd", "odd", "odd", "deep", "long", "elsewhere", "more"]))
    if how == "deep":
        levels = [1, 2, MAX_DEPTH - 4, MAX_DEPTH, MAX_DEPTH + 1, 300, 2000]
        return changed(document, {place: deepened(value, draw(st.sampled_from(levels)))})
    if how == "long" and isinstance(value, str | list):
        counts = [2, 64, 65, MAX_EFFECTS, MAX_EFFECTS + 2, MAX_REFS + 1]
        return changed(document, {place: value * draw(st.sampled_from(counts))})
    if how == "elsewhere":
        return changed(
            document, {place: copy.deepcopy(at(document, draw(st.sampled_from(every_place))))}
        )
    if how == "more" and isinstance(value, dict):
        name = draw(st.sampled_from(["", "undoes", "state", "visibility_class", "node_kind", "x"]))
        return changed(document, {f"{place}.{name}": draw(st.sampled_from(ODD[:-1]))})
    return changed(document, {place: draw(st.sampled_from(ODD))})


def tables_of(transaction):
    return {
        table.name: transaction.tables.scan(TableQuery(table))
        for table in metadata.sorted_tables
        if table.name not in FREE
    }


def counted(transaction):
    head = transaction.head_now
    return head.ec_sequence_number, head.receipt_sequence


def course():
    """The course's documents, for one ledger: who informs one writes into it."""
    return copy.deepcopy(COURSE)


def walk(transaction, documents):
    """Submit what is valid in this order; where something spoilt was taken, some of it is not."""
    for document in documents:
        KERNEL.submit(transaction, informed(transaction, document), "orchestrator")


@pytest.mark.spec("K5")
@settings(max_examples=max(10, settings().max_examples // 4))
@given(st.integers(0, len(COURSE) - SPOILT_IN_A_ROW), st.data())
def test_a_spoilt_envelope_is_applied_whole_or_leaves_a_receipt(start, data):
    ledger, documents = memory_ledger(), course()
    with ledger.transaction() as transaction:
        walk(transaction, documents[:start])
        assert counted(transaction)[0] == start
    with ledger.transaction() as transaction:
        for document in documents[start : start + SPOILT_IN_A_ROW]:
            # Under a name of its own, so that the valid one still has its turn.
            own = informed(transaction, renamed(copy.deepcopy(document)))
            submitter = data.draw(st.sampled_from(["orchestrator", "orchestrator", "caller"]))
            submit_whole(transaction, data.draw(spoilt(own)), submitter)
            walk(transaction, [document])
    with ledger.view() as view:
        verification = verify(view)
    assert verification.ok, verification.findings


def submit_whole(transaction, document, submitter):
    """Submit; a refusal leaves one receipt, and every table as it was."""
    before, (sequence, receipts) = tables_of(transaction), counted(transaction)
    result = KERNEL.submit(transaction, document, submitter)
    sequence_now, receipts_now = counted(transaction)
    if isinstance(result, SubmissionResult):
        assert result.duplicate or sequence_now > sequence
        return
    assert isinstance(result, RejectedResult)
    assert (sequence_now, receipts_now) == (sequence, receipts + 1), result
    after = tables_of(transaction)
    assert [name for name in after if after[name] != before[name]] == []
