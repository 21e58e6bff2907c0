"""A path or standard input, opened as bytes."""

import io
import sys

from workers.environment.input_files import opened_input


def test_a_path_is_opened_and_closed(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"{}\n")
    with opened_input(path) as file:
        assert file.read() == b"{}\n"
    assert file.closed


def test_standard_input_is_read_and_stays_open(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"{}\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    with opened_input("-") as file:
        assert file.read() == b"{}\n"
    assert not stdin.buffer.closed
