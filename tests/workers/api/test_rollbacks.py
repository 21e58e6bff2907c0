"""Undoing over HTTP: seen first, confirmed where something persists, answered when durable."""

import pytest

from kernel.rollback.confirmation import Confirmable
from tests.kernel.build import adapt, create
from tests.kernel.every import HASH, own, states
from tests.workers.api.door import CONFIRMATIONS, Door

pytestmark = pytest.mark.anyio

LINK = {
    "recipient_email_hash": HASH,
    "shared_corpus_view_id": "view",
    "share_token_policy_id": "policy",
}


class Submit:
    """An envelope as the orchestrator's."""

    def __init__(self, document):
        self.document = document

    def run(self, context):
        return context.kernel.submit(context.transaction, self.document, "orchestrator")


async def accept(door, *documents):
    for document in documents:
        result = await door.services.write(Submit(document))
        assert result.document()["validation_result"] == "accepted", result
    return documents[-1]["operation_id"]


@pytest.mark.spec("K21", "§5.2")
async def test_an_operation_is_undone_and_not_twice(door: Door):
    await accept(door, create("n", "Note"))
    operation_id = await accept(door, adapt("n", title="x"))
    body = {"tier": 1, "operation_id": operation_id}
    seen = await door.http.post("/v1/rollbacks/dry-run", json=body)
    assert [operation["operation_id"] for operation in seen.json()["operations"]] == [operation_id]
    done = await door.http.post("/v1/rollbacks", json=body)
    assert done.status_code == 200, done.text
    assert done.json()["result"] == "tier_1_rollback_applied"
    again = await door.http.post("/v1/rollbacks", json=body)
    assert again.status_code == 409
    error = again.json()["error"]
    assert error["code"] == "rollback_already_applied"
    assert error["details"] == {"inverse_operation_id": done.json()["inverse_operation_id"]}


@pytest.mark.spec("K17", "K21")
async def test_what_persists_outside_needs_the_users_word(door: Door):
    operation_id = await accept(door, own("share_link_grant", "link", **LINK))
    body = {"tier": 2, "epoch_id": operation_id}
    unconfirmed = await door.http.post("/v1/rollbacks", json=body)
    assert unconfirmed.status_code == 403
    details = unconfirmed.json()["error"]["details"]
    seen = (await door.http.post("/v1/rollbacks/dry-run", json=body)).json()
    assert seen["needs_user_confirmation"]
    assert (details["role"], details["digest"]) == ("user", seen["digest"])
    token = CONFIRMATIONS.issue(
        "user",
        Confirmable(2, seen["scope"], seen["digest"]),
        confirmation_id="c",
        now_us=door.services.ledger.host.now_us(),
    )
    confirmed = body | {"user_confirmation_token": token}
    done = await door.http.post("/v1/rollbacks", json=confirmed)
    assert done.status_code == 200, done.text
    [persists] = done.json()["persistent_external_effects"]
    assert persists["effect_kind"] == "share_link_grant"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"tier": 1, "operation_id": "nothing"}, 404, "operation_not_found"),
        ({"tier": 2, "epoch_id": "nothing"}, 404, "epoch_not_found"),
        ({"tier": 3, "checkpoint_ec_sequence_number": 0}, 422, "INVALID_REQUEST"),
        ({"tier": 1}, 422, "INVALID_REQUEST"),
        ({"tier": 1, "operation_id": "o", "more": 1}, 422, "INVALID_REQUEST"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/rollbacks", "/v1/rollbacks/dry-run"])
async def test_what_cannot_be_undone_is_answered_so(door: Door, path, body, status, code):
    answer = await door.http.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.spec("§5.3")
async def test_a_large_epoch_is_asked_for_until_nothing_is_left(door: Door, monkeypatch):
    monkeypatch.setattr("kernel.rollback.plan.PAGE_OPERATIONS_MAX", 2)
    inside = [create(f"n-{number}", "Note") | {"epoch_id": "e"} for number in range(3)]
    opened = states("epoch_open", "epoch_opened", epoch_id="e")
    await accept(door, opened, *inside, states("epoch_close", "epoch_closed", epoch_id="e"))
    body = {"tier": 2, "epoch_id": "e"}
    first = (await door.http.post("/v1/rollbacks", json=body)).json()
    assert (first["result"], first["operations_left"]) == ("tier_2_rollback_under_way", 1)
    tier_1 = {"tier": 1, "operation_id": inside[0]["operation_id"]}
    blocked = await door.http.post("/v1/rollbacks", json=tier_1)
    assert blocked.status_code == 409
    assert blocked.json()["error"]["code"] == "rollback_under_way"
    last = (await door.http.post("/v1/rollbacks", json=body)).json()
    assert (last["result"], last["page"]) == ("tier_2_rollback_applied", 2)
