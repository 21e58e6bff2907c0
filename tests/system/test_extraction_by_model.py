"""A tree whose workers are told of a model: a letter is read by it, and replayed without it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from actors.commit.units import IntentUnit, commit_alone
from actors.commit.work_units import RequestWorkUnit
from actors.orchestrator.intents import CreateSource
from actors.orchestrator.orchestrator import Orchestrator
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.replay.judgement import replay_all
from kernel.transaction.kernel import Kernel
from kernel.values.model_registry import ActiveModels
from kernel.work.extractions.reading import describe_run
from tests.kernel.extractions import task
from tests.system.tree_run import running, wait_for
from workers.environment.system_host import system_host

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TEXT = "Dear Ann Acme, you owe $350."
ANSWER = {
    "intent_kind": "extracted_fields",
    "values": [{"field": "party", "value": "Ann Acme", "quote": "Ann Acme"}],
    "unreadable_fields": ["amount"],
}


class Model(BaseHTTPRequestHandler):
    """Answers every call alike, and keeps the requests."""

    requests: list[dict[str, Any]] = []  # noqa: RUF012 - of the one server of this test

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.requests.append(json.loads(self.rfile.read(length)))
        message = {"message": {"content": json.dumps(ANSWER)}, "finish_reason": "stop"}
        body = json.dumps({"choices": [message], "model": "letters-1"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.spec("INV-EXT-3", "INV-MVC-3", "INV-A-REPLAY-LLM-1", "K16")
def test_a_letter_is_read_by_the_configured_model_and_replayed_without_it(tmp_path: Path) -> None:
    with serving() as url:
        env = {"ROTULUS_MODEL_URL": url, "ROTULUS_MODEL_NAME": "letters"}
        with running(tmp_path / "data", "up", env=env) as run:
            run.wait_until_up()
            ledger = Ledger(SqliteStore(run.ledger_path), system_host())
            letter = CreateSource(
                intent_key="doc-1",
                node_id="doc-1",
                corpus_id="corpus",
                content_kind="letter",
                text=TEXT,
            )
            for unit in (IntentUnit(letter, None), RequestWorkUnit((task(),))):
                commit_alone(unit, ledger, Kernel(), Orchestrator(ledger.host))

            def ended() -> Any:
                shown = ledger.read(lambda view: describe_run(view, "run-1"))
                return shown if shown is not None and shown["state"] != "running" else None

            shown = wait_for("the extraction", ended, 60.0)
            assert (shown["state"], shown["extractor"]) == ("degraded", "model:letters-1")
            assert [value["words"] for value in shown["values"]] == ["Ann Acme"]
            [request] = Model.requests
            assert "UNTRUSTED_CONTENT" in request["messages"][1]["content"]
            models = ActiveModels({"letters-1": "letters-1"})
            with ledger.view() as view:
                last = view.head().ec_sequence_number
                verdicts = list(
                    replay_all(view, 1, last, "blocked_on_fingerprint_mismatch", models)
                )
                recorded = view.envelope(shown["steps"][-1]["operation_id"])
            assert recorded is not None
            assert recorded["recorded_model_outputs"][0]["model_version"] == "letters-1"
            assert all(verdict.output_reproduced for verdict in verdicts)
            assert len(Model.requests) == 1
            ledger.close()
