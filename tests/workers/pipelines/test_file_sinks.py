"""Files as sinks: what was not confirmed is written again in its place, and once."""

import fcntl

import pytest

from actors.pipelines.sinks import SinkItem
from workers.pipelines import CsvSink, JsonLinesSink
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


def test_a_csv_file_has_its_columns_and_lines_are_canonical_json(tmp_path):
    csv_sink, lines = sinks(tmp_path / "out")
    csv_sink.write(ROWS[:2], 0)
    assert (tmp_path / "out").read_text() == 'n,text,missing\n0,"a ""b""",\n1,"a ""b""",\n'
    lines.write(ROWS[:1], 0)
    expected = '{"n":0,"raw":{"__bytes__":"eA=="},"text":"a \\"b\\""}\n'
    assert (tmp_path / "out").read_text() == expected


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
