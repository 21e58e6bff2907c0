"""Files as sinks: what was not confirmed is written again in its place, and once."""

import csv
import fcntl
import json

import pytest

from kernel.landscape.canonical_types import restore_value
from workers.pipelines import CsvSink, JsonLinesSink
from workers.pipelines.engine.sinks import SinkItem
from workers.pipelines.file_sinks import SinkFileError

ROWS = [SinkItem(f"t{n}", {"n": n, "text": 'a "b"', "raw": b"x"}) for n in range(3)]


def sinks(path):
    return [CsvSink(path, ["n", "text", "missing"]), JsonLinesSink(path)]


@pytest.mark.parametrize("kind", [0, 1])
def test_a_write_that_is_given_again_leaves_what_it_left_the_first_time(tmp_path, kind):
    path = tmp_path / "folder" / "out"
    sink = sinks(path)[kind]
    first = sink.write(ROWS[:1], 0)
    second = sink.write(ROWS[1:], first.position)
    content = path.read_bytes()
    assert second.position == len(content)
    # A process that was killed has written a part of it, or more than is on record.
    for left in (content[: first.position + 2], content + b"and more"):
        path.write_bytes(left)
        assert sinks(path)[kind].write(ROWS[1:], first.position) == second
        assert path.read_bytes() == content


ROW = {
    "text": 'a "b"\u2028é',
    "whole": 10.0,
    "fraction": -1.5,
    "tiny": 1e-300,
    "large": 2**60,
    "huge": 10**40,
    "none": None,
    "yes": True,
    "list": [1, None, 2.0],
    "object": {"a": "x", "__float__": "1"},
    "raw": b"\0x",
}


@pytest.mark.spec("003 Sinks: what a format's readers expect")
def test_a_line_is_json_that_any_reader_reads_as_the_row(tmp_path):
    path = tmp_path / "out"
    JsonLinesSink(path).write([SinkItem("t", ROW)], 0)
    [line] = path.read_text().split("\n")[:-1]
    read = json.loads(line)
    assert read == ROW | {"raw": "AHg="}
    assert [type(value) for value in read.values()][:-1] == [type(value) for value in ROW.values()][
        :-1
    ]
    assert list(read) == list(ROW)


def test_the_form_of_the_record_is_a_choice_by_name(tmp_path):
    path = tmp_path / "out"
    JsonLinesSink(path, form="canonical").write([SinkItem("t", ROW)], 0)
    assert restore_value(path.read_bytes().rstrip(b"\n")) == ROW


@pytest.mark.spec("003 Sinks: what a format's readers expect")
def test_a_cell_is_a_text_nothing_or_json(tmp_path):
    path = tmp_path / "out"
    CsvSink(path, [*ROW, "missing"]).write([SinkItem("t", ROW)], 0)
    with path.open(newline="") as file:
        header, cells = csv.reader(file)
    assert header == [*ROW, "missing"]
    read = dict(zip(header, cells, strict=True))
    assert (read["text"], read["none"], read["missing"]) == (ROW["text"], "", "")
    assert read["raw"] == "AHg="
    for name in set(ROW) - {"text", "none", "raw"}:
        assert json.loads(read[name]) == ROW[name]


def test_a_file_that_became_shorter_or_that_another_process_writes_is_left_alone(tmp_path):
    path = tmp_path / "out"
    sink = JsonLinesSink(path)
    position = sink.write(ROWS, 0).position
    path.write_bytes(b"short\n")
    with pytest.raises(SinkFileError, match="the record says"):
        sink.write(ROWS, position)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SinkFileError, match="another process"):
            sink.write(ROWS, 0)
    assert path.read_bytes() == b"short\n"
