"""Bad input is counted and the rest is taken; what was taken once is recognised; logs are lines."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.algebra.verbs import LANDSCAPE_SEAL, RECEIPTS_SEAL
from tests.system.essence import essence, reading
from tests.system.reference import Reference
from tests.system.tree_run import TreeRun, running
from workers.dockets.reader import sample_path

GOOD, WITHOUT_ENTRIES, SHORT, _ = (
    json.loads(line) for line in sample_path().read_bytes().splitlines()
)
del WITHOUT_ENTRIES["docket_entries"]
SHORT["docket_entries"] = SHORT["docket_entries"][:3]
del SHORT["docket_entries"][1]["description"]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TreeRun]:
    """A run that logs everything, over a file in which good lines stand among bad ones."""
    folder = tmp_path_factory.mktemp("mixed")
    file = folder / "dockets.jsonl"
    lines = (json.dumps(WITHOUT_ENTRIES), "{not json", json.dumps(SHORT), json.dumps(GOOD))
    file.write_text("\n".join(lines) + "\n")
    env = {"ROTULUS_LOG_LEVEL": "info", "ROTULUS_LOG_FORMAT": "json"}
    with running(folder / "data", "demo", str(file), "--exit", "--json", env=env) as run:
        assert run.finish() == 0, run.stderr
        yield run


def steps_and_log(stderr: str) -> tuple[set[str], list[str]]:
    """Return the names of the steps that progress was shown of, and the lines of the log.

    But for what says that a child took longer to end than it has: on a busy machine one may.
    """
    lines = [line for line in stderr.splitlines() if '"event":"child_killed"' not in line]
    steps = {line.split(":")[0].strip() for line in lines if line.startswith("  ")}
    return steps, [line for line in lines if not line.startswith(("  ", "Rotulus is up"))]


def _without(names: set[str], document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def test_bad_lines_are_counted_by_code_and_the_rest_is_on_the_record(mixed: TreeRun) -> None:
    report = mixed.report()
    assert report["ingest"]["input_problems"] == {
        "docket_field_missing": 1,
        "docket_line_not_json": 1,
        "docket_entry_without_description": 1,
    }
    assert report["ingest"]["dockets"] == 2
    assert report["ingest"]["entries"] == len(GOOD["docket_entries"]) + 2
    assert report["failures"] == []
    assert report["record"]["verifies"] is True

    essences = essence(mixed.ledger_path)
    titles = {session["title"] for session in essences["sessions"].values()}
    assert titles == {GOOD["case_name"], SHORT["case_name"]}
    entries = {name for name, node in essences["nodes"].items() if node[0] == "SourceArtifact"}
    expected = {f"{GOOD['source_id']}#{place}" for place in range(len(GOOD["docket_entries"]))}
    expected |= {f"{SHORT['source_id']}#{place}" for place in (0, 2)}
    captions = {f"docket-caption:{docket['source_id']}" for docket in (GOOD, SHORT)}
    assert entries == {f"docket-entry:{name}" for name in expected} | captions


def test_every_logged_line_is_one_json_object_from_whichever_process(mixed: TreeRun) -> None:
    _, logged = steps_and_log(mixed.stderr)
    events: list[dict[str, Any]] = [json.loads(line) for line in logged]
    assert all({"timestamp", "level", "event", "logger"} <= event.keys() for event in events)
    warned = {event["event"] for event in events if event["level"] != "info"}
    assert warned == {"docket_problem"}
    loggers = {event["logger"] for event in events}
    assert {
        "workers.process_tree.supervisor",
        "workers.gateway.process",
        "workers.worker.process",
    } <= loggers


def test_an_undisturbed_run_takes_every_docket_and_logs_nothing(reference: Reference) -> None:
    """By default a log has only what somebody should look at."""
    assert reference.report["ingest"]["dockets"] == len(reference.essence["sessions"]) == 2
    assert reference.report["ingest"]["operations_accepted"] == 197
    assert reference.report["record"]["authorities_equal"] == 2
    assert reference.stderr.startswith("Rotulus is up: http://127.0.0.1:")
    assert steps_and_log(reference.stderr) == ({"ingest", "queues", "proof", "verify"}, [])


def test_a_second_run_accepts_nothing_and_leaves_the_record_as_it_is(reference: Reference) -> None:
    """But for the rows that seal runs of the runtime and receipts, each with its receipt.

    What the first gateway had no time to seal when it ended, the next seals when it begins.
    """
    job = ("demo", str(reference.file), "--exit", "--json")
    with running(reference.data_dir, *job) as run:
        assert run.finish() == 0, run.stderr
        report = run.report()

    before, ingest = reference.report, report["ingest"]
    assert ingest["operations_accepted"] == 0
    assert ingest["operations_already_on_record"] == before["ingest"]["operations_accepted"]
    assert ingest["hypotheses_eliminated"] == 0
    assert ingest["eliminations_already_applied"] == (
        before["ingest"]["hypotheses_eliminated"] + before["ingest"]["eliminations_already_applied"]
    )
    assert report["requests"] == before["requests"]
    grown = {name: report["record"][name] - before["record"][name] for name in ("rows", "receipts")}
    with reading(run.ledger_path) as ledger:
        behind = "SELECT semantic_intent FROM kernel_event_log WHERE ec_sequence_number > ?"
        intents = [intent for (intent,) in ledger.execute(behind, (before["record"]["rows"],))]
    seals = intents[: grown["rows"]]
    assert set(intents) <= {LANDSCAPE_SEAL, RECEIPTS_SEAL}
    assert grown == {"rows": len(seals), "receipts": len(seals)}
    assert len(intents) <= len(seals) + 2  # the last receipts and run are sealed behind the report
    moved = {"head_hash", *grown}
    assert _without(moved, report["record"]) == _without(moved, before["record"])
    assert report["failures"] == []
    assert essence(run.ledger_path) == reference.essence
    assert steps_and_log(run.stderr)[1] == []
