"""The command line: help for everything, JSON for programs, and errors on one line."""

import json
import os
import re
import socket
import subprocess
import sys
from contextlib import AsyncExitStack, closing
from pathlib import Path

import anyio
import click
import pytest
from click.testing import CliRunner, Result

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import TableQuery
from kernel.proof import proof_file
from tests.kernel.build import FakeHost, adapt, changed, code_of, create, submit, unmeasured
from tests.workers.api.door import SESSION, eventually, running_door, source, understanding
from tests.workers.cli.command import commands, printed, rotulus
from workers.cli import demo as demo_module
from workers.cli import gateway_call
from workers.cli import ingest as ingest_module
from workers.cli.common import print_table
from workers.cli.main import COMMANDS, main
from workers.client.typed.gateway import GatewayClient
from workers.dockets.reader import sample_path
from workers.environment.data_folder import DataFolder, DataFolderBusyError
from workers.environment.settings import load_settings, settings_table
from workers.gateway.process import serve_gateway

THROTTLE = "ROTULUS_KERNEL_EMERGENCY_THROTTLE_OPS_PER_SEC"


@pytest.fixture
def folder(data_folder: DataFolder) -> DataFolder:
    """A data folder with a small record."""

    async def fill() -> None:
        store = SqliteStore(data_folder.ledger_path)
        async with running_door(store, host=FakeHost().host) as door:
            await door.declare(SESSION, "a", "b", "c", metadata={"case_name": "A v. B"})
            strike = {"source_id": "s", "observation_id": "o-1", "eliminated": ["a"]}
            await door.post("eliminate", strike)
            await door.operate(source("s-1"), understanding("u-1", "s-1"))
        store.close()

    anyio.run(fill)
    return data_folder


def one_line_error(result: Result, code: str) -> str:
    """The error is for its reader: one line, with its code, and no traceback."""
    assert result.exit_code == 1
    assert result.stdout == ""
    [line] = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert re.match(rf"Error: {code}\b", line), line
    assert "Traceback" not in result.output
    return line


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_does(name):
    for path, _ in commands(name):
        result = rotulus(*path, "--help")
        assert result.exit_code == 0
        text = result.output.split("\n\n")[1].strip()
        assert re.match(r"[A-Z].+\.$", text, re.DOTALL), text
    assert rotulus(name, "-h").output == rotulus(name, "--help").output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name):
    for path, command in commands(name):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (path, parameter.name)


def test_help_lists_every_command_and_imports_none_of_them():
    result = rotulus("--help")
    for name, text in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(text)}", result.output, re.MULTILINE), name
    script = (
        "import sys; from click.testing import CliRunner; from workers.cli.main import main;"
        "CliRunner().invoke(main, ['--help']);"
        "print(sorted({'fastapi', 'sqlalchemy', 'arq', 'redis'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, check=True, capture_output=True).stdout.strip() == b"[]"


def test_without_a_command_help_is_shown():
    result = CliRunner().invoke(main, [])
    assert "Start:" in result.output
    assert result.exit_code == 2


def test_the_version_is_told():
    assert re.search(r"\d+\.\d+\.\d+", rotulus("--version").output)


@pytest.mark.parametrize("arguments", [["nothing"], ["verify", "--nothing"], ["show", "nothing"]])
def test_what_there_is_not_is_a_usage_error(arguments):
    result = rotulus(*arguments)
    assert result.exit_code == 2
    assert "No such" in result.output


def test_what_may_have_been_meant_is_named():
    assert "Did you mean 'verify'?" in rotulus("verfy").stderr
    assert "Did you mean 'log'?" in rotulus("show", "lg").stderr


def test_a_variable_that_is_no_setting_is_named_with_the_nearest(folder, monkeypatch):
    monkeypatch.setenv("ROTULUS_DATA_DRI", "elsewhere")
    monkeypatch.setenv("ROTULUS_XYZ", "1")
    result = rotulus("show", "--data-dir", str(folder.path), "log")
    assert result.exit_code == 0
    near = "ROTULUS_DATA_DRI is no setting (did you mean ROTULUS_DATA_DIR?)"
    assert result.stderr.splitlines() == [
        f"Warning: setting_unknown: {near}",
        "Warning: setting_unknown: ROTULUS_XYZ is no setting",
    ]


def test_settings_lists_each_with_its_default_and_meaning():
    table = settings_table()
    text = rotulus("settings").output
    for name, default, meaning in table:
        assert f"{name}  [{default}]\n    {meaning}\n" in text
    assert printed("settings", "--json") == [
        {"name": name, "default": default, "meaning": meaning} for name, default, meaning in table
    ]


def test_play_tells_each_turn_and_what_is_left():
    text = rotulus("play", "20q_4", "--secret", "eagle").stdout
    assert "Is it a mammal? no: removes cat, dog; 2 left" in text
    assert "1 left: eagle" in text
    game = printed("play", "itb_min_4", "--json", *_scenario("high", "ok", "expected", "high"))
    assert game["survivors"] == ["replication_lag"]
    assert [turn["outcome"] for turn in game["turns"]] == ["high", "ok"]
    assert game["audit_entries"] == 3


def _scenario(*outcomes: str) -> list[str]:
    probes = ("replication_lag", "disk_usage", "deploy_version", "db_connections")
    pairs = zip(probes, outcomes, strict=True)
    return [word for probe, outcome in pairs for word in ("--outcome", f"check_{probe}={outcome}")]


def test_play_asks_a_person_when_nobody_else_knows():
    result = CliRunner().invoke(main, ["play", "20q_4"], input="maybe\nno\nyes\n")
    assert result.exit_code == 0, result.output
    assert "1 left: shark" in result.stdout
    assert "'maybe' is not one of 'yes', 'no'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["chess"], "kit_unknown"),
        (["none.toml"], "kit_invalid"),
        (["20q_4", "--secret", "unicorn"], "secret_unknown"),
        (["itb_min_4", "--outcome", "check_disk_usage=melted"], "response_unknown"),
        (["itb_min_4", "--outcome", "check_disk_usage"], "response_unknown"),
        (["itb_min_4", "--outcome", "check_all=ok"], "probe_unknown"),
        (["itb_min_4", "--outcome", "check_disk_usage=ok"], "scenario_invalid"),
    ],
)
def test_play_names_what_it_cannot_play(arguments, code):
    one_line_error(rotulus("play", *arguments), code)


@pytest.mark.parametrize("kit", ["itb_min_4", "20q_4"])
def test_a_secret_goes_with_twenty_questions_alone(kit):
    result = rotulus("play", kit, "--secret", "dog", "--outcome", "is_mammal=yes")
    assert result.exit_code == 2
    assert "--secret" in result.stderr


def test_the_docket_report_counts_the_sample():
    with sample_path().open("rb") as file:
        content = file.read()
    result = CliRunner().invoke(main, ["dockets", "report", "-", "--json"], input=content)
    counts = json.loads(result.stdout)
    assert (counts["one"], counts["several"], counts["unnarrowed"]) == (2, 2, 0)
    text = CliRunner().invoke(main, ["dockets", "report", "-"], input=content).stdout
    assert re.search(r"^all +2 +2 +0 +0$", text, re.MULTILINE)
    assert re.search(r"^mandate_issued +1 +1 +\d+$", text, re.MULTILINE)


def test_verify_says_that_a_sound_record_verifies(folder: DataFolder):
    output = printed("verify", "--json")
    assert output["verifies"] is True
    assert output["findings"] == []
    assert (output["rows"], output["belief_sessions"], output["belief_events"]) == (4, 1, 2)
    assert output["requests_open"] == 1
    text = rotulus("verify").stdout
    assert "verifies: true" in text
    assert f"head_hash: {output['head_hash']}" in text


def test_verify_names_what_is_wrong_and_fails(folder: DataFolder):
    store = SqliteStore(folder.ledger_path)
    with store.transaction() as tables:
        tables.update(schema.belief_sessions, (SESSION,), {"n_survivors": 3})
    store.close()
    result = rotulus("verify", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verifies"] is False
    assert document["findings"][0]["table"] == "belief_sessions"
    text = rotulus("verify")
    assert text.exit_code == 1
    assert "belief_sessions" in text.stdout


def test_verify_goes_on_from_the_head_that_a_file_keeps(folder: DataFolder, tmp_path):
    kept = tmp_path / "head"
    whole = printed("verify", "--kept", str(kept), "--json")
    assert kept.read_text() == f"{whole['tree_head']}\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    rest = printed("verify", "--kept", str(kept), "--json")
    assert (whole["not_checked"], rest["tree_head"]) == ([], whole["tree_head"])
    assert (whole["since"], rest["since"]) == (None, whole["tree_head"])
    assert "rows before the kept head: only the tree over them" in rest["not_checked"]
    assert printed("verify", "--full", "--json") == whole

    kept.write_text("1:" + "ab" * 32 + "\n")
    for way in ([], ["--full"]):
        result = rotulus("verify", "--kept", str(kept), *way, "--json")
        assert json.loads(result.stdout)["findings"][0]["rule"] == "head_not_found"
    assert kept.read_text().startswith("1:"), "who was shown another log keeps what was verified"


def test_verify_goes_on_from_the_last_verified_head_where_a_setting_keeps_it(
    folder: DataFolder, tmp_path, monkeypatch
):
    kept = tmp_path / "head"
    monkeypatch.setenv("ROTULUS_VERIFIED_HEAD", str(kept))
    first, second = printed("verify", "--json"), printed("verify", "--json")
    assert (first["since"], second["since"]) == (None, first["tree_head"])
    whole = printed("verify", "--full", "--json")
    assert (whole["since"], whole["not_checked"]) == (None, [])
    assert kept.read_text() == f"{whole['tree_head']}\n"
    kept.write_text("none\n")
    refused = rotulus("verify")
    assert refused.exit_code == 2
    assert "ROTULUS_VERIFIED_HEAD" in refused.stderr
    head = first["tree_head"]
    assert printed("verify", "--since", head, "--json")["since"] == head


@pytest.mark.parametrize("content", ["", "4", "4:abc\n", "\xff\n", "9" * 5000])
def test_a_kept_head_that_is_none_is_refused_with_its_file_and_line(
    folder: DataFolder, tmp_path, content: str
):
    kept = tmp_path / "head"
    kept.write_text(content)
    result = rotulus("verify", "--kept", str(kept))
    assert result.exit_code == 2
    assert f"{kept}, line 1: a tree head is SIZE:ROOT" in " ".join(result.stderr.split())
    assert kept.read_text() == content


def test_a_head_is_named_once(folder: DataFolder, tmp_path):
    head = "1:" + "ab" * 32
    for other in (["--full"], ["--kept", str(tmp_path / "head")]):
        assert rotulus("verify", "--since", head, *other).exit_code == 2


@pytest.mark.spec("§17.5")
def test_verify_records_what_it_found_where_it_is_told_to(folder: DataFolder):
    assert "recorded_receipt_id" not in printed("verify", "--record", "--json")
    store = SqliteStore(folder.ledger_path)
    with store.transaction() as tables:
        tables.update(schema.belief_sessions, (SESSION,), {"n_survivors": 3})
    store.close()
    before = json.loads(rotulus("verify", "--json").stdout)
    result = rotulus("verify", "--record", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["receipts"] == before["receipts"]
    store = SqliteStore(folder.ledger_path, read_only=True)
    with store.view() as tables:
        [*_, row] = tables.scan(TableQuery(schema.receipts, order_by="receipt_sequence"))
    store.close()
    receipt = json.loads(row["receipt_bytes"])
    assert receipt["receipt_id"] == document["recorded_receipt_id"]
    assert receipt["receipt_kind"] == "kernel_event_log_integrity_violation"
    assert receipt["findings"] == document["findings"] == before["findings"]
    assert receipt["head_hash"] == before["head_hash"]
    # The receipt is itself sound: what is found afterwards is what was found before.
    after = json.loads(rotulus("verify", "--json").stdout)
    assert after["findings"] == before["findings"]
    assert after["receipts"] == before["receipts"] + 1


@pytest.mark.spec("§17.5")
def test_a_finding_is_not_recorded_beside_a_running_tree(folder: DataFolder):
    store = SqliteStore(folder.ledger_path)
    with store.transaction() as tables:
        tables.update(schema.belief_sessions, (SESSION,), {"n_survivors": 3})
    store.close()
    with folder.lock():
        result = rotulus("verify", "--record")
    assert "Error: data_folder_busy" in result.stderr
    assert "verifies: false" in result.stdout, "what was found is told all the same"


def test_a_file_has_no_ledger_to_record_on(tmp_path):
    export = tmp_path / "export"
    export.write_bytes(b"")
    result = rotulus("verify", "--export", str(export), "--record")
    assert result.exit_code == 2


def test_verify_takes_the_folder_it_is_told(folder: DataFolder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    folder.path.rename(elsewhere)
    one_line_error(rotulus("verify"), "ledger_unavailable")
    assert printed("verify", "--json", "--data-dir", str(elsewhere))["verifies"] is True


def test_show_log_shows_rows_from_either_end(folder: DataFolder):
    documents = printed("show", "log", "--order", "newest", "--json")["rows"]
    sequences = [int(document["ec_sequence_number"]) for document in documents]
    assert sequences == [4, 3, 2, 1]
    assert all(len(document["row_hash"]) == 64 for document in documents)
    page = printed("show", "log", "--json", "--limit", "2")
    assert (page["rows"], page["next_after"]) == (documents[:1:-1], "2")
    before = ("--order", "newest", "--after", "3", "--limit", "1")
    assert printed("show", "log", "--json", *before) == {"rows": documents[2:3], "next_after": "2"}
    names, *text = rotulus("show", "log", "--order", "newest").stdout.splitlines()
    assert names.split()[0] == "sequence"
    assert [line.split()[0] for line in text] == ["4", "3", "2", "1"]
    assert documents[0]["operation_id"] in text[0]


def test_show_session_lists_sessions_or_tells_ones_trail(folder: DataFolder):
    [session] = printed("show", "sessions", "--json")["sessions"]
    assert session == {
        "session_id": SESSION,
        "title": "A v. B",
        "n_universe": 3,
        "n_survivors": 2,
        "survivors_shown": ["b", "c"],
        "n_events": 2,
        "updated_at": "2023-11-14T22:13:20.000000Z",
        "terminated": False,
        "successor_id": None,
    }
    _, row = rotulus("show", "sessions").stdout.splitlines()
    assert row.split(maxsplit=4)[1:] == ["2/3", SESSION, "open", "A v. B"]
    trail = printed("show", "session", SESSION, "--json")["events"]
    assert [event["verb"] for event in trail] == ["DECLARE_SESSION", "ELIMINATE"]
    lines = rotulus("show", "session", SESSION).stdout.splitlines()
    assert lines[2].split()[1:] == ["ELIMINATE", "o-1", "-a"]
    one_line_error(rotulus("show", "session", "nobody"), "session_not_found")


def test_show_operation_and_node_print_json(folder: DataFolder):
    [newest, *_] = printed("show", "log", "--order", "newest", "--json")["rows"]
    output = printed("show", "operation", newest["operation_id"])
    assert output["row"] == newest
    assert output["envelope"]["operation_id"] == newest["operation_id"]
    assert printed("show", "node", "u-1")["node_kind"] == "ConsolidatedUnderstanding"
    one_line_error(rotulus("show", "operation", "nothing"), "not_found")
    one_line_error(rotulus("show", "node", "nothing"), "not_found")


def test_search_says_how_a_text_is_met_and_in_what(folder: DataFolder):
    [operation_id] = {row["operation_id"] for row in printed("show", "log", "--json")["rows"][:1]}
    _, *rows = rotulus("search", operation_id).stdout.splitlines()
    assert " ".join(rows[0].split()) == f"its name operation {operation_id}"
    _, *rows = rotulus("search", operation_id[:-1]).stdout.splitlines()
    assert f"id begins so operation {operation_id}" in {" ".join(row.split()) for row in rows}
    assert rotulus("search", "\U0010ffff").stdout.startswith("nothing on the record")


def test_show_extractions_lists_runs_and_the_fields_of_a_source(folder: DataFolder):
    assert printed("show", "extractions", "--json") == {"runs": [], "next_after": None}
    assert printed("show", "source", "s-1")["fields"] == {}
    one_line_error(rotulus("show", "extraction", "nothing"), "extraction_run_not_known")


def test_show_requests_counts_them(folder: DataFolder):
    counts = printed("show", "requests", "--json")
    assert (counts["recorded"], counts["open"]) == (1, 1)
    assert set(counts["outcomes"]) == {"completed", "dead_letter", "cancelled"}
    text = rotulus("show", "requests").stdout
    assert re.search(r"^open +1$", text, re.MULTILINE)
    assert re.search(r"^completed +0$", text, re.MULTILINE)


@pytest.mark.spec("§18.3", "INV-A-COST-1")
def test_audit_costs_sums_up_costs_of_any_size(data_folder: DataFolder):
    cost = "affected_subgraph_descriptor.estimated_capacity_cost"
    store = SqliteStore(data_folder.ledger_path)
    with unmeasured(), closing(Ledger.create(store, FakeHost().host)) as ledger:
        submit(ledger, *(changed(create(name, "Note"), {cost: 1e308}) for name in "abc"))
    [total] = printed("audit", "totals", "--json")["totals"]
    assert (total["estimated_cost"], total["operations_over_limit"]) == (3e9, 3)
    _, row = rotulus("audit", "totals").stdout.splitlines()
    assert row.split(maxsplit=3) == ["create", "user", "3", "3e+09 (3 over the limit)  -"]


def test_audit_operations_filters_and_pages(folder: DataFolder):
    whole = printed("audit", "operations", "--json")
    assert [operation["ec_sequence_number"] for operation in whole["operations"]] == [
        "1",
        "2",
        "3",
        "4",
    ]
    assert whole["next_after"] is None
    newest = printed("audit", "operations", "--order", "newest", "--json")
    assert newest["operations"] == whole["operations"][::-1]
    creates = printed(
        "audit", "operations", "--semantic-intent", "create", "--actor", "user", "--json"
    )
    assert {operation["semantic_intent"] for operation in creates["operations"]} == {"create"}
    [listed_operation] = printed("audit", "operations", "--entity", "u-1", "--json")["operations"]
    assert listed_operation["ec_sequence_number"] == "4"
    text = rotulus("audit", "operations", "--limit", "2").stdout.splitlines()
    assert text[0].split() == ["sequence", "committed", "intent", "actor", "effects", "operation"]
    assert [line.split()[0] for line in text[1:3]] == ["1", "2"]
    assert text[3] == "more: --after 2"
    rest = rotulus("audit", "operations", "--after", "2").stdout.splitlines()
    assert [line.split()[0] for line in rest[1:]] == ["3", "4"]


@pytest.mark.spec("INV-A-REPLAY-LLM-1")
def test_audit_replay_reads_the_file_and_writes_nothing(folder: DataFolder):
    before = folder.ledger_path.read_bytes()
    document = printed("audit", "replay", "--from", "1", "--json")
    assert document == {"reproduced": 4, "blocked": 0, "not_reproduced": []}
    [operation] = printed("audit", "operations", "--entity", "u-1", "--json")["operations"]
    strategy = ("--strategy", "blocked_on_fingerprint_mismatch")
    alone = rotulus("audit", "replay", operation["operation_id"], *strategy)
    assert (alone.exit_code, alone.stdout) == (0, "reproduced: 1  not reproduced: 0\n")
    assert printed("audit", "replay", "--to", "2", "--json")["reproduced"] == 2
    missing = rotulus("audit", "replay", "nowhere")
    assert missing.exit_code == 1
    assert missing.stdout.splitlines()[0] == "-  nowhere  operation_not_replayable"
    assert rotulus("audit", "replay").exit_code == 2
    assert rotulus("audit", "replay", "x", "--to", "3").exit_code == 2
    assert folder.ledger_path.read_bytes() == before


@pytest.mark.parametrize(
    ("option", "value", "count"),
    [
        ("--since", "2000-01-01T00:00:00Z", 4),
        ("--until", "2000-01-01T00:00:00Z", 0),
        ("--until", "1m", 4),
        ("--since", "1m", 0),
        ("--from-sequence", "3", 2),
        ("--to-sequence", "3", 3),
        ("--session-id", SESSION, 2),
        ("--effect-kind", "membership_write", 2),
        ("--reversibility", "irreversible_external_effect", 0),
    ],
)
def test_audit_operations_takes_each_condition(folder: DataFolder, option, value, count):
    output = printed("audit", "operations", option, value, "--json")
    assert len(output["operations"]) == count


def test_a_time_that_is_none_is_a_usage_error(folder: DataFolder):
    result = rotulus("audit", "operations", "--since", "yesterday")
    assert result.exit_code == 2
    assert "24h" in result.output


def test_audit_tells_causes_previews_and_grounds(folder: DataFolder):
    [*_, newest] = printed("audit", "operations", "--json")["operations"]
    name = newest["operation_id"]
    output = printed("audit", "ancestors", name, "--json")
    assert output["operations"][-1] == newest
    assert output["complete"] is True
    assert "roots: " in rotulus("audit", "ancestors", name).stdout
    preview = printed("audit", "preview", name, "--json")
    assert (preview["executable"], preview["lowest_tier"]) == (True, 1)
    assert preview["effects"][-1]["undone_by"] == "node_retract"
    assert "lowest tier: 1" in rotulus("audit", "preview", name).stdout
    grounds = printed("audit", "authority", "u-1", "--json")
    assert (grounds["node_id"], grounds["inputs"]) == ("u-1", [])
    assert rotulus("audit", "authority", "u-1").stdout.startswith("authority: ")
    for command in ("ancestors", "preview", "authority"):
        one_line_error(rotulus("audit", command, "nothing"), "not_found")


def test_an_export_is_a_file_that_verifies_without_the_ledger(folder: DataFolder, tmp_path):
    verified = printed("verify", "--json")
    head, tree_head = verified["head_hash"], verified["tree_head"]
    target = tmp_path / "log.jsonl"
    result = rotulus("export", "--output", str(target))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "4 of 4 rows" in result.stderr
    assert rotulus("export").stdout_bytes == target.read_bytes()
    assert [path.name for path in tmp_path.glob("*.draft")] == []
    for name in ("proof_file.py", "proof_file.mjs"):
        shipped = tmp_path / "log.jsonl.verifiers" / name
        assert shipped.read_bytes() == Path(proof_file.__file__).with_name(name).read_bytes()
    folder.ledger_path.unlink()
    output = printed("verify", "--export", str(target), "--json")
    assert (output["verifies"], output["rows"], output["head_hash"]) == (True, 4, head)
    assert output["tree_head"] == tree_head
    assert output["findings"] == []


def test_audit_adjudications_tells_what_waits_and_who_settled_it(folder: DataFolder):
    document, settled = rivals(folder)
    [item] = printed("audit", "adjudications", "--json")["items"]
    assert item["receipt"]["envelope"] == document
    [line] = rotulus("audit", "adjudications").stdout.splitlines()[1:]
    assert "cardinality_conflict" in line
    assert document["operation_id"] in line
    settled(item["receipt"]["receipt_id"])
    assert printed("audit", "adjudications", "--json")["items"] == []
    [done] = printed("audit", "adjudications", "--state", "resolved", "--json")["items"]
    assert done["state"] == "resolved"
    assert done["receipt"] == item["receipt"]
    first = rotulus("audit", "adjudications", "--state", "resolved", "--limit", "1").stdout
    assert done["resolved_by_operation_id"] in first
    assert "more: --after" in first


def rivals(folder: DataFolder):
    """Queue a conflict; return what was held back, and how to settle it."""
    store = SqliteStore(folder.ledger_path)
    ledger = Ledger(store, FakeHost().host)
    made = adapt("u-1", cites_refs=["a"])
    document = adapt("u-1", cites_refs=["a", "b"])
    results = submit(ledger, made, document, unseen=True)
    assert code_of(results[1]) == "envelope_conflict_user_review_required"
    store.close()

    def settle(receipt_id):
        store = SqliteStore(folder.ledger_path)
        changes = {"adjudicates_receipt_ids": [receipt_id]}
        settled = adapt("u-1", cites_refs=["a", "b"], envelope_changes=changes)
        assert code_of(submit(Ledger(store, FakeHost().host), settled)) is None
        store.close()

    return document, settle


def test_audit_costs_tells_estimates(folder: DataFolder):
    entries = printed("audit", "costs", "--json")["entries"]
    assert len(entries) == 4
    assert all(entry["estimated_cost"] > 0 for entry in entries)
    assert printed("audit", "costs", "--until", "2000-01-01T00:00:00Z", "--json")["entries"] == []
    text = rotulus("audit", "costs", "--limit", "2").stdout.splitlines()
    assert text[0].split()[:3] == ["recorded", "intent", "actor"]
    assert text[3] == "more: --after 2"


def test_audit_costs_are_summed_up_by_intent_and_actor(folder: DataFolder):
    entries = printed("audit", "costs", "--json")["entries"]
    totals = printed("audit", "totals", "--json")["totals"]
    assert sum(total["operations"] for total in totals) == len(entries)
    assert sum(total["estimated_cost"] for total in totals) == pytest.approx(
        sum(entry["estimated_cost"] for entry in entries)
    )
    assert {(total["semantic_intent"], total["actor"]) for total in totals} == {
        (entry["semantic_intent"], entry["actor"]) for entry in entries
    }
    text = rotulus("audit", "totals").stdout.splitlines()
    assert text[0].split() == ["intent", "actor", "operations", "estimated", "actual"]
    assert len(text) == 1 + len(totals)


def test_the_verification_of_an_export_names_the_first_bad_line(folder: DataFolder, tmp_path):
    lines = rotulus("export").stdout_bytes.splitlines(keepends=True)
    target = tmp_path / "log.jsonl"
    target.write_bytes(b"".join(lines[:2] + lines[3:]))
    result = rotulus("verify", "--export", str(target), "--json")
    assert result.exit_code == 1
    [finding] = json.loads(result.stdout)["findings"]
    assert (finding["line"], finding["rule"]) == (3, "gap")


def test_an_export_that_cannot_be_written_says_so_and_leaves_nothing(folder: DataFolder, tmp_path):
    target = tmp_path / "nowhere" / "log.jsonl"
    one_line_error(rotulus("export", "--output", str(target)), "output_unusable")
    assert not target.parent.exists()


LEDGER_READERS = [
    ["verify"],
    ["show", "log"],
    ["show", "sessions"],
    ["show", "session", "x"],
    ["show", "operation", "x"],
    ["show", "node", "x"],
    ["show", "requests"],
    ["audit", "operations"],
    ["audit", "ancestors", "x"],
    ["audit", "preview", "x"],
    ["audit", "authority", "x"],
    ["audit", "adjudications"],
    ["audit", "migration-reviews"],
    ["audit", "costs"],
    ["export"],
]


@pytest.mark.parametrize("arguments", LEDGER_READERS, ids=" ".join)
def test_without_a_ledger_there_is_one_line_to_read(arguments, tmp_path):
    line = one_line_error(rotulus(*arguments), "ledger_unavailable")
    assert str(tmp_path / "data" / "ledger.db") in line
    assert not (tmp_path / "data").exists(), "looking creates nothing"


@pytest.mark.parametrize("arguments", LEDGER_READERS, ids=" ".join)
def test_a_file_that_is_no_ledger_is_said_not_to_be_one(arguments, tmp_path):
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "ledger.db").write_bytes(b"something else entirely" * 100)
    if arguments == ["verify"]:
        result = rotulus(*arguments)
        assert result.exit_code == 1
        assert '"not_a_database"' in result.stdout
    else:
        one_line_error(rotulus(*arguments), "ledger_file_damaged")


@pytest.mark.parametrize("arguments", LEDGER_READERS, ids=" ".join)
def test_reading_leaves_the_ledger_as_it_is(arguments, folder: DataFolder):
    before = folder.ledger_path.read_bytes()
    rotulus(*arguments)
    assert folder.ledger_path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [*LEDGER_READERS, ["up"], ["demo"], ["gateway"], ["worker"], ["ingest", "-"]],
    ids=" ".join,
)
def test_a_setting_that_cannot_be_used_is_named_without_its_value(arguments):
    result = rotulus(*arguments, ROTULUS_PORT="sesame")
    assert result.exit_code == 1
    assert "ROTULUS_PORT" in result.stderr
    assert result.stderr.count("settings_invalid") == 1
    assert "sesame" not in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", ["gateway", "worker"])
def test_a_process_that_needs_a_redis_says_so(command):
    one_line_error(rotulus(command), "redis_unavailable")


@pytest.mark.parametrize(("stated", "threshold"), [({}, 0), ({THROTTLE: "7"}, 7)])
def test_the_demo_throttles_nothing_unless_it_is_told_to(monkeypatch, stated, threshold):
    thresholds = []

    def not_started(settings, **_):
        thresholds.append(settings.kernel_emergency_throttle_ops_per_sec)
        raise DataFolderBusyError(settings.data_dir, None)

    monkeypatch.setattr(demo_module, "running_tree", not_started)
    one_line_error(rotulus("demo", "--exit", **stated), "data_folder_busy")
    assert thresholds == [threshold]


def test_ingest_waits_for_a_gateway_and_then_says_that_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest_module, "GIVE_UP_AFTER_S", 0.05)
    docket = tmp_path / "one.jsonl"
    docket.write_bytes(sample_path().read_bytes())
    result = rotulus("ingest", str(docket), ROTULUS_GATEWAY_URL="http://127.0.0.1:1")
    assert result.exit_code == 1
    waits, error = result.stderr.splitlines()
    assert waits == "waiting for the gateway at http://127.0.0.1:1, 0 s at most"
    assert error.startswith(
        "Error: gateway_unreachable: no gateway answers at http://127.0.0.1:1; "
    )


class InProcess:
    """A gateway client whose gateway runs for as long as it is open."""

    def __init__(self, _: str, **_options: object) -> None:
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> GatewayClient:
        door = await self._stack.enter_async_context(running_door(host=FakeHost().host))
        await door.declare(SESSION, "a", "b")
        return door.client()

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


def test_simulate_tells_what_an_operation_would_come_to(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway_call, "GatewayClient", InProcess)
    request_file = tmp_path / "asked.json"
    request_file.write_text(json.dumps({"intent": source("s-1", visibility_class="sealed")}))
    result = rotulus("simulate", SESSION, str(request_file))
    assert result.exit_code == 0, result.output
    assert "preview_kind: node_write_preview" in result.stdout
    assert "visibility: sealed" in result.stdout
    assert "rendered_visibility_warning: " in result.stdout
    assert "  nodes s-1" in result.stdout
    answer = printed("simulate", SESSION, str(request_file), "--json")
    assert answer["preview"]["preview_state"]["affected_node_refs"] == ["s-1", "corpus:test"]


def test_play_on_a_gateway_goes_as_it_goes_here(monkeypatch):
    monkeypatch.setattr(gateway_call, "GatewayClient", InProcess)
    there = printed("play", "20q_8", "--secret", "snake", "--on-record", "--json")
    here = printed("play", "20q_8", "--secret", "snake", "--json")
    assert there.pop("session_id") != here.pop("session_id")
    assert there == here
    assert there["survivors"] == ["snake"]


@pytest.mark.parametrize("content", ["not JSON", "[]", "{}"])
def test_simulate_says_what_is_wrong_with_its_file(tmp_path, monkeypatch, content):
    monkeypatch.setattr(gateway_call, "GatewayClient", InProcess)
    request_file = tmp_path / "asked.json"
    request_file.write_text(content)
    one_line_error(rotulus("simulate", SESSION, str(request_file)), "invalid_request")
    request_file.write_text('{"intent":{"a":1,"a":2}}')
    one_line_error(rotulus("simulate", SESSION, str(request_file)), "json_key_repeated")


def test_a_gateway_on_a_port_that_is_taken_says_so(folder: DataFolder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        environment = {"ROTULUS_PORT": port, "ROTULUS_REDIS_URL": "redis://127.0.0.1:1"}
        line = one_line_error(rotulus("gateway", **environment), "address_unusable")
    assert port in line


@pytest.mark.parametrize("command", [("up",), ("demo", "--exit")], ids=lambda command: command[0])
def test_a_tree_on_a_port_that_somebody_has_says_so_and_sends_nothing_there(command):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = str(stranger.getsockname()[1])
        result = rotulus(*command, ROTULUS_PORT=port)
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1, result.stderr
        assert "address_unusable" in result.stderr
        assert "ROTULUS_PORT" in result.stderr
        assert result.stdout == ""
        stranger.settimeout(0.2)
        with pytest.raises(TimeoutError):
            stranger.accept()


@pytest.mark.parametrize("command", ["up", "gateway", "tee"])
def test_a_folder_that_others_may_open_is_refused_by_whatever_would_write_there(tmp_path, command):
    data = tmp_path / "open"
    data.mkdir()
    data.chmod(0o755)
    environment = {"ROTULUS_PORT": "0", "ROTULUS_REDIS_URL": "redis://127.0.0.1:1"}
    result = rotulus(command, "--data-dir", str(data), **environment)
    assert result.exit_code == 1
    assert "data_folder_unsafe" in result.stderr
    assert "chmod 700" in result.stderr
    assert list(data.iterdir()) == []


def test_a_gateway_makes_its_folder_and_founds_its_ledger(tmp_path):
    """And it does so before there is a Redis."""
    settings = load_settings(port=0)

    async def until_founded() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_gateway, settings, "redis://127.0.0.1:1")
            await eventually((tmp_path / "data" / "ledger.db-wal").exists)
            tasks.cancel_scope.cancel()

    anyio.run(until_founded)
    assert printed("verify", "--json")["rows"] == 0
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0


def test_a_gateway_whose_folder_cannot_be_made_says_so(tmp_path):
    (tmp_path / "data").write_text("a file stands here")
    environment = {"ROTULUS_PORT": "0", "ROTULUS_REDIS_URL": "redis://127.0.0.1:1"}
    one_line_error(rotulus("gateway", **environment), "data_folder_unusable")


def test_ingest_of_a_file_that_is_not_there_is_a_usage_error():
    result = rotulus("ingest", "/nowhere/at/all.jsonl")
    assert result.exit_code == 2
    assert "No such file" in result.output


def test_up_on_a_folder_that_is_in_use_says_by_whom(folder: DataFolder):
    with folder.lock():
        line = one_line_error(rotulus("up"), "data_folder_busy")
    assert str(os.getpid()) in line


def test_a_cell_without_a_value_is_a_hyphen(capsys: pytest.CaptureFixture[str]):
    print_table(("name", "count"), [("a", None), (None, 3)])
    assert capsys.readouterr().out.splitlines() == ["name  count", "a     -", "-         3"]
