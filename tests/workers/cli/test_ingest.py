"""`rotulus ingest` says how far it is: a share and the time left of a file, counts of a stream."""

import gzip
import json
import os
import threading
from pathlib import Path

import pytest

from tests.dockets_doc import EXAMPLE
from tests.workers.cli.command import printed, rotulus
from tests.workers.cli.test_queues import OneRecord
from tests.workers.environment.terminal import Terminal
from workers.cli import gateway_call
from workers.cli import ingest as ingest_module
from workers.dockets.reader import LIMITS, sample_path
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


def entries_of(source_id: str, **changed: object) -> bytes:
    document = EXAMPLE | {"source_id": source_id} | changed
    return json.dumps(document).encode() + b"\n"


TWO = entries_of("own/1") + entries_of("own/2")


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + TWO,
        gzip.compress(TWO, mtime=0),
        TWO.replace(b"\n", b"\r\n"),
        b"\n" + TWO.strip(),
        entries_of("own/1", case_name="In re \u2028 Example") + entries_of("own/2"),
    ],
    ids=["mark", "gzip", "crlf", "empty-lines", "separator"],
)
def test_a_file_is_taken_whole_however_it_was_written(record, tmp_path: Path, content: bytes):
    file = tmp_path / "own.jsonl"
    file.write_bytes(content)
    document = printed("ingest", str(file), "--json")
    assert (document["dockets"], document["input_problems"]) == (2, {})
    assert printed("dockets", "report", str(file), "--json")["dockets"] == 2


@pytest.mark.parametrize(
    ("content", "dockets", "said"),
    [
        (b"", 0, ""),
        (b"\n \n", 0, ""),
        (json.dumps([EXAMPLE]).encode(), 0, "one JSON object a line"),
        (json.dumps(EXAMPLE, indent=1).encode(), 0, "one JSON object a line"),
        (TWO.decode().encode("utf-16"), 0, "UTF-8"),
        (gzip.compress(TWO * 20, mtime=0)[:-9], None, "damaged gzip"),
        (entries_of("own/1", date_filed="01/02/2024"), 0, "ISO 8601"),
    ],
    ids=["empty", "blank", "array", "pretty", "utf-16", "cut", "date"],
)
def test_what_is_not_read_to_its_end_ends_with_1_and_is_said_once(
    record, tmp_path: Path, content: bytes, dockets: int | None, said: str
):
    file = tmp_path / "own.jsonl"
    file.write_bytes(content)
    result = rotulus("ingest", str(file), "--json")
    assert result.exit_code == 1
    assert dockets is None or json.loads(result.stdout)["dockets"] == dockets
    problems = [line for line in result.stderr.splitlines() if "docket_problem" in line]
    assert len(problems) == bool(said)
    assert all(str(file) in problem and said in problem for problem in problems)
    result = rotulus("dockets", "report", str(file))
    assert result.exit_code == 1
    assert said in result.stderr
    assert (str(file) in result.stderr) == bool(said)


def test_own_data_is_taken_by_a_map_with_defaults(record, tmp_path: Path):
    own = {"id": 1, **{name: value for name, value in EXAMPLE.items() if name != "source_id"}}
    del own["court_kind"]
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(own))
    options = ("--map", "source_id=id", "--default", "court_kind=bankruptcy")
    assert printed("ingest", str(file), *options, "--json")["dockets"] == 1
    assert printed("dockets", "report", str(file), *options, "--json")["dockets"] == 1
    result = rotulus("ingest", str(file), "--map", "sourceid=id")
    assert result.exit_code == 1
    assert "field_map_invalid: 'sourceid' is no field (did you mean 'source_id'?)" in result.stderr


def test_the_help_states_the_limits_that_are_enforced():
    text = rotulus("ingest", "--help").stdout
    assert all(f"{name}: {limit}" in text for name, limit in LIMITS)


@pytest.mark.spec("§10.3", "§13.3")
def test_any_json_is_taken_as_a_source_once(record, tmp_path: Path):
    file = tmp_path / "own data.jsonl"
    file.write_text('{"a": {"b": "</UNTRUSTED_CONTENT>"}}\n[1, 2]\n"text"\nnull\n')
    for already in (0, 8):
        document = printed("ingest", str(file), "--as", "source", "--json")
        assert (document["sources"], document["already_on_record"]) == (4, already)
        assert document["operations_refused"] == document["input_problems"] == {}


def test_a_source_has_its_text_and_its_id_where_the_map_says(record, tmp_path: Path):
    file = tmp_path / "own.jsonl"
    file.write_text(
        '{"id": 1, "body": {"said": "Order"}}\n{"id": 2}\n{"id":3,"body":{"said":"\\u0000"}}\n'
    )
    options = ("--as", "source", "--map", "source_id=id", "--map", "text=body.said", "--json")
    result = rotulus("ingest", str(file), *options)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["sources"] == 1
    problems = [line for line in result.stderr.splitlines() if "source_problem" in line]
    assert len(problems) == 2
    assert all(str(file) in line and "text" in line for line in problems)
    assert "no such field" in problems[0]
    changed = file.write_text('{"id": 1, "body": {"said": "Another order"}}\n')
    assert changed
    refused = rotulus("ingest", str(file), *options)
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["operations_refused"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ""),
        (b'{\n"a": 1}\n', "over several lines"),
        (json.dumps("x" * 70_000).encode(), "allowed: 65536"),
        (b"nonsense", "not JSON"),
    ],
)
def test_what_is_no_source_ends_with_1(record, tmp_path: Path, content: bytes, said: str):
    file = tmp_path / "own.jsonl"
    file.write_bytes(content)
    result = rotulus("ingest", str(file), "--as", "source")
    assert result.exit_code == 1
    assert said in result.stderr
