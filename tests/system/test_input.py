"""Bad input is counted and the rest is taken; what was taken once is recognised."""

import json
from pathlib import Path

from tests.system.essence import essence
from tests.system.reference import Reference
from tests.system.tree_run import running
from workers.dockets.sample import sample_path


def test_bad_lines_are_counted_by_code_and_the_rest_is_on_the_record(tmp_path: Path) -> None:
    good, *others = (json.loads(line) for line in sample_path().read_bytes().splitlines())
    without_entries = {**others[0]}
    del without_entries["docket_entries"]
    short = {**others[1], "docket_entries": [dict(one) for one in others[1]["docket_entries"][:3]]}
    del short["docket_entries"][1]["description"]
    file = tmp_path / "dockets.jsonl"
    lines = (json.dumps(without_entries), "{not json", json.dumps(short), json.dumps(good))
    file.write_text("\n".join(lines) + "\n")

    with running(tmp_path / "data", "demo", str(file), "--exit", "--json") as run:
        assert run.finish() == 0, run.stderr
        report = run.report()

    assert report["ingest"]["input_problems"] == {
        "docket_field_missing": 1,
        "docket_line_not_json": 1,
        "docket_entry_without_description": 1,
    }
    assert report["ingest"]["dockets"] == 2
    assert report["ingest"]["entries"] == len(good["docket_entries"]) + 2
    assert report["failures"] == []
    assert report["record"]["verifies"] is True
    found = essence(run.ledger_path)
    titles = {session["title"] for session in found["sessions"].values()}
    assert titles == {good["case_name"], short["case_name"]}
    entries = {name for name, node in found["nodes"].items() if node[0] == "SourceArtifact"}
    expected = {f"{good['source_id']}#{place}" for place in range(len(good["docket_entries"]))}
    expected |= {f"{short['source_id']}#{place}" for place in (0, 2)}
    assert entries == {f"docket-entry:{name}" for name in expected}


def test_an_undisturbed_run_takes_every_docket_and_says_nothing(reference: Reference) -> None:
    """No line of the log reaches standard error below the default level, only progress does."""
    assert reference.report["ingest"]["dockets"] == len(reference.essence["sessions"]) == 12
    assert reference.report["ingest"]["operations_accepted"] == 636
    assert reference.report["record"]["authorities_equal"] == 12
    first, *rest = reference.stderr.splitlines()
    assert first.startswith("Rotulus is up: http://127.0.0.1:")
    steps = {line.split(":")[0].strip() for line in rest}
    assert steps == {"ingest", "authorities", "verify"}


def test_a_second_run_accepts_nothing_and_leaves_the_record_as_it_is(
    reference: Reference,
) -> None:
    """It also logs everything, one JSON object a line."""
    env = {"ROTULUS_LOG_LEVEL": "info", "ROTULUS_LOG_FORMAT": "json"}
    job = ("demo", str(reference.file), "--exit", "--json")
    with running(reference.data_dir, *job, env=env) as run:
        assert run.finish() == 0, run.stderr
        report = run.report()

    ingest = report["ingest"]
    assert ingest["operations_accepted"] == 0
    before = reference.report
    # A known observation gets its first answer again.
    assert ingest["hypotheses_eliminated"] == before["ingest"]["hypotheses_eliminated"]
    assert ingest["operations_already_on_record"] == before["ingest"]["operations_accepted"]
    assert report["requests"] == before["requests"]
    assert report["record"] == before["record"]
    assert report["failures"] == []
    assert essence(run.ledger_path) == reference.essence

    logged = [line for line in run.stderr.splitlines() if not line.startswith(("Rotulus", "  "))]
    events = [json.loads(line) for line in logged]
    assert all({"timestamp", "level", "event"} <= event.keys() for event in events)
    assert {event["level"] for event in events} == {"info"}
    loggers = {event["logger"] for event in events}
    assert {"workers.supervisor", "workers.gateway", "workers.worker"} <= loggers
