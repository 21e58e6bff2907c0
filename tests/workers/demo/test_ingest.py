"""Ingest: what is good goes onto the record, what is bad is counted, and it may be run again."""

import json
from collections.abc import Iterable
from itertools import cycle
from typing import Any

import anyio.lowlevel
import httpx
import pytest
from structlog.testing import capture_logs

from kernel.ledger import schema
from tests.kernel.build import everything, findings
from tests.workers.api.door import URL, Door, log_length, rows
from workers.client.errors import GatewayError
from workers.client.session_operations import LINES_MAX
from workers.client.typed.gateway import GatewayClient
from workers.demo.ingest import Ingest, Summary
from workers.dockets.normalisation import NAME_CHARS_MAX
from workers.dockets.plan import plan_docket
from workers.dockets.reader import (
    DESCRIPTION_BYTES_MAX,
    ENTRIES_MAX,
    FIELD_CHARS_MAX,
    TEXT_FIELDS,
    Docket,
    read_dockets,
    sample_path,
)

pytestmark = pytest.mark.anyio


def sample() -> list[bytes]:
    return sample_path().read_bytes().splitlines()


def docket(source_id: str = "d-1", *descriptions: Any, **changes: Any) -> bytes:
    entries = [
        {"date_filed": "2024-01-02", "description": description, "document_number": index + 1}
        for index, description in enumerate(descriptions)
    ]
    document = {
        "source_id": source_id,
        "court_id": "test",
        "court_kind": "district",
        "case_name": "A v. B",
        "docket_number": "1:24-cv-1",
        "date_filed": "2024-01-01",
        "docket_entries": entries,
        **changes,
    }
    return json.dumps(document).encode()


def state_of(door: Door) -> dict[str, Any]:
    """Everything on the record but the clock, which every commit moves."""
    state = everything(door.ledger)
    for head in state["chain_head"]:
        del head["committed_at_us"]
    return state


async def declared_otherwise(door: Door, source_id: str) -> None:
    """Take the session of a docket for another universe, so that the gateway refuses its own."""
    [read] = read_dockets([docket(source_id)])
    assert isinstance(read, Docket)
    body = {
        "session_id": str(plan_docket(read).session_id),
        "ontology": plan_docket(read).declare.ontology,
        "hypotheses": ["another"],
    }
    assert (await door.http.post("/v1/sessions", json=body)).is_success


def plans() -> list[Any]:
    return [plan_docket(docket) for docket in read_dockets(sample()) if isinstance(docket, Docket)]


async def test_the_sample_goes_onto_the_record_as_it_was_planned(door_on_file: Door):
    door = door_on_file
    summary = await Ingest(door.client()).run(sample())
    planned = plans()
    assert summary.dockets == len(planned)
    assert summary.entries == sum(len(plan.entries) for plan in planned)
    assert summary.accepted == sum(
        1 for plan in planned for step in plan.steps() if type(step).__name__ != "Strike"
    )
    assert summary.eliminated > 0
    assert not summary.refused
    assert not summary.problems
    assert summary.failed_dockets == []
    sessions = {row["session_id"] for row in rows(door.ledger, schema.belief_sessions)}
    assert sessions == {str(plan.session_id) for plan in planned}
    for plan in planned:
        for entry in plan.entries:
            assert (
                await door.http.get(f"/v1/nodes/{entry.node_id.replace('#', '%23')}")
            ).is_success
    assert findings(door.ledger) == ()


async def test_a_second_run_finds_everything_on_the_record_and_writes_nothing(door: Door):
    first = await Ingest(door.client()).run(sample())
    before = state_of(door)
    second = await Ingest(door.client()).run(sample())
    assert second.accepted == second.bindings_created == 0
    assert second.already_on_record == first.accepted
    assert state_of(door) == before


@pytest.mark.slow
async def test_a_run_that_was_cut_off_is_taken_up_where_it_stopped(door: Door):
    whole = plans()
    expected = sum(1 for plan in whole for step in plan.steps() if type(step).__name__ != "Strike")
    posts = 0

    async def cut_off(scope: Any, receive: Any, send: Any) -> None:
        nonlocal posts
        posts += 1
        if posts > 12:
            raise httpx.ConnectError("gone")
        await door.app(scope, receive, send)

    client = GatewayClient(URL, transport=httpx.ASGITransport(app=cut_off), give_up_after_s=0)
    with pytest.raises(GatewayError):
        await Ingest(client).run(sample())
    assert 0 < log_length(door.ledger) < expected
    summary = await Ingest(door.client()).run(sample())
    assert summary.accepted > 0
    assert summary.accepted + summary.already_on_record == expected
    assert summary.failed_dockets == []
    assert findings(door.ledger) == ()


async def test_bad_lines_and_bad_entries_are_counted_by_code_and_the_rest_goes_on(door: Door):
    lines = [
        b"not json",
        b"",
        b"[1]",
        docket("d-1", "COMPLAINT filed.", None, "   "),
        docket("d-2", "COMPLAINT filed.", docket_entries="none"),
        docket(
            "d-3",
            docket_entries=[
                {"date_filed": "2024-01-02", "description": "COMPLAINT filed."},
                {"date_filed": "some day", "description": "ORDER."},
                "no entry",
            ],
        ),
        docket("d-4"),
    ]
    summary = await Ingest(door.client()).run(lines)
    assert summary.document() == {
        "standing_bindings_created": 5,
        "dockets": 3,
        "entries": 2,
        "operations_accepted": 25,
        "operations_already_on_record": 2,
        "operations_refused": {},
        "hypotheses_eliminated": summary.eliminated,
        "eliminations_already_applied": summary.strikes.already_struck,
        "sessions_succeeded": 0,
        "input_problems": {
            "docket_line_not_json": 1,
            "docket_line_not_object": 1,
            "docket_entry_without_description": 2,
            "docket_field_missing": 1,
            "docket_entry_bad_date": 1,
            "docket_entry_not_object": 1,
        },
        "dockets_failed": [],
    }


async def test_one_docket_that_the_gateway_refuses_does_not_stop_the_others(door: Door):
    await declared_otherwise(door, "d-1")
    lines = [docket("d-1", "COMPLAINT filed."), docket("d-2", "COMPLAINT filed.")]
    summary = await Ingest(door.client()).run(lines)
    assert summary.failed_dockets == ["d-1"]
    assert (summary.dockets, summary.accepted) == (1, 11)


async def test_a_docket_that_was_changed_since_is_refused_by_code_and_counted(door: Door):
    await Ingest(door.client()).run([docket("d-1", "COMPLAINT filed.")])
    changed = docket("d-1", "COMPLAINT filed, with a summons.")
    summary = await Ingest(door.client()).run([changed])
    # The entry's ids are taken; that is how an archived key looks too, so nothing is lost.
    assert summary.accepted == 0
    assert summary.already_on_record + sum(summary.refused.values()) == 11


async def test_what_the_gateway_refuses_is_counted_by_its_reason(door: Door):
    class RefusingClient(GatewayClient):
        async def post(self, path: str, body: Any) -> Any:
            return await door.client().post(path, body)

        async def send_lines(self, _: str, lines: Iterable[bytes], *_options: Any) -> Any:
            refused = {"validation_result": "rejected", "reason_code": "some_reason"}
            invalid = {"validation_result": "invalid", "reason_code": "intent_invalid"}
            known = {"validation_result": "rejected", "reason_code": "node_already_exists"}
            results = zip(lines, cycle((refused, invalid, known)), strict=False)
            return [{"line": 1, "result": result} for _, result in results], None

    summary = await Ingest(RefusingClient(URL)).run([docket("d-1", "COMPLAINT filed.")])
    assert summary.refused == {"some_reason": 4, "intent_invalid": 4}
    assert summary.already_on_record == 3


async def test_intents_are_posted_in_bounded_batches_in_their_order(door: Door):
    sizes: list[int] = []

    class Counting(GatewayClient):
        async def post(self, path: str, body: Any) -> Any:
            return await door.client().post(path, body)

        async def send_lines(self, path: str, lines: Iterable[bytes], *_options: Any) -> Any:
            sent = [*lines]
            sizes.append(len(sent))
            return await door.client().send_lines(path, sent)

    lines = [docket("d-1", *(f"NOTICE of something, number {number}" for number in range(300)))]
    summary = await Ingest(Counting(URL)).run(lines)
    assert summary.accepted == sum(sizes) == 1506
    assert max(sizes) == LINES_MAX
    assert not summary.refused


@pytest.mark.slow
async def test_a_strike_comes_after_the_words_that_it_reads(door: Door):
    posted: dict[str, set[str]] = {}
    strikes = 0

    class Ordered(GatewayClient):
        async def post(self, path: str, body: Any) -> Any:
            nonlocal strikes
            if path.endswith("/eliminate"):
                strikes += 1
                nodes = posted[path.rpartition("/")[0]]
                assert body["justification"]["source_node_id"] in nodes
            return await door.client().post(path, body)

        async def send_lines(self, path: str, lines: Iterable[bytes], *_options: Any) -> Any:
            sent = [*lines]
            nodes = posted.setdefault(path.rpartition("/")[0], set())
            nodes.update(json.loads(line).get("node_id", "") for line in sent)
            return await door.client().send_lines(path, sent)

    await Ingest(Ordered(URL)).run(sample())
    assert strikes


async def test_the_same_docket_twice_in_one_file_is_recorded_once(door: Door):
    lines = [docket("d-1", "COMPLAINT filed.", "ORDER granting motion.")] * 2
    summary = await Ingest(door.client()).run(lines)
    assert summary.accepted == summary.already_on_record == 16
    assert summary.failed_dockets == []


async def test_a_gateway_that_is_away_is_waited_for_and_then_the_ingest_says_so():
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await anyio.lowlevel.checkpoint()

    client = GatewayClient("http://127.0.0.1:1", give_up_after_s=5, sleep=sleep)
    async with client:
        with pytest.raises(GatewayError) as caught:
            await Ingest(client).run(sample())
    assert caught.value.code == "gateway_unreachable"
    assert sum(pauses) >= 5


async def test_a_gateway_that_comes_back_in_time_misses_nothing(door: Door):
    failures = iter([True, False, True, True] + [False] * 1000)

    async def flaky(scope: Any, receive: Any, send: Any) -> None:
        if next(failures):
            raise httpx.ConnectError("refused")
        await door.app(scope, receive, send)

    async def sleep(_: float) -> None:
        await anyio.lowlevel.checkpoint()

    client = GatewayClient(URL, transport=httpx.ASGITransport(app=flaky), sleep=sleep)
    summary = await Ingest(client).run(sample())
    assert summary.dockets == len(plans())
    assert not summary.refused
    assert summary.already_on_record == 0


async def test_progress_is_told_as_it_goes(door: Door):
    seen: list[int] = []
    await Ingest(door.client(), lambda now: seen.append(now.accepted)).run(sample())
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


async def test_every_byte_is_done_once_whatever_becomes_of_its_line(door: Door):
    good, again = docket("d-1", "COMPLAINT filed."), docket("d-1", "COMPLAINT filed.")
    refused, bad = docket("d-2", "COMPLAINT filed."), b"not json"
    await declared_otherwise(door, "d-2")
    file = b"\n".join([b"", bad, good, b"", again, refused, bad, b"", b""])
    done: list[int] = []
    ingest = Ingest(door.client(), lambda now: done.append(now.bytes_done))
    summary = await ingest.run(file.splitlines(keepends=True))
    assert (summary.dockets, len(summary.failed_dockets)) == (2, 1)
    assert done == sorted(done)
    assert done[0] < len(file), "what was read and is not done yet is not counted"
    assert summary.bytes_done == len(file)


def test_an_empty_summary_counts_nothing():
    document = Summary().document()
    assert not any(document.values())


LONGEST = "\u00e9" * FIELD_CHARS_MAX
TEXTS = dict.fromkeys(TEXT_FIELDS, LONGEST)


@pytest.mark.parametrize(
    "name", ["all", *(pytest.param(name, marks=pytest.mark.nightly) for name in TEXT_FIELDS)]
)
async def test_a_docket_at_its_limits_is_taken(door: Door, name: str):
    entry = {
        "date_filed": "2024-01-02",
        "description": "&" * DESCRIPTION_BYTES_MAX,
        "document_number": LONGEST,
        "pacer_seq_no": LONGEST,
    }
    long = TEXTS if name == "all" else {name: LONGEST}
    lines = [docket(**{"docket_entries": [entry, entry], **long})]
    summary = await Ingest(door.client()).run(lines)
    assert (summary.dockets, summary.entries, summary.failed_dockets) == (1, 2, [])
    assert not summary.refused
    assert not summary.problems
    assert findings(door.ledger) == ()
    again = await Ingest(door.client()).run(lines)
    assert again.accepted == 0
    assert not again.refused


@pytest.mark.parametrize("length", [NAME_CHARS_MAX, NAME_CHARS_MAX + 1])
async def test_no_entry_is_too_far_down_for_a_long_name(door: Door, length: int):
    entries: list[Any] = [None] * (ENTRIES_MAX - 1)
    entries.append({"date_filed": "2024-01-02", "description": "COMPLAINT filed."})
    summary = await Ingest(door.client()).run([docket("s" * length, docket_entries=entries)])
    assert (summary.dockets, summary.entries, summary.failed_dockets) == (1, 1, [])
    assert not summary.refused


@pytest.mark.parametrize("name", [*TEXT_FIELDS, "date_filed"])
async def test_a_name_that_no_record_holds_is_said_and_the_others_go_on(door: Door, name: str):
    lines = [docket(**{name: "24\0"}), docket("d-2", "COMPLAINT filed.")]
    with capture_logs() as logs:
        summary = await Ingest(door.client()).run(lines)
    assert (summary.dockets, summary.failed_dockets) == (1, [])
    [problem] = [log for log in logs if log["event"] == "docket_problem"]
    assert (problem["line"], problem["field"]) == (1, name)
    assert "24\\u0000" in problem["problem"]
    assert problem["allowed"]


async def test_an_entry_that_no_record_holds_is_left_out_by_its_place(door: Door):
    texts = [{"description": "A\0B"}, {"description": "Order", "document_number": "\0"}]
    entries = [{"date_filed": "2024-01-02", **text} for text in (*texts, {"description": "Order"})]
    with capture_logs() as logs:
        summary = await Ingest(door.client()).run([docket("d-1", docket_entries=entries)])
    assert (summary.dockets, summary.entries) == (1, 1)
    problems = [log for log in logs if log["event"] == "docket_problem"]
    assert [(log["entry"], log["field"]) for log in problems] == [
        (0, "description"),
        (1, "document_number"),
    ]
