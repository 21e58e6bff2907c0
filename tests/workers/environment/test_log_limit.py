"""Callers of a process cannot fill its log, and what is left out is counted and said."""

import io
import logging
from typing import Any

import orjson
import pytest

from workers.environment import log_limit
from workers.environment.log_limit import EVERY_S, LINES_MAX, CallersLimit
from workers.environment.log_setup import configure_logging, get_logger


@pytest.fixture
def log(logging_of_its_own: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A log, the lines that are in it, and the clock of its limit."""
    stream, now = io.StringIO(), [0.0]

    class Limit(CallersLimit):
        def __init__(self) -> None:
            super().__init__(lambda: now[0])

    monkeypatch.setattr("workers.environment.log_setup.CallersLimit", Limit)
    configure_logging("info", "json", stream)

    def lines() -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in stream.getvalue().splitlines()]

    return lines, now


def ours(logger: str) -> None:
    try:
        int("of a caller")
    except ValueError:
        get_logger(logger).exception("request_failed", path="/")


def of_a_library(logger: str) -> None:
    logging.getLogger(logger).warning("Invalid HTTP request received from %s", object())


@pytest.mark.parametrize(
    ("say", "logger"), [(ours, "workers.api.middleware"), (of_a_library, "uvicorn.error")]
)
def test_of_an_event_that_callers_cause_so_many_lines_are_written_and_the_rest_is_counted(
    log, say, logger
):
    lines, now = log
    for _ in range(134):
        say(logger)
    assert len(lines()) == LINES_MAX
    assert [line.get("further_lines_left_out_for_s") for line in lines()][-2:] == [None, EVERY_S]
    now[0] += EVERY_S
    say(logger)
    say(logger)
    assert [line.get("lines_left_out") for line in lines()[LINES_MAX:]] == [134 - LINES_MAX, None]


def test_events_are_told_apart_and_other_lines_are_all_written(log):
    lines, _ = log
    for number in range(LINES_MAX + 5):
        get_logger("workers.api.app").error("one_event", number=number)
        get_logger("workers.worker.batches").error("item_failed")
        get_logger("workers.api.app").critical("process_ends")
    get_logger("workers.api.app").error("another_event")
    counts: dict[str, int] = {}
    for line in lines():
        counts[line["event"]] = counts.get(line["event"], 0) + 1
    assert counts == {
        "one_event": LINES_MAX,
        "item_failed": LINES_MAX + 5,
        "process_ends": LINES_MAX + 5,
        "another_event": 1,
    }


def test_events_without_end_share_a_bound(log, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_limit, "EVENTS_MAX", 3)
    lines, _ = log
    for number in range(100):
        get_logger("workers.api.app").error(f"event_{number}")
    assert len(lines()) == 3 + LINES_MAX
