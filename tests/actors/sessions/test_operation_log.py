"""One line for each operation, with the ids by which it is found again."""

import structlog
from structlog.testing import capture_logs

from actors.messages import Query
from actors.sessions.operation_log import log_results
from kernel.model.result import RejectedResult, Rejection, SubmissionResult
from kernel.simulate.operation import SimulationResult

RECORDED = SubmissionResult("op-1", 7, "2026-01-01T00:00:00.000000Z", (), (), "0" * 64)
REFUSED = RejectedResult("op-2", Rejection("V8", "envelope_taint", "field", "text"), "receipt:1")


def logged(result, request_id="request-1"):
    with capture_logs() as lines:
        log_results([(result, request_id)])
    return lines


def test_a_recorded_operation_is_one_line_with_its_ids():
    (line,) = logged(RECORDED)
    assert (line["event"], line["log_level"]) == ("operation_recorded", "info")
    assert (line["operation_id"], line["request_id"]) == ("op-1", "request-1")
    assert line["sequence"] == "7"


def test_a_refused_operation_names_the_check_and_the_code_and_no_content():
    (line,) = logged(("rejected", REFUSED))
    assert (line["event"], line["check"], line["code"]) == (
        "operation_refused",
        "V8",
        "envelope_taint",
    )
    assert "text" not in str(line)


def test_a_simulation_is_the_line_of_its_own_operation():
    (line,) = logged(SimulationResult("previewed", submission=RECORDED))
    assert (line["event"], line["operation_id"]) == ("operation_recorded", "op-1")
    assert logged(SimulationResult("blocked", receipt_id="receipt:1")) == []


def test_what_is_no_operation_says_nothing():
    assert logged(("closed", None)) == []
    assert logged(ValueError("a unit failed")) == []


def test_a_message_knows_the_request_that_made_it():
    with structlog.contextvars.bound_contextvars(request_id="request-9"):
        assert Query().request_id == "request-9"
    assert Query().request_id is None
    (line,) = logged(RECORDED, None)
    assert "request_id" not in line
