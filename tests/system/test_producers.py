"""Thousands of requests in bulk by the command, each with its outcome, once however often sent."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kernel.work.contents import EXTRACTION_QUEUE
from tests.extraction_steps import extraction_step
from tests.system.essence import outcomes_for_each_request
from tests.system.tree_run import COMMAND, TreeRun, running
from workers.environment.ledger_verification import verify_file

pytestmark = pytest.mark.timeout(180)

MANY = 2000


def write_steps(file: Path) -> None:
    """The first step of as many extractions, each under a key of its own."""
    with file.open("w") as lines:
        for number in range(MANY):
            content = extraction_step(f"run-{number}")
            lines.write(json.dumps({"request_key": f"k-{number}", "content": content}) + "\n")


def enqueue(run: TreeRun, file: Path) -> dict[str, Any]:
    command = [str(COMMAND), "enqueue", EXTRACTION_QUEUE, str(file), "--wait", "--json"]
    done = subprocess.run(
        [*command, "--data-dir", str(run.data_dir)], capture_output=True, check=True, timeout=150
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.spec("K6", "K19")
def test_thousands_are_asked_for_in_bulk_and_each_has_its_outcome(tmp_path: Path) -> None:
    file = tmp_path / "steps.jsonl"
    write_steps(file)
    with running(tmp_path / "data", "up") as run:
        run.wait_until_up()
        first = enqueue(run, file)
        assert (first["requests"], first["duplicates"]) == (MANY, 0)
        assert first["outcomes"] == {"completed": MANY}
        assert len({operation["operation_id"] for operation in first["ended"]}) == MANY
        again = enqueue(run, file)
        assert again["duplicates"] == MANY
        assert again["ended"] == first["ended"]
        assert outcomes_for_each_request(run.ledger_path) == {1}
        verification = verify_file(run.ledger_path, lambda _done, _total: None)
        assert (verification.findings, verification.requests_closed) == ((), MANY)
