"""Progress: one line that changes on a terminal, a line now and then elsewhere."""

import io

import pytest

from tests.workers.environment.terminal import Terminal
from workers.environment import terminal_progress as module
from workers.environment.terminal_progress import (
    BAR_CHARS,
    LINE_EVERY_S,
    REPAINT_EVERY_S,
    Progress,
)


class ProgressClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch) -> ProgressClock:
    clock = ProgressClock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_log_file_gets_a_line_now_and_then_and_one_at_the_end(clock):
    stream = io.StringIO()
    with Progress("ingest", stream) as progress:
        for second in range(12):
            clock.now_s = 100.0 + second
            progress.show(f"{second} done")
    assert stream.getvalue() == (
        "  ingest: 5 done\n  ingest: 10 done\n  ingest: 11 done (11.0 s)\n"
    )
    assert LINE_EVERY_S == 5.0


def test_a_terminal_gets_one_line_that_is_painted_over(clock):
    stream = Terminal()
    with Progress("ingest", stream) as progress:
        for step in range(4):
            clock.now_s += 0.25
            progress.show(f"{step} done")
    painted = stream.getvalue()
    assert painted.count("\n") == 1
    assert painted.count("\r\x1b[K") == 5
    assert painted.endswith("\r\x1b[K  ingest: 3 done (1.0 s)\n")


def test_however_often_it_is_told_it_does_not_paint_more_often(clock):
    stream = Terminal()
    with Progress("ingest", stream) as progress:
        clock.now_s += 0.25
        for step in range(1000):
            progress.show(f"{step} done")
    assert stream.getvalue().count("\r\x1b[K") == 2
    assert REPAINT_EVERY_S <= 0.25


def test_a_step_that_fails_leaves_the_line_to_its_error(clock):
    def fail(stream: io.StringIO) -> None:
        with Progress("ingest", stream) as progress:
            clock.now_s += 1
            progress.show("half")
            raise RuntimeError

    terminal, log_file = Terminal(), io.StringIO()
    for stream in (terminal, log_file):
        with pytest.raises(RuntimeError):
            fail(stream)
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert log_file.getvalue() == ""


def test_it_knows_how_long_it_took(clock):
    with Progress("ingest", io.StringIO()) as progress:
        clock.now_s += 2.5
        assert progress.elapsed_s == 2.5


def test_without_a_stream_it_writes_beside_the_result(clock, capsys):
    with Progress("ingest") as progress:
        progress.show("all")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "ingest: all" in captured.err


def test_what_is_left_takes_as_long_as_what_is_done_took_and_no_bar_is_longer_than_another(clock):
    stream = Terminal()
    with Progress("ingest", stream) as progress:
        for done in (0, 25, 100, 150):
            clock.now_s += 5.0
            progress.count(done, 100, "bytes")
    shown = [text.removeprefix("  ingest: ") for text in stream.getvalue().split("\r\x1b[K")[1:]]
    assert shown == [
        f"[{'.' * BAR_CHARS}] 0/100 bytes",
        f"[{'#' * 6}{'.' * 18}] 25/100 bytes, 30 s left",
        f"[{'#' * BAR_CHARS}] 100/100 bytes",
        f"[{'#' * BAR_CHARS}] 150/100 bytes",
        f"[{'#' * BAR_CHARS}] 150/100 bytes (20.0 s)\n",
    ]
