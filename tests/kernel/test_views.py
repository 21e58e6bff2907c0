"""Views follow the nodes that they show, and whoever computes them is told (§4.3.1, §4.3.6)."""

import pytest

from kernel.ledger import schema
from kernel.records.views import VIEWS_NAMED_MAX, is_stale
from kernel.rollback.execute import rollback_operation
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    adapt,
    code_of,
    create,
    effect,
    envelope,
    findings,
    memory_ledger,
    op_id,
    submit,
)
from tests.kernel.every import own

pytestmark = pytest.mark.spec("§4.3.1", "§4.3.6")


def computed(view, **fields):
    return own("materialized_view_recompute", view, **fields)


@pytest.fixture
def ledger():
    """Two nodes, a view of the first, one of the second, and one that names no node."""
    ledger = memory_ledger()
    made = [create("n", "Topic"), create("m", "Note")]
    views = [computed("v", node_ref="n"), computed("w", node_ref="m"), computed("x")]
    assert {code_of(result) for result in submit(ledger, *made, *views)} == {None}
    return ledger


def stale(ledger):
    with ledger.view() as view:
        rows = [view.record(schema.materialized_views, name) for name in ("v", "w", "x")]
        return [row["view_id"] for row in rows if is_stale(view, row)]


def events(ledger, result):
    with ledger.view() as view:
        rows = [
            view.tables.get(schema.ephemeral_receipts, receipt["receipt_id"])
            for receipt in result.emitted_receipts
            if receipt["receipt_kind"] == "node_write_event"
        ]
    return [bytes(row["receipt_bytes"]) for row in rows]


WRITES_ID = op_id("writes")
WRITES = {
    "node_write": adapt("n", title="t"),
    "node_retract": envelope(
        "supersede",
        [
            effect("node_write", "m", title="t"),
            effect("node_retract", "n"),
            effect(
                "edge_create",
                "e",
                source_node_id="m",
                target_node_id="n",
                edge_type="supersedes",
            ),
        ],
    ),
    "rescope": own("rescope", "n", visibility_scope="s"),
    "quarantine": own("quarantine", "n", quarantine_reason="r"),
    "anchor": own("anchor_node_promotion", "n"),
}


@pytest.mark.parametrize("document", WRITES.values(), ids=WRITES)
def test_a_write_of_a_node_makes_its_views_stale_and_says_so(ledger, document):
    result = submit(ledger, document | {"operation_id": WRITES_ID, "idempotency_key": "writes"})
    assert code_of(result) is None
    assert "v" in stale(ledger)
    assert "x" not in stale(ledger)
    said = events(ledger, result)[-1]
    assert b'"node_ref":"n"' in said
    assert b'"view_ids":["v"]' in said
    assert WRITES_ID.encode() in said
    assert b'"more_views":false' in said
    assert findings(ledger) == ()


def test_a_write_that_no_view_shows_says_nothing(ledger):
    result = submit(ledger, create("other", "Note"))
    assert events(ledger, result) == []


def test_a_view_that_is_computed_in_the_same_operation_is_fresh_and_nobody_is_told(ledger):
    again = effect("materialized_view_recompute", "v", node_ref="n")
    both = [effect("node_write", "n", title="t"), again]
    result = submit(ledger, envelope("field_adapt", both))
    assert (stale(ledger), events(ledger, result)) == ([], [])


def test_a_view_keeps_its_node_and_is_fresh_once_it_was_computed_again(ledger):
    submit(ledger, adapt("n", title="t"))
    assert stale(ledger) == ["v"]
    submit(ledger, computed("v"))
    assert stale(ledger) == []
    submit(ledger, adapt("n", title="u"))
    assert stale(ledger) == ["v"]


def test_what_is_said_to_be_stale_is_stale_whatever_its_node(ledger):
    invalid = effect("materialized_view_invalidation", "v")
    submit(ledger, create("other", "Note", invalid))
    assert stale(ledger) == ["v"]
    with ledger.view() as view:
        assert view.record(schema.materialized_views, "v")["node_ref"] == "n"


@pytest.mark.spec("K2")
def test_undoing_a_write_makes_its_views_what_they_were(ledger):
    result = submit(ledger, adapt("n", title="t"))
    assert stale(ledger) == ["v"]
    with ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, result.operation_id)
    assert stale(ledger) == []


def test_a_view_of_a_node_that_is_gone_is_stale(ledger):
    made = create("gone", "Note")
    result = submit(ledger, made)
    submit(ledger, computed("x", node_ref="gone"))
    with ledger.transaction() as transaction:
        rollback_operation(Kernel(), transaction, result.operation_id)
    assert stale(ledger) == ["x"]
    submit(ledger, create("gone", "Note"))  # another node, whose version is the same
    assert stale(ledger) == ["x"]


@pytest.mark.parametrize("node_ref", ["nowhere", 7, ["n"], {}, ""])
def test_a_view_shows_a_node_that_is_there(ledger, node_ref):
    assert code_of(submit(ledger, computed("v", node_ref=node_ref))) == "view_node_not_found"


@pytest.mark.parametrize(("beyond", "said"), [(0, b"false"), (1, b"true")])
def test_an_event_names_so_many_views_and_says_when_there_are_more(ledger, beyond, said):
    # The node has one view already.
    many = [
        computed(f"v{number:03}", node_ref="n") for number in range(VIEWS_NAMED_MAX - 1 + beyond)
    ]
    submit(ledger, *many)
    [event] = events(ledger, submit(ledger, adapt("n", title="t")))
    assert b'"more_views":' + said in event
    assert event.count(b'"v') - event.count(b'"view_ids"') == VIEWS_NAMED_MAX
