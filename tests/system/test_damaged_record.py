"""A damaged record under a running tree is red at every door until somebody has dealt with it."""

import re
import sqlite3
from pathlib import Path

import httpx
import pytest

from tests import loopback
from tests.system.tree_run import FINISH_S, TreeRun, command_on, running, wait_for

pytestmark = [pytest.mark.timeout(300), pytest.mark.spec("seed 003, L3")]

SOURCE = {
    "intent_kind": "create_source",
    "intent_key": "key:n-1",
    "node_id": "n-1",
    "corpus_id": "corpus:test",
    "content_kind": "order",
    "text": "The motion is DENIED.",
}
SESSION = "00000000-0000-4000-8000-000000000001"
ONTOLOGY = {
    "hypothesis_space_id": "space",
    "hypothesis_version": "v1",
    "causal_graph_ref": "none",
    "causal_graph_version": "0",
}


def ready(url: str) -> httpx.Response:
    return loopback.get(f"{url}/readyz", timeout=20)


def spoil(ledger: Path) -> bytes:
    """Change a record of the state where nobody looks; return what was stored."""
    with sqlite3.connect(ledger, timeout=20) as database:
        [(stored,)] = database.execute("SELECT record FROM nodes WHERE node_id = 'n-1'")
        database.execute("UPDATE nodes SET record = ? WHERE node_id = 'n-1'", (b"{}",))
    database.close()
    return bytes(stored)


def mend(ledger: Path, stored: bytes) -> None:
    with sqlite3.connect(ledger, timeout=20) as database:
        database.execute("UPDATE nodes SET record = ? WHERE node_id = 'n-1'", (stored,))
    database.close()


def stands(run: TreeRun) -> str:
    """Wait until a tree stands; return its gateway."""
    shown = re.compile(r"dashboard +(http://127\.0\.0\.1:\d+)/")
    stated = wait_for("the tree's word", lambda: shown.search(run.stdout), FINISH_S)
    assert stated is not None
    return stated.group(1)


def test_whoever_meets_it_it_is_red_until_somebody_has_dealt_with_it(tmp_path: Path):
    data = tmp_path / "data"
    with running(data, "up") as tree:
        url = stands(tree)
        declared = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a"]}
        loopback.post(f"{url}/v1/sessions", json=declared).raise_for_status()
        body = {"intents": [SOURCE]}
        loopback.post(f"{url}/v1/sessions/{SESSION}/operations", json=body).raise_for_status()
        assert ready(url).status_code == 200
        stored = spoil(tree.ledger_path)
        # A command that reads the ledger by itself meets it, and tells the gateway.
        code, said = command_on(data, "explain", "n-1")
        assert (code, "record_damaged: nodes n-1: " in said) == (1, True), said
        wait_for("red", lambda: ready(url).status_code == 503, FINISH_S)
        answer = loopback.get(f"{url}/v1/nodes/n-1")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "record_damaged")
        wait_for("the log", lambda: "damage_recorded" in tree.stderr + tree.stdout, FINISH_S)
        metrics = loopback.get(f"{url}/metrics").text
        assert 'rotulus_records_damaged{table="nodes"} 1' in metrics
        for name in ("status", "doctor"):
            code, said = command_on(data, name)
            assert (code, "nodes n-1" in said) == (1, True), said
    with running(data, "up") as tree:
        url = stands(tree)
        assert "nodes n-1" in ready(url).json()["problems"]["record"], "a restart does not forget"
        mend(tree.ledger_path, stored)
        [standing] = loopback.get(f"{url}/v1/quarantines").json()["quarantines"]
        grounds = ("--reason", "put back", "--authority", "ada")
        code, said = command_on(data, "quarantine", "lift", standing["quarantine_id"], *grounds)
        assert code == 0, said
        assert ready(url).json()["problems"] == {}
        assert loopback.get(f"{url}/v1/nodes/n-1").status_code == 200
