"""With which code a command ends, and what it says: 0 done, 1 not done, 2 not understood."""

import re
from pathlib import Path

import pytest

from kernel.work.contents import BINDING_QUEUE
from tests.workers.cli.command import rotulus
from tests.workers.cli.test_queues import OneRecord
from workers.cli import enqueue as enqueue_module
from workers.cli import gateway_call
from workers.cli import status as status_module

NOBODY = "00000000-0000-7000-8000-000000000001"
QUEUES = "there are authority-recompute, binding-evaluation, extraction-transition"
BAD_LINES = "garbage\n\n[1]\n"
BEHIND = re.compile(r"^Error: [a-z][a-z0-9_]+: ", re.MULTILINE)

CASES = {
    # An unknown name of a thing, wherever it is asked for.
    "queues pause nope": (1, f"work_queue_unknown: no queue is called 'nope'; {QUEUES}"),
    "queues pause authority-recomput": (1, "did you mean 'authority-recompute'?"),
    "queues list nope": (1, "work_queue_unknown"),
    "queues requeue nope --all": (1, "work_queue_unknown"),
    "queues cancel nope x --reason r": (1, "work_request_unknown"),
    "queues why authority-recompute x": (1, "`rotulus queues list QUEUE` lists those"),
    "queues request authority-recompute x": (1, "work_request_unknown"),
    "queues requeue authority-recompute x": (1, "the record alone does"),
    "queues put-back 1 x": (1, "offset: "),
    "enqueue nope": (1, f"work_queue_unknown: no queue is called 'nope'; {QUEUES}"),
    f"session show {NOBODY}": (1, "`rotulus show sessions` lists those"),
    f"session audit {NOBODY}": (1, "session_not_found"),
    f"thought show {NOBODY}": (1, "`rotulus thought start SESSION_ID TASK_ID` begins"),
    "binding show nope": (1, "not_found"),
    "hold lift nope --reason r --authority a": (1, "`rotulus hold list`"),
    "implications resume nope": (1, "not_found"),
    "authority recompute nope --source s": (1, "nope is not an understanding"),
    # Input of which nothing can be used.
    "ingest {bad}": (1, "docket_line_not_json"),
    "dockets report {bad}": (1, "problem docket_line_not_json: 1"),
    "enqueue binding-evaluation {bad}": (1, "invalid_request: {bad}, line 1: not JSON"),
    "review batch {bad} --source s": (1, "invalid_request: {bad}, line 1: not JSON"),
    f"submit {NOBODY} {{bad}}": (1, "invalid_request: {bad}: not JSON"),
    f"simulate {NOBODY} {{bad}}": (1, "invalid_request: {bad}: not JSON"),
    "session replay {bad}": (1, "invalid_request: {bad}: no audit trail"),
    # What is not understood.
    "queues paus x": (2, "Did you mean 'pause'?"),
    "queues pause": (2, "Missing argument 'QUEUE'"),
    "queues requeue authority-recompute": (2, "name requests, or an --error-signature, or --all"),
    "ingest {missing}": (2, "No such file"),
    "session show x": (2, "is not a valid UUID"),
    "tree consistency x": (2, "SIZE:ROOT"),
    "settings --jsn": (2, "Did you mean '--json'?"),
    # What there is, also where it is nothing.
    "queues list binding-evaluation": (0, "none"),
    "queues dead binding-evaluation": (0, "none"),
    "queues set-aside": (0, "none"),
    "enqueue binding-evaluation": (0, "requests: 0"),
    "hold list": (0, "none"),
    "round list": (0, "none"),
    "binding list": (0, "none"),
    "implications": (0, "none"),
    "status": (1, "! notice    no worker"),
}
"""By the command line: the code, and what is said."""


@pytest.fixture
def record(monkeypatch) -> OneRecord:
    record = OneRecord()
    monkeypatch.setattr(enqueue_module, "Rotulus", record.rotulus)
    for module in (gateway_call, status_module):
        monkeypatch.setattr(module, "GatewayClient", record.client)
    return record


@pytest.mark.parametrize("line", CASES)
def test_a_command_ends_with_a_code_and_says_why(record, tmp_path: Path, line: str):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(BAD_LINES)
    places = {"bad": str(bad), "missing": str(tmp_path / "missing")}
    code, said = CASES[line]
    result = rotulus(*line.format(**places).split(), stdin="")
    assert result.exit_code == code, result.output
    assert said.format(**places) in result.output
    if errors := [line for line in result.stderr.splitlines() if line.startswith("Error: ")]:
        assert code == 2 or BEHIND.match(errors[0]), "its code, in one case"


def test_where_no_ledger_is_the_place_and_what_to_do_are_said(tmp_path):
    for line in ("verify", "show log", "migrate", "archive run", "explain x"):
        refused = rotulus(*line.split(), "--data-dir", str(tmp_path / "empty"))
        assert refused.exit_code == 1
        assert f"ledger_unavailable: no ledger at {tmp_path / 'empty'}" in refused.stderr
        assert f"`rotulus --data-dir {tmp_path / 'empty'} up` makes one" in refused.stderr


def test_what_nobody_answers_is_said_with_the_place_and_what_to_do(monkeypatch):
    monkeypatch.setattr(gateway_call, "PATIENCE_S", 0.0)
    url = "http://127.0.0.1:9"
    for line in (f"queues pause {BINDING_QUEUE}", "hold list", "tree head", "binding list"):
        result = rotulus(*line.split(), "--gateway", url)
        assert result.exit_code == 1
        assert f"gateway_unreachable: no gateway answers at {url}; `rotulus up`" in result.stderr
