"""The pages of runs: which there are, what one came to, the way of a token (seed 003)."""

from urllib.parse import quote

import anyio.to_thread
import pytest

from kernel.landscape.record_rules import TABLES
from kernel.landscape.recorder import Recorder
from tests.kernel.landscape.runs import begin
from tests.workers.api.door import Door

pytestmark = [pytest.mark.anyio, pytest.mark.spec("seed 003, Lineage Query System")]

HOSTILE = "<script>alert(1)</script>\u202e\"'><img src=x>"


async def shown(door: Door, path: str, **query):
    answer = await door.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    assert "script-src" not in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    return answer.text


async def test_a_run_is_listed_shown_and_followed_to_a_token(door: Door, run):
    assert '/runs/run-1"' in await shown(door, "/runs")
    assert "No run is on this page" in await shown(door, "/runs", status="failed")
    assert '/runs/run-1"' in await shown(door, "/runs", status="nothing", before="x")
    page = await shown(door, "/runs/run-1")
    for text in ("completed", "Consumed in batch", "no label", "text is no string", "none yet"):
        assert text in page
    for text in ("<small>validation</small>", "<small>transform</small>", "<small>state</small>"):
        assert text in page
    token_id = run["token"]["token_id"]
    path = f"/runs/run-1/tokens/{token_id}"
    assert f'{path}"' in page
    way = await shown(door, path)
    route = await shown(door, f"/runs/run-1/tokens/{run['branches'][0]['token_id']}")
    assert "move from gate to sure" in route
    for text in ("forked", "classify", "llm call 1", "filesystem call 0", "Motion GRANTED"):
        assert text in way
    for branch in run["branches"]:
        assert f'/runs/run-1/tokens/{branch["token_id"]}"' in way


async def test_what_is_not_there_is_said_with_its_code(door: Door, run):
    for path in ("/runs/nobody", "/runs/run-1/tokens/nobody", "/runs/nobody/tokens/a/b"):
        answer = await door.http.get(path)
        assert (answer.status_code, "landscape_unknown" in answer.text) == (404, True)


@pytest.mark.spec("L3")
async def test_a_damaged_record_is_named_and_nothing_of_the_run_is_shown(door: Door, run):
    def damage():
        key = ("run-1", run["token"]["token_id"])
        with door.ledger.store.transaction() as tables:
            tables.update(TABLES["tokens"], key, {"created_at_us": -1})

    await anyio.to_thread.run_sync(damage)
    answer = await door.http.get("/runs/run-1")
    assert answer.status_code == 500
    assert "landscape_record_damaged" in answer.text
    assert "created_at_us is no whole number" in answer.text


async def test_runs_and_tokens_come_in_pages(door: Door):
    def record():
        recorder = Recorder(door.ledger)
        # All begin in one microsecond, so a page may be longer, and none is left out.
        for number in range(25):
            recorder.begin_run({}, run_id=f"run-{number:02}")
        begin(recorder, "long")
        for number in range(60):
            row = recorder.create_row("long", "source", number, {"n": number})
            recorder.create_token("long", row["row_id"], token_id=f"token-{number:02}")
        recorder.flush()

    await anyio.to_thread.run_sync(record)
    runs = await shown(door, "/runs")
    assert all(f">run-{number:02}<" in runs for number in range(25))
    first = await shown(door, "/runs/long")
    assert ">token-49<" in first
    assert ">token-50<" not in first
    assert "?after=token-49#tokens" in first
    assert ">token-50<" in await shown(door, "/runs/long", after="token-49")
    for after in ("x" * 5000, "\x00", "²"):
        await shown(door, "/runs/long", after=after)


async def test_hostile_text_stays_text(door: Door):
    def record():
        recorder = Recorder(door.ledger)
        recorder.begin_run({}, run_id="run-1")
        recorder.register_node("run-1", HOSTILE, HOSTILE, "source")
        row = recorder.create_row("run-1", HOSTILE, 0, {HOSTILE: HOSTILE}, keep_payload=True)
        token = recorder.create_token("run-1", row["row_id"], token_id=HOSTILE)
        state = recorder.begin_node_state("run-1", HOSTILE, HOSTILE, 0, {})
        recorder.complete_node_state(
            "run-1", state["state_id"], "failed", duration_us=1, error={"why": HOSTILE}
        )
        recorder.record_validation_error("run-1", {}, HOSTILE)
        recorder.record_transform_error("run-1", HOSTILE, HOSTILE, {}, {"why": HOSTILE})
        recorder.flush()
        return token

    await anyio.to_thread.run_sync(record)
    for path in ("/runs", "/runs/run-1", f"/runs/run-1/tokens/{quote(HOSTILE, safe='')}"):
        text = await shown(door, path)
        assert "<script>" not in text
        assert "<img" not in text
        assert "\u202e" not in text
