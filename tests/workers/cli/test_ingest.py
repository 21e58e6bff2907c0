"""`rotulus ingest` says how far it is: a share and the time left of a file, counts of a stream."""

import os
import threading
from pathlib import Path

import pytest

from tests.workers.cli.command import rotulus
from tests.workers.cli.test_queues import OneRecord
from tests.workers.environment.terminal import Terminal
from workers.cli import gateway_call
from workers.cli import ingest as ingest_module
from workers.dockets.sample import sample_path
from workers.environment import terminal_progress
from workers.environment.terminal_progress import BAR_CHARS, Progress

LINES = sorted(sample_path().read_bytes().splitlines(keepends=True), key=len)[:2]
FILE = b"".join(LINES)
WHOLE = f"[{'#' * BAR_CHARS}] {len(FILE)}/{len(FILE)} bytes, 2 dockets, "


@pytest.fixture
def record(monkeypatch) -> OneRecord:
    record = OneRecord()
    monkeypatch.setattr(gateway_call, "GatewayClient", record.client)
    return record


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "dockets.jsonl"
    file.write_bytes(FILE)
    return file


def test_a_file_has_a_share_and_time_left_on_a_terminal(record, file: Path, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(ingest_module, "Progress", lambda title: Progress(title, terminal))
    monkeypatch.setattr(terminal_progress, "REPAINT_EVERY_S", 0.0)
    assert rotulus("ingest", str(file)).exit_code == 0
    *painted, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert last.startswith(f"  ingest: {WHOLE}")
    on_the_way = [text for text in painted if " 0/" not in text and WHOLE not in text]
    assert on_the_way
    assert all(text.endswith(" s left") for text in on_the_way)


def test_a_log_gets_no_control_characters(record, file: Path, monkeypatch):
    monkeypatch.setattr(terminal_progress, "LINE_EVERY_S", 0.0)
    result = rotulus("ingest", str(file))
    assert result.exit_code == 0
    assert f"  ingest: {WHOLE}" in result.stderr
    assert " s left\n" in result.stderr
    assert not {"\r", "\x1b"} & set(result.stderr)


def test_standard_input_and_a_pipe_have_no_total(record, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(LINES[0],))
    writer.start()
    results = [rotulus("ingest", str(pipe)), rotulus("ingest", "-", stdin=LINES[0].decode())]
    writer.join()
    for result in results:
        assert result.exit_code == 0
        assert "  ingest: 1 dockets, " in result.stderr
        assert not {"[", "/", "\r", "\x1b"} & set(result.stderr)
