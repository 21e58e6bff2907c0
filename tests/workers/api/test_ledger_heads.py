"""A ledger that went back over HTTP: what is lost, and going on from what is there (§17)."""

from typing import Any

import pytest

from kernel.ledger.head_watch import Answered, LedgerWentBack, Memory, Remembered
from kernel.ledger.ledger import Head, LedgerView
from kernel.records.head_acceptance import record_finding
from kernel.work.contents import BINDING_QUEUE
from queues.queue.items import NewItem
from tests.workers.api.door import Door, error_of, http_client, source
from workers.api.middleware.request_guard import RequestGuardMiddleware
from workers.views.attention_rules import attention_of_state, line_of

pytestmark = [pytest.mark.anyio, pytest.mark.spec("§17")]

GROUNDS = {"reason": "the disk was lost", "authority": "ada"}
LOST = (
    Answered("operation", "op-9", 9, "s-1"),
    Answered("request", "request:lost", 4),
    Answered("session", "s-1", 3, "s-1"),
)


def find(door: Door, *lost: Answered) -> None:
    """Leave the finding of a gateway that knew more."""
    now = door.ledger.read(LedgerView.head)
    known = Head(now.ec_sequence_number + 5, "a" * 64, 0, "0" * 64, 0, now.committed_at_us + 10**9)
    with door.ledger.transaction() as transaction:
        assert record_finding(transaction, "a", Memory(known, now, (Remembered(known, lost),)))


async def lost(door: Door, **query: Any) -> dict[str, Any]:
    document: dict[str, Any] = (await door.http.get("/v1/ledger/lost", params=query)).json()
    return document


async def test_without_a_finding_nothing_is_lost_and_nothing_is_accepted(door: Door):
    nothing = {"stands": False, "findings": [], "acceptance": None, "lost": [], "next_after": None}
    assert await lost(door) == nothing
    answer = await door.send("/v1/ledger/accept-head", GROUNDS)
    assert answer.json() == {**nothing, "changed": False}


async def test_a_finding_is_listed_page_by_page_and_accepted_with_the_reason(door: Door):
    await door.declare()
    find(door, *LOST)
    first = await lost(door, limit=2)
    rest = await lost(door, after=first["next_after"], limit=2)
    assert (first["stands"], rest["next_after"]) == (True, None)
    assert [each["name"] for each in (*first["lost"], *rest["lost"])] == [
        each.name for each in LOST
    ]
    [finding] = first["findings"]
    assert (finding["gateway"], finding["is_all"]) == ("a", True)
    for reason in ("", " ", "\x1e"):
        body = {**GROUNDS, "reason": reason}
        error_of(await door.send("/v1/ledger/accept-head", body), 422, "INVALID_REQUEST")

    accepted = (await door.send("/v1/ledger/accept-head", GROUNDS)).json()
    assert (accepted["changed"], accepted["stands"]) == (True, False)
    assert accepted["acceptance"]["reason"] == GROUNDS["reason"]
    assert len(accepted["lost"]) == len(LOST)
    operation = accepted["acceptance"]["decided_by_operation_id"]
    shown = (await door.http.get(f"/v1/operations/{operation}")).text
    assert '"ledger_head_accept"' in shown
    again = (await door.send("/v1/ledger/accept-head", GROUNDS)).json()
    assert (again["changed"], len(again["lost"])) == (False, len(LOST))


async def test_a_request_that_was_lost_is_gone_and_one_that_never_was_is_unknown(door: Door):
    find(door, *LOST)
    queue = "/v1/queues/binding-evaluation"
    for path in ("requests/request:lost", "requests/request:lost/outcome"):
        error_of(await door.http.get(f"{queue}/{path}"), 410, "work_request_lost")
    body = {"request_ids": ["request:lost"]}
    error_of(await door.send(f"{queue}/outcomes", body), 410, "work_request_lost")
    error_of(await door.http.get(f"{queue}/requests/nobody"), 404, "work_request_unknown")


async def test_requests_that_redis_alone_knows_are_named_when_the_ledger_is_accepted(door: Door):
    item = NewItem("k-1", "background", cause_id="request:gone", payload=b"{}")
    await door.services.work.queues[BINDING_QUEUE].enqueue(item)
    find(door, *LOST)
    accepted = (await door.send("/v1/ledger/accept-head", GROUNDS)).json()
    assert accepted["acceptance"]["evidence"] == [
        {
            "source": "redis_item",
            "name": "request:gone",
            "says": "binding-evaluation ready: k-1",
        }
    ]


async def test_every_door_says_that_the_ledger_went_back(door: Door):
    await door.declare()
    problem = LedgerWentBack("behind")
    host = door.ledger.host
    guarded = RequestGuardMiddleware(
        door.app, hosts=frozenset(), host=host, went_back=lambda: problem
    )
    async with http_client(guarded) as http:
        for path in ("/v1/sessions", "/v1/queues", "/v1/log/head", "/", "/openapi.json"):
            error_of(await http.get(path), 503, "ledger_went_back")
        body = {"intents": [source("a")]}
        refused = await http.post("/v1/sessions/x/operations", json=body)
        message = error_of(refused, 503, "ledger_went_back")["message"]
        assert "rotulus ledger accept-head" in message
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/v1/ledger/lost")).status_code == 200


def test_what_needs_somebody_is_that_alone():
    problems = {"ledger_went_back": "it is behind", "redis": "away"}
    [item] = attention_of_state(problems, None, {"/v1/attention": "ledger_went_back"})
    line = "the ledger went back: it is behind: `rotulus ledger lost`"
    assert (item.kind, line_of(item)) == ("ledger_went_back", line)
