"""A docket that was undone, or that its court has changed, on a gateway."""

import json
from importlib.resources import files
from typing import Any
from uuid import UUID

import httpx
import pytest

from kernel.ledger import schema
from tests.kernel.build import findings
from tests.workers.api.door import URL, Door, log_length, rows
from tests.workers.demo.test_ingest import docket, state_of
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.demo.docket_sessions import CORRECTED
from workers.demo.ingest import Ingest, Summary
from workers.dockets.plan import plan_docket
from workers.dockets.postures import universe
from workers.dockets.reader import Docket, read_dockets

pytestmark = pytest.mark.anyio

PETITION = "Chapter 7 Voluntary Petition. Fee Amount $299."
DISMISSED = "ORDER Dismissing Case Debtor."
REINSTATED = "Order Reinstating Case"
CLOSED = "Bankruptcy Case Closed"
UNDONE = (PETITION, DISMISSED, REINSTATED, DISMISSED, CLOSED)


def bankruptcy(*descriptions: str, **changes: Any) -> bytes:
    return docket("d-1", *descriptions, court_kind="bankruptcy", docket_number="20-1", **changes)


def sample() -> list[bytes]:
    path = files("tests.workers.dockets") / "undone_sample.jsonl"
    return path.read_bytes().splitlines()


async def ingest(door: Door, *lines: bytes) -> Summary:
    summary = await Ingest(door.client()).run(lines)
    assert summary.failed_dockets == []
    return summary


def trails(door: Door) -> list[Any]:
    """Every entry of every session on the record."""
    return rows(door.ledger, schema.belief_events)


def planned_id(line: bytes) -> UUID:
    (read,) = read_dockets([line])
    assert isinstance(read, Docket)
    return plan_docket(read).session_id


async def line_of(door: Door, line: bytes) -> list[dict[str, Any]]:
    """The snapshots of a docket's sessions, from the first to the newest."""
    snapshots = []
    following: str | None = str(planned_id(line))
    while following is not None:
        snapshots.append((await door.http.get(f"/v1/sessions/{following}")).json())
        following = snapshots[-1].get("successor_id")
    return snapshots


async def closing_of(door: Door, session_id: str) -> dict[str, Any]:
    trail = (await door.http.get(f"/v1/sessions/{session_id}/audit")).json()["events"]
    assert trail[-1]["verb"] == "SUCCEED_SESSION"
    payload: dict[str, Any] = trail[-1]["payload"]
    return payload


async def test_a_case_that_was_undone_stands_where_its_newest_session_stands(door: Door):
    line = bankruptcy(*UNDONE)
    summary = await ingest(door, line)
    first, second = await line_of(door, line)
    assert (first["survivors"], second["survivors"]) == (["ended_by_dismissal"],) * 2
    assert summary.document()["sessions_succeeded"] == 1
    assert [case.session_id for case in summary.cases] == [second["session_id"]]
    payload = await closing_of(door, first["session_id"])
    assert payload["reason"] == "The court took its dismissal back."
    assert payload["cause"]["words"] == REINSTATED
    assert findings(door.ledger) == ()


async def test_the_same_dockets_again_write_nothing(door: Door):
    lines = [bankruptcy(*UNDONE), *sample()]
    first = await ingest(door, *lines)
    before = state_of(door)
    second = await ingest(door, *lines)
    assert first.strikes.succeeded == 5
    assert (second.strikes.succeeded, second.strikes.eliminated) == (0, 0)
    assert state_of(door) == before


async def test_a_docket_that_grows_day_by_day_is_the_docket_that_came_at_once(door: Door):
    for count in range(1, len(UNDONE) + 1):
        await ingest(door, bankruptcy(*UNDONE[:count]))
    first, second = await line_of(door, bankruptcy(*UNDONE))
    assert first["successor_id"] == second["session_id"]
    assert second["survivors"] == ["ended_by_dismissal"]
    assert len(rows(door.ledger, schema.belief_sessions)) == 2


CHANGED = {
    "struck": ((PETITION, "ENTERED IN ERROR " + DISMISSED), {"awaiting_order_for_relief"}),
    "reworded": (
        (PETITION, "Order and Notice of Dismissal of Case for failure to file"),
        set(universe("bankruptcy")) - {"ended_by_dismissal"},
    ),
    "removed": ((PETITION,), {"awaiting_order_for_relief"}),
}


@pytest.mark.parametrize("change", CHANGED)
async def test_an_entry_that_the_court_has_changed_closes_the_session(door: Door, change):
    texts, gone = CHANGED[change]
    await ingest(door, bankruptcy(PETITION, DISMISSED))
    line = bankruptcy(*texts)
    await ingest(door, line)
    first, second = await line_of(door, line)
    assert first["survivors"] == ["ended_by_dismissal"]
    assert set(universe("bankruptcy")) - set(second["survivors"]) == gone
    payload = await closing_of(door, first["session_id"])
    assert payload["reason"] == CORRECTED
    assert payload["cause"] == {"rule": "docket_corrected", "undone": ["d-1#1:case_dismissed"]}
    before = trails(door)
    await ingest(door, line)
    assert trails(door) == before
    assert findings(door.ledger) == ()


async def test_an_entry_that_is_filed_late_is_struck_in_the_newest_session(door: Door):
    early = {"date_filed": "2024-01-01", "description": "Summary of Schedules Filed"}
    await ingest(door, bankruptcy(*UNDONE[:3]))
    entries = json.loads(bankruptcy(*UNDONE[:3]))["docket_entries"]
    line = bankruptcy(docket_entries=[*entries, early])
    await ingest(door, line)
    *_, newest = await line_of(door, line)
    assert set(universe("bankruptcy")) - set(newest["survivors"]) == {
        "awaiting_order_for_relief",
        "awaiting_schedules",
    }
    before = trails(door)
    await ingest(door, line)
    assert trails(door) == before


async def test_a_docket_that_an_earlier_release_left_with_nothing_is_brought_back(door: Door):
    """That release struck, for the reinstatement itself, the ending that comes again."""
    line = bankruptcy(*UNDONE[:3])
    await ingest(door, bankruptcy(*UNDONE[:2]))
    path = f"/v1/sessions/{planned_id(line)}/eliminate"
    emptied = {
        "source_id": "d-1",
        "observation_id": "d-1#2:dismissal_undone",
        "eliminated": ["ended_by_dismissal"],
        "justification": {"rule": "dismissal_undone"},
    }
    struck = await door.http.post(path, json=emptied)
    assert struck.json()["snapshot"]["n_survivors"] == 0
    await ingest(door, line)
    first, second = await line_of(door, line)
    assert first["survivors"] == []
    assert second["n_survivors"] == len(universe("bankruptcy")) - 1
    payload = await closing_of(door, first["session_id"])
    assert payload["cause"]["rule"] == "case_reinstated"
    await ingest(door, bankruptcy(*UNDONE))
    assert (await line_of(door, line))[-1]["survivors"] == ["ended_by_dismissal"]


@pytest.mark.parametrize("requests", range(5, 11))
async def test_a_run_that_was_cut_off_makes_no_second_successor(door: Door, requests):
    line = bankruptcy(*UNDONE)
    posts = 0

    async def cut_off(scope: Any, receive: Any, send: Any) -> None:
        nonlocal posts
        posts += 1
        await door.app(scope, receive, send)
        if posts > requests:
            raise httpx.ConnectError("gone")

    client = GatewayClient(URL, transport=httpx.ASGITransport(app=cut_off), give_up_after_s=0)
    with pytest.raises(GatewayError):
        await Ingest(client).run([line])
    assert log_length(door.ledger) > 0
    await ingest(door, line)
    assert [len(snapshot["survivors"]) for snapshot in await line_of(door, line)] == [1, 1]
    assert len(rows(door.ledger, schema.belief_sessions)) == 2
    assert findings(door.ledger) == ()
