"""The main job on a database instead of a file."""

import json

import pytest
from pydantic import SecretStr

from tests.system.tree_run import TreeRun
from workers.environment.ledger_verification import verify_file


# By day it runs over restarts of the server: test_postgres_outage.py.
@pytest.mark.nightly
@pytest.mark.timeout(120)
def test_the_main_job_runs_on_a_database_and_leaves_no_file(postgres_empty_url, tmp_path):
    environment = {"ROTULUS_DATABASE_URL": postgres_empty_url}
    run = TreeRun(tmp_path / "data", "demo", "--exit", "--json", env=environment)
    try:
        assert run.finish() == 0, run.stderr
        report = json.loads(run.stdout)
    finally:
        run.stop_for_good()
    assert report["failures"] == []
    assert report["record"]["verifies"]
    assert not (tmp_path / "data" / "ledger.db").exists()
    verification = verify_file(SecretStr(postgres_empty_url), lambda _done, _total: None)
    assert verification.ok, verification.findings
    # The last rows may be seals of runs: of one that had its rows, of what a gateway ended with.
    assert 0 <= verification.rows - report["record"]["rows"] <= 2
    assert verification.requests_open == 0
    assert postgres_empty_url not in run.stderr + run.stdout
