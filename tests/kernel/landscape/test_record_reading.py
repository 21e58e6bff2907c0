"""What a pipeline asks of its own records: batches tried again, calls answered from the record."""

import pytest

from kernel.landscape.canonical_types import stable_hash
from kernel.landscape.errors import LandscapeRefused
from kernel.landscape.payloads import purge_payloads
from kernel.landscape.recorder import Recorder
from tests.kernel.landscape.runs import begin, begin_with_token, whole_run


def failed_batch(recorder, members=2):
    batch = recorder.create_batch("run-1", "gather")
    for place in range(members):
        row = recorder.create_row("run-1", "source", place, {"n": place})
        token = recorder.create_token("run-1", row["row_id"])
        recorder.add_batch_member("run-1", batch["batch_id"], token["token_id"], place)
    recorder.update_batch("run-1", batch["batch_id"], "failed")
    return batch["batch_id"]


@pytest.mark.spec("seed 003, Aggregation Tables")
def test_a_batch_that_failed_is_tried_again_with_its_members(recorder):
    begin(recorder)
    first = failed_batch(recorder)
    retry = recorder.retry_batch("run-1", first)
    assert (retry["attempt"], retry["status"]) == (1, "draft")
    assert retry["batch_id"] == f"{first}/000001"
    members = recorder.get_records("run-1", "batch_members", batch_id=retry["batch_id"]).records
    of_first = recorder.get_records("run-1", "batch_members", batch_id=first).records
    assert [row["token_id"] for row in members] == [row["token_id"] for row in of_first]
    assert [row["ordinal"] for row in members] == [0, 1]
    incomplete = [batch["batch_id"] for batch in recorder.get_incomplete_batches("run-1")]
    assert incomplete == [first, retry["batch_id"]]
    recorder.update_batch("run-1", retry["batch_id"], "failed")
    assert recorder.retry_batch("run-1", retry["batch_id"])["batch_id"] == f"{first}/000002"


@pytest.mark.parametrize("status", ["draft", "executing", "completed"])
def test_a_batch_that_has_not_failed_is_not_tried_again(recorder, status):
    begin(recorder)
    batch_id = recorder.create_batch("run-1", "gather")["batch_id"]
    if status != "draft":
        recorder.update_batch("run-1", batch_id, status)
    with pytest.raises(LandscapeRefused, match=f"is {status}"):
        recorder.retry_batch("run-1", batch_id)
    with pytest.raises(LandscapeRefused) as refused:
        recorder.retry_batch("run-1", "nowhere")
    assert refused.value.code == "landscape_unknown"


def test_two_recorders_do_not_both_try_a_batch_again(ledger, recorder):
    begin(recorder)
    batch_id = failed_batch(recorder)
    recorder.flush()
    other = Recorder(ledger)
    recorder.retry_batch("run-1", batch_id)
    other.retry_batch("run-1", batch_id)
    recorder.flush()
    with pytest.raises(LandscapeRefused) as refused:
        other.flush()
    assert refused.value.code == "landscape_conflict"
    assert len(recorder.get_records("run-1", "batches").records) == 2


@pytest.mark.spec("seed 003, Reproducibility Grades")
def test_a_call_is_answered_from_the_record_until_its_payload_goes(ledger, recorder):
    whole_run(recorder)
    request_hash = stable_hash({"ask": "granted"})
    call = recorder.find_call_by_request_hash("run-1", "llm", request_hash)
    assert recorder.get_call_response_data("run-1", call["call_id"]) == {"answer": "granted"}
    assert (
        recorder.find_call_by_request_hash("run-1", "llm", request_hash, sequence_index=1) is None
    )
    assert recorder.find_call_by_request_hash("run-1", "http", request_hash) is None
    [file] = recorder.get_records("run-1", "calls", call_type="filesystem").records
    recorder.complete_run("run-1")
    purge_payloads(ledger, before_us=1 << 60)
    for each in (call, file):
        with pytest.raises(LandscapeRefused) as refused:
            recorder.get_call_response_data("run-1", each["call_id"])
        assert refused.value.code == "landscape_payload_gone"


def test_calls_that_are_alike_are_told_apart_by_their_order(recorder):
    begin_with_token(recorder)
    state_id = recorder.begin_node_state("run-1", "t", "classify", 0, {})["state_id"]
    for number in range(3):
        recorder.record_call(
            *("run-1", "http", "success", {"get": "/"}),
            state_id=state_id,
            response=number,
            keep_payloads=True,
        )
    answers = []
    for place in range(3):
        call = recorder.find_call_by_request_hash(
            "run-1", "http", stable_hash({"get": "/"}), sequence_index=place
        )
        answers.append(recorder.get_call_response_data("run-1", call["call_id"]))
    assert answers == [0, 1, 2]


def test_runs_are_read_behind_what_was_recorded(recorder):
    begin(recorder)
    assert recorder.get_run("run-1")["status"] == "running"
    assert [run["run_id"] for run in recorder.list_runs(status="running")] == ["run-1"]
    assert recorder.list_runs(status="failed") == []
    assert recorder.get_record("run-1", "nodes", "parse")["node_type"] == "transform"
    for ask in (lambda: recorder.get_run("x"), lambda: recorder.get_record("run-1", "rows", "x")):
        with pytest.raises(LandscapeRefused) as refused:
            ask()
        assert refused.value.code == "landscape_unknown"
