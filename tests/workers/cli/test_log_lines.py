"""Whoever reads along sees his own jobs: done, failed with his frames, given up."""

from pathlib import Path

import orjson
import pytest

import workers.worker.handlers.plugin as ours
from workers.cli.log_lines import LogLines

TRACE = f"""Traceback (most recent call last):
  File "{ours.__file__}", line 1, in _call
    result = await call()
             ^^^^^^
  File "/home/ada/jobs.py", line 7, in thumbnail
    raise ValueError("bad")
ValueError: bad
"""
FAILED = {
    "timestamp": "2026-01-31T12:00:00Z",
    "level": "error",
    "event": "handler_failed",
    "queue": "thumbnail",
    "request_id": "request:thumbnail:1",
    "attempt": 1,
    "error": "ValueError: bad",
    "exception": TRACE,
}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    lines = LogLines()

    def write(*records: object) -> str:
        for record in records:
            lines.write(record if isinstance(record, bytes) else orjson.dumps(record) + b"\n")
        return capsys.readouterr().out

    return write


def test_a_failure_shows_the_users_frames_once(written):
    text = written(FAILED, {**FAILED, "attempt": 2})
    assert "thumbnail  handler failed, attempt 1: ValueError: bad" in text
    assert "thumbnail  handler failed, attempt 2: ValueError: bad" in text
    assert text.count('File "/home/ada/jobs.py", line 7') == 1
    assert Path(ours.__file__).name not in text


def test_what_is_no_event_is_shown_as_it_is_and_steers_no_terminal(written):
    assert written(b"printed by a job\x1b[2J\n") == "printed by a job\\x1b[2J\n"


def test_a_job_that_is_done_is_shown_and_what_is_ours_is_not(written):
    done = {"level": "info", "event": "job_done", "queue": "add", "took_ms": 3, "result": "{}"}
    httpx = {"level": "info", "event": "HTTP Request", "logger": "httpx"}
    served = {"level": "info", "event": "queue_served", "logger": ours.__name__}
    his = {"level": "info", "event": "hello", "logger": "jobs", "n": 1}
    text = written(done, httpx, served, his)
    assert "add  done in 3 ms: {}" in text
    assert "hello n=1" in text
    assert len(text.splitlines()) == 2


def test_a_job_that_is_given_up_is_named(written):
    given_up = {
        "level": "warning",
        "event": "item_dead_lettered",
        "item_key": "request:add:1",
        "error_signature": "damaged",
    }
    assert "add  given up: damaged; request:add:1" in written(given_up)


def test_a_terminal_has_colours_unless_it_wants_none(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    LogLines().write(orjson.dumps(FAILED))
    assert "\x1b[31m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    LogLines().write(orjson.dumps(FAILED))
    assert "\x1b" not in capsys.readouterr().out
