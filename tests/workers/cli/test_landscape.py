"""`rotulus explain` and `rotulus landscape`, on the file of a data folder."""

import gzip
import json

import pytest

from kernel.landscape.recorder import Recorder
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import FakeHost
from tests.kernel.landscape.runs import begin, whole_run
from tests.workers.cli.command import printed, rotulus

pytestmark = pytest.mark.spec("seed 003")


@pytest.fixture
def run(data_folder):
    ledger = Ledger.create(SqliteStore(data_folder.ledger_path), FakeHost().host)
    recorder = Recorder(ledger)
    recorded = whole_run(recorder)
    recorder.complete_run("run-1")
    ledger.close()
    return recorded


def test_an_id_is_explained_as_text_as_json_and_as_a_graph(run):
    token_id = run["token"]["token_id"]
    text = rotulus("explain", token_id).output
    for part in ("source: row 0 of source", "[1] classify: completed, 5.0 ms", "outcome: FORKED"):
        assert part in text
    assert 'asked {"ask":"granted"}\n    answered {"answer":"granted"}' in text
    text = rotulus("explain", run["branches"][0]["token_id"]).output
    assert 'gate -sure-> sure: move\n    because {"because":0.75}' in text
    document = printed("explain", run["row"]["row_id"], "--sink", "sure", "--format", "json")
    lineages = document["lineage"]["lineages"]
    assert [each["token"]["token_id"] for each in lineages] == [run["out"]["token_id"]]
    assert rotulus("explain", "run-1", "--format", "mermaid").output.startswith("flowchart LR")
    assert printed("explain", "PG-1", "--format", "json")["kind"] == "record"
    unknown = rotulus("explain", "nobody")
    assert (unknown.exit_code, "landscape_unknown" in unknown.output) == (1, True)


def test_runs_are_listed_reported_on_and_lose_their_payloads(run):
    assert "run-1" in rotulus("landscape", "runs").output
    assert printed("landscape", "report", "run-1", "--json")["counts"]["rows"] == 1
    graph = printed("landscape", "report", "run-1", "dag_structure", "--json")["content"]
    assert graph["node_count"] == 7
    assert printed("landscape", "diagnose", "--json", code=1)["status"] == "WARNING"
    purged = printed("landscape", "purge", "--days", "0", "--json")
    assert purged["runs"] == ["run-1"]
    assert purged["deleted_count"] > 0
    summary = printed("landscape", "report", "run-1", "--json")
    assert summary["reproducibility_grade"] == "attributable_only"


def test_a_purge_makes_the_file_shorter_by_what_it_removed(data_folder):
    ledger = Ledger.create(SqliteStore(data_folder.ledger_path), FakeHost().host)
    recorder = Recorder(ledger)
    begin(recorder)
    for number in range(60):
        data = {"n": number, "text": "x" * 20_000}
        row = recorder.create_row("run-1", "source", number, data, keep_payload=True)
        token = recorder.create_token("run-1", row["row_id"])
        recorder.record_token_outcome("run-1", token["token_id"], "completed", sink_name="sure")
    recorder.complete_run("run-1")
    ledger.close()
    before = data_folder.ledger_path.stat().st_size
    purged = printed("landscape", "purge", "--days", "0", "--json")
    assert purged["deleted_count"] == 60
    assert before - data_folder.ledger_path.stat().st_size > 0.9 * purged["bytes_freed"]


def test_a_run_goes_out_and_is_not_taken_in_where_it_is(run, tmp_path):
    key, file = tmp_path / "key", tmp_path / "run.jsonl"
    key.write_bytes(b"secret")
    lines = rotulus("landscape", "export", "run-1", "--key-file", str(key)).stdout
    assert json.loads(lines.splitlines()[-1])["record_type"] == "manifest"
    file.write_text(lines)
    refused = rotulus("landscape", "import", str(file), "--key-file", str(key))
    assert (refused.exit_code, "landscape_conflict" in refused.output) == (1, True)
    other = ("--data-dir", str(tmp_path / "another-place"))
    taken = printed("landscape", "import", str(file), "--key-file", str(key), "--json", *other)
    assert taken["record_count"] == len(lines.splitlines()) - 1
    file.write_bytes(gzip.compress(b"\xef\xbb\xbf" + lines.replace("\n", "\r\n").encode()))
    third = ("--data-dir", str(tmp_path / "a-third-place"))
    assert printed("landscape", "import", str(file), "--key-file", str(key), "--json", *third)
    file.write_text(f"[{lines.partition(chr(10))[0]},\n]")
    refused = rotulus("landscape", "import", str(file), *third)
    assert f"landscape_import_invalid: {file}: line 1: a JSON array" in refused.stderr
    assert "outcome: FORKED" in rotulus("explain", run["token"]["token_id"], *other).output
    rotulus("landscape", "export", "run-1", "--csv", str(tmp_path / "csv"))
    assert (tmp_path / "csv" / "rows.csv").is_file()


def test_a_run_goes_out_in_the_formats_of_others(run, tmp_path):
    lines = rotulus("landscape", "export", "run-1", "--format", "openlineage").stdout.splitlines()
    assert [json.loads(lines[at])["eventType"] for at in (0, -1)] == ["START", "COMPLETE"]
    document = json.loads(rotulus("landscape", "export", "run-1", "--format", "prov").stdout)
    assert "wasDerivedFrom" in document
    refused = rotulus(
        "landscape", "export", "run-1", "--format", "prov", "--csv", str(tmp_path / "csv")
    )
    assert refused.exit_code == 2
