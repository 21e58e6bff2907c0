"""A row that a plug-in adds: judged at the door, read by no rule of the record."""

import ast
from pathlib import Path

import pytest
from pydantic import BaseModel

from kernel.ledger.ledger import Ledger
from kernel.values.priorities import QueuePriority
from kernel.work import queue_kinds
from kernel.work.contents import BINDING_QUEUE
from kernel.work.errors import WorkRefused
from kernel.work.outcomes import close
from kernel.work.queue_kinds import QUEUES_MAX, QueueKind, register_queue
from kernel.work.requests import WorkRequest, enqueue, outcome_of, status_of
from tests.kernel.build import findings
from workers.worker import arq_runner

ROOT = Path(__file__).parents[2]
PARCELS = "parcels"
ROWS = (QueuePriority("critical", "critical", 5), QueuePriority("background", "background", 60))


class Parcel(BaseModel):
    parcel_id: str
    weight: int = 0

    def model_post_init(self, _: object) -> None:
        if self.weight == 13:
            raise KeyError("a defect of a plug-in")


def kind(name: str = PARCELS, **changes: object) -> QueueKind:
    fields = {"content": Parcel, "item_key": "parcel_id", "priorities": ROWS}
    return QueueKind(name, **{**fields, "default_priority": "background", **changes})  # type: ignore[arg-type]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, QueueKind]:
    """The table of queues, as it was again afterwards."""
    rows = queue_kinds._kinds  # noqa: SLF001 - rows stay otherwise
    before = dict(rows)
    yield rows
    rows.clear()
    rows.update(before)


def ask(ledger: Ledger, key: str = "k", priority: str | None = None, **content: object) -> str:
    with ledger.transaction() as transaction:
        request = WorkRequest(PARCELS, key, {"parcel_id": "p", **content}, priority)
        return enqueue(transaction, [request])[0].request_id


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"weight": "heavy"}, "content.weight"),
        ({"weight": 13}, "content"),
        ({"parcel_id": ""}, "content.parcel_id"),
        ({"parcel_id": "p" * 513}, "content.parcel_id"),
        ({"parcel_id": "a\x00b"}, "content.parcel_id"),
    ],
)
def test_a_content_is_judged_by_the_model_of_its_row(ledger, table, content, field):
    register_queue(kind())
    with pytest.raises(WorkRefused) as refused:
        ask(ledger, **content)
    assert (refused.value.code, refused.value.field) == ("work_request_invalid", field)


def test_a_queue_that_nobody_here_knows_is_refused_by_name(ledger):
    with pytest.raises(WorkRefused, match="parcels") as refused:
        ask(ledger)
    assert refused.value.code == "work_queue_unknown"


@pytest.mark.spec("K19")
def test_what_a_handler_returned_is_read_by_nobody_and_verified_without_the_row(ledger, table):
    """Results that look like a binding's outcome, which has a cycle and may wait for a person."""
    register_queue(kind())
    request_id = ask(ledger, priority="critical")
    lookalike = {"evaluation": {}, "outcome_state": "user_review_required", "source_event_id": "e"}
    with ledger.transaction() as transaction:
        assert close(transaction, request_id, "completed", handler_result=lookalike)
    with ledger.view() as view:
        outcome, status = outcome_of(view, PARCELS, request_id), status_of(view, request_id)
    assert outcome is not None
    assert status is not None
    assert outcome.result == status.result == lookalike
    del table[PARCELS]
    assert findings(ledger) == ()
    with ledger.view() as view:
        assert outcome_of(view, PARCELS, request_id) == outcome


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Parcels"},
        {"name": BINDING_QUEUE},
        {"name": "external-effects"},
        {"content": None},
        {"item_key": "size"},
        {"priority": "size"},
        {"priorities": ()},
        {"priorities": (ROWS[0], ROWS[0])},
        {"default_priority": "normal"},
        {"priorities": (QueuePriority("background", "critical", 5),)},
        {"priorities": (QueuePriority("background", "background", 0),)},
        {"priorities": (QueuePriority("Back Ground", "background", 5),)},
    ],
)
def test_a_row_that_cannot_be_used_adds_nothing(table, changes):
    before = dict(table)
    with pytest.raises(ValueError, match=r"."):
        register_queue(kind(**changes))
    assert table == before


def rooms() -> set[str]:
    """What prefixes of keys in Redis are named by a constant."""
    sources = [path for folder in ("queues", "workers") for path in (ROOT / folder).rglob("*.py")]
    names = {
        name.value
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "prefix_of"
        for name in node.args[1:]
        if isinstance(name, ast.Constant)
    }
    return names | {arq_runner.ROOM}


def test_no_queue_has_the_name_of_a_room_of_the_runtime(table):
    assert rooms() >= {"workers", "gateways", "crons", "ledger", "progress", "arq"}
    for name in rooms():
        with pytest.raises(ValueError, match="the runtime's own"):
            register_queue(kind(name=name))


def test_there_is_a_limit_to_the_queues_of_a_process(table):
    for number in range(QUEUES_MAX - len(table)):
        register_queue(kind(f"parcels-{number}"))
    with pytest.raises(ValueError, match=str(QUEUES_MAX)):
        register_queue(kind("one-more"))
