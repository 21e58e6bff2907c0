"""Worked example 3: sources of three classes, and the way to a public understanding.

Two sealed depositions, two firewalled memos and three public filings make a sealed understanding.
Who wants a public one asks again without what is restricted. That is another operation; nothing is
lowered, and both understandings stay.
"""

import pytest

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.verify import verify
from tests.actors.examples.bank import ask, put_source, receipts_of
from tests.actors.intents import envelope_of, node_of
from tests.kernel.build import memory_ledger

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§21.3", "INV-A-TAINT-INFECTIOUS-1")]

QUERY = "What did the deponent say about contract formation, against the public record?"
CLASSES = {
    **dict.fromkeys(["DepEx-1", "DepEx-2"], "sealed"),
    **dict.fromkeys([f"Memo-{number}" for number in range(1, 6)], "firewalled"),
    **dict.fromkeys([f"Filing-{number}" for number in range(1, 13)], "public_open"),
}
PUBLIC = ["Filing-3", "Filing-7", "Filing-11"]
CONTEXT = ["DepEx-1", "DepEx-2", "Memo-1", "Memo-2", *PUBLIC]
TAINT = ["sealed"] * 2 + ["firewalled"] * 2 + ["public_open"] * 3


@pytest.fixture
def bank():
    """The whole brief bank, of which the question touches seven sources."""
    ledger = memory_ledger()
    for name, visibility in CLASSES.items():
        put_source(ledger, name, f"{name} speaks of contract formation. And of more.", visibility)
    return ledger


async def test_steps_1_to_3_the_most_restricted_class_is_that_of_the_output(bank):
    """The taint has an entry for each source; the understanding points at all seven."""
    result = await ask(bank, "CU-2", QUERY, *CONTEXT)
    envelope, node = envelope_of(bank, result), node_of(bank, "CU-2")

    assert envelope["source_refs"] == CONTEXT
    assert envelope["source_visibility_taint"] == TAINT
    assert envelope["resolved_output_visibility_class"] == "sealed"
    assert envelope["target_refs"] == ["CU-2"]
    [recorded] = envelope["recorded_model_outputs"]
    assert recorded["source_visibility_taint"] == TAINT
    assert node["visibility_class"] == "sealed"
    assert [span["source_ref"] for span in node["payload"]["source_spans"]] == CONTEXT
    assert node["payload"]["display_kind"] == "synthesis_with_spans"


async def test_step_5_the_receipt_has_the_list_the_classes_and_the_counts(bank):
    """The receipt is durable and says how many sources of each class there were."""
    result = await ask(bank, "CU-2", QUERY, *CONTEXT)
    [receipt] = receipts_of(bank, result, "taint_propagation")

    assert receipt["source_visibility_taint"] == TAINT
    assert sorted(receipt["source_visibility_taint_distinct"]) == [
        "firewalled",
        "public_open",
        "sealed",
    ]
    assert receipt["source_node_count_per_class"] == {
        "sealed": 2,
        "firewalled": 2,
        "public_open": 3,
    }
    assert receipt["resolved_output_visibility_class"] == "sealed"
    assert receipt["output_node_ref"] == "CU-2"


@pytest.mark.spec("§7.7 EC5")
async def test_step_7_asked_again_without_what_is_restricted_it_is_public_and_both_stay(bank):
    """Not a downgrade: a new operation, a new understanding, a provenance of its own."""
    sealed = await ask(bank, "CU-2", QUERY, *CONTEXT)
    before = node_of(bank, "CU-2")
    public = await ask(bank, "CU-3", QUERY, *PUBLIC)

    envelope = envelope_of(bank, public)
    assert public.operation_id != sealed.operation_id
    assert envelope["source_refs"] == PUBLIC
    assert envelope["source_visibility_taint"] == ["public_open"] * 3
    assert sealed.operation_id not in envelope["causal_parent_operation_ids"]
    assert receipts_of(bank, public, "taint_propagation") == []
    node = node_of(bank, "CU-3")
    assert node["visibility_class"] == "public_open"
    assert "DepEx" not in str(node)
    assert node_of(bank, "CU-2") == before
    with bank.view() as view:
        for result in (sealed, public):
            assert view.log_row_of(result.operation_id) is not None
        assert verify(view).findings == ()
        nodes = view.tables.scan(
            TableQuery(schema.nodes, {"node_kind": "ConsolidatedUnderstanding"})
        )
    assert {row["node_id"] for row in nodes} == {"CU-2", "CU-3"}
