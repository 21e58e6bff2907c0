"""A queue that a worker registered is on the record, and contents are checked by its schema."""

from typing import Any

import pytest

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.values.priorities import QueuePriority
from kernel.work import queue_kinds, registrations
from kernel.work.errors import WorkRefused
from kernel.work.queue_kinds import QUEUE_KINDS, forget_queue, register_queue
from kernel.work.registrations import (
    REGISTERED_MAX,
    QueueRegistration,
    kind_of,
    register,
    registered_definitions,
)
from kernel.work.requests import WorkRequest, enqueue
from tests.kernel.build import findings, receipts_of_kind

ROWS = (QueuePriority("critical", "critical", 5), QueuePriority("background", "background", 60))
WIDTH = {"type": "integer", "maximum": 100}


def registration(queue: str = "resize", **changes: Any) -> QueueRegistration:
    properties = {"image_id": {"type": "string"}, "width": WIDTH, **changes.pop("properties", {})}
    stated: dict[str, Any] = {
        "content_schema": {
            "type": "object",
            "properties": properties,
            "required": ["image_id"],
            "additionalProperties": False,
        },
        "item_key": "image_id",
        "priorities": ROWS,
        "default_priority": "background",
        **changes,
    }
    return QueueRegistration(queue, **stated)


@pytest.fixture(autouse=True)
def table():
    rows = queue_kinds._kinds  # noqa: SLF001 - rows stay otherwise
    before = dict(rows)
    yield rows
    rows.clear()
    rows.update(before)


def put(ledger: Ledger, *stated: QueueRegistration, served=(), is_new: bool = True) -> list[bool]:
    with ledger.transaction() as transaction:
        return [register(transaction, each, served, is_new=is_new) for each in stated]


def ask(ledger: Ledger, queue: str = "resize", priority: str | None = None, **content: Any) -> str:
    with ledger.transaction() as transaction:
        request = WorkRequest(queue, str(content), content, priority)
        return enqueue(transaction, [request])[0].request_id


def definitions(ledger: Ledger) -> dict[str, bytes]:
    with ledger.view() as view:
        return registered_definitions(view)


def test_a_queue_that_no_process_has_is_asked_once_it_is_registered(ledger):
    with pytest.raises(WorkRefused, match="no queue is called 'resize'"):
        ask(ledger, image_id="i")
    assert put(ledger, registration()) == [True]
    ask(ledger, image_id="i", width=80)
    for content, field in (
        ({"image_id": "i", "width": "80"}, "content.width"),
        ({"width": 1}, "content.image_id"),
        ({"image_id": "i", "colour": "red"}, "content.colour"),
    ):
        with pytest.raises(WorkRefused) as refused:
            ask(ledger, **content)
        assert (refused.value.code, refused.value.field) == ("work_request_invalid", field)
    assert findings(ledger) == ()


def test_the_same_registration_is_recorded_once_and_a_changed_one_again(ledger):
    assert put(ledger, registration(), registration()) == [True, False]
    changed = registration(properties={"width": {"type": "integer"}})
    assert put(ledger, changed, is_new=False) == [False], "whoever repeats itself changes nothing"
    assert put(ledger, changed) == [True]
    assert len(receipts_of_kind(ledger, "work_queue_registered")) == 2
    ask(ledger, image_id="i", width=500)
    assert findings(ledger) == ()


def test_what_an_older_row_of_this_process_refuses_is_checked_by_the_record(ledger):
    put(ledger, registration())
    register_queue(kind_of(definitions(ledger)["resize"]))
    put(ledger, registration(properties={"width": {"type": "integer"}}))
    ask(ledger, image_id="i", width=500)
    with pytest.raises(WorkRefused, match="should be a whole number"):
        ask(ledger, image_id="i", width="wide")
    forget_queue("resize")
    assert "resize" not in QUEUE_KINDS


def test_the_content_may_decide_the_priority_and_all_of_it_may_be_the_item(ledger):
    urgent = {"urgency": {"enum": ["critical", "background"], "default": "background"}}
    put(
        ledger,
        registration(properties=urgent, item_key="arguments_digest", priority_field="urgency"),
    )
    ask(ledger, image_id="i")
    ask(ledger, image_id="i", urgency="critical")
    with ledger.view() as view:
        first, second = view.open_requests(queue="resize")
    assert [first.priority, second.priority] == ["background", "critical"]
    assert first.item_key != second.item_key
    with pytest.raises(WorkRefused, match="decides the priority"):
        ask(ledger, priority="critical", image_id="j")


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        (registration("binding-evaluation"), "a queue of Rotulus"),
        (registration("workers"), "runtime's own"),
        (registration("Not A Name"), "lower-case words"),
        (registration(item_key="owner"), "no field 'owner'"),
        (registration(priority_field="owner"), "no field 'owner'"),
        (registration(default_priority="soon"), "no priority"),
        (registration(content_schema={"type": "array"}), "an object"),
        (registration(content_schema={"type": "object", "if": True}), "not supported"),
    ],
)
def test_what_no_queue_may_be_is_refused(ledger, stated, problem):
    with pytest.raises(WorkRefused, match=problem) as refused:
        put(ledger, stated)
    assert refused.value.code == "queue_registration_invalid"
    assert definitions(ledger) == {}


def test_a_new_queue_takes_the_place_of_the_oldest_that_nobody_needs(ledger, monkeypatch):
    monkeypatch.setattr(registrations, "REGISTERED_MAX", 3)
    assert REGISTERED_MAX > 3
    for name in ("asked", "served", "idle"):
        put(ledger, registration(name))
    ask(ledger, "asked", image_id="i")
    put(ledger, registration("new"), served={"served", "new"})
    assert set(definitions(ledger)) == {"asked", "served", "new"}
    with pytest.raises(WorkRefused) as refused:
        put(ledger, registration("newer"), served={"served", "new", "newer"})
    assert refused.value.code == "work_queues_too_many"
    assert findings(ledger) == ()


DAMAGE = {
    "changed": lambda tables: tables.update(
        schema.queue_registrations, ("resize",), {"definition": b"{}"}
    ),
    "taken away": lambda tables: tables.delete(schema.queue_registrations, "resize"),
    "put there": lambda tables: tables.insert(
        schema.queue_registrations,
        {"queue": "other", "registered_at_us": 1, "definition": b"{}"},
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_row_that_no_receipt_gives_is_found(ledger, name):
    put(ledger, registration())
    with ledger.transaction() as transaction:
        DAMAGE[name](transaction.tables)
    assert {finding.table for finding in findings(ledger)} == {"queue_registrations"}
