"""Files as sources: what sinks write comes back, plain, in gzip or from standard input."""

import gzip
import io
import sys

import pytest

from kernel.values.json_lines import LineRefused
from workers.pipelines import CsvSink, CsvSource, JsonLinesSink, JsonLinesSource
from workers.pipelines.engine.sinks import SinkItem
from workers.pipelines.file_sources import SourceFileError
from workers.pipelines.loading import load_pipeline

ROWS = [{"n": n, "text": 'a "b",\n\u2028é', "x": 1.0, "big": 2**60, "l": [None]} for n in range(3)]


@pytest.fixture(params=["plain", "gzip", "standard input", "byte order mark"])
def path_of(request, tmp_path, monkeypatch):
    """Bytes in a place that a source reads: the name of the place."""

    def place(content: bytes) -> str:
        if request.param == "gzip":
            content = gzip.compress(content)
        elif request.param == "byte order mark":
            content = b"\xef\xbb\xbf" + content
        if request.param == "standard input":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
            return "-"
        path = tmp_path / "in"
        path.write_bytes(content)
        return str(path)

    return place


def test_lines_that_a_sink_wrote_are_rows_again(path_of, tmp_path):
    JsonLinesSink(tmp_path / "out").write([SinkItem("t", row) for row in ROWS], 0)
    content = (tmp_path / "out").read_bytes()
    assert [*JsonLinesSource(path_of(content.replace(b"\n", b"\r\n")))()] == ROWS


def test_a_table_that_a_sink_wrote_is_rows_of_texts(path_of, tmp_path):
    CsvSink(tmp_path / "out", ["n", "text"]).write([SinkItem("t", row) for row in ROWS], 0)
    rows = [*CsvSource(path_of((tmp_path / "out").read_bytes()))()]
    assert rows == [{"n": str(row["n"]), "text": row["text"]} for row in ROWS]


def test_a_line_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b'{"n":1}\n\nno\n')
    rows = JsonLinesSource(path)()
    assert next(rows) == {"n": 1}
    with pytest.raises(LineRefused, match="not JSON") as refused:
        next(rows)
    assert refused.value.line == 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a,b,a\n1,2,3\n", "line 1: the header names 'a' twice"),
        ("a,b\n1,2\n1,2,3\n", "line 3: 3 cells under 2 names"),
        ('a,b\n"1"x,2\n', "line 2: "),
    ],
)
def test_what_is_no_table_is_named_by_its_line(tmp_path, content, problem):
    path = tmp_path / "in.csv"
    path.write_text(content)
    with pytest.raises(SourceFileError, match=problem):
        [*CsvSource(path)()]


def test_a_row_that_is_short_has_empty_cells_and_an_empty_line_is_none(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("a;b\n1\n\n2;3\n")
    assert [*CsvSource(path, delimiter=";")()] == [{"a": "1", "b": ""}, {"a": "2", "b": "3"}]


def test_a_source_is_declared_like_any_other_and_states_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "copying.py").write_text(
        "from rotulus.pipelines import JsonLinesSink, JsonLinesSource, Pipeline\n"
        'pipeline = Pipeline("copying")\n'
        'pipeline.source(JsonLinesSource("in.jsonl"), name="lines")\n'
        'pipeline.sink(JsonLinesSink("out.jsonl"), name="copy")\n'
    )
    graph = load_pipeline("copying:pipeline").graph
    assert graph.source.configuration()["path"] == "in.jsonl"
