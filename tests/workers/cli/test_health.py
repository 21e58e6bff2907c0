"""`rotulus health`: what starts containers asks whether they live."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.workers.cli.command import rotulus


@contextmanager
def serving(statuses: dict[str, int]) -> Iterator[int]:
    """A server that answers with these statuses by path, and the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(statuses.get(self.path, 404))
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("statuses", "options", "code"),
    [
        ({"/healthz": 200, "/readyz": 503}, [], 0),
        ({"/healthz": 200, "/readyz": 503}, ["--ready"], 1),
        ({"/healthz": 200, "/readyz": 200}, ["--ready"], 0),
        ({"/healthz": 500}, [], 1),
    ],
)
def test_a_gateway_lives_or_is_ready(tmp_path, statuses, options, code):
    with serving(statuses) as port:
        url = f"http://127.0.0.1:{port}"
        result = rotulus("health", *options, "--gateway", url, "--data-dir", str(tmp_path))
    assert result.exit_code == code
    assert ("gateway_unreachable" in result.stderr) == bool(code)
    assert url in (result.stderr if code else result.stdout)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (404, 1)])
def test_a_worker_is_asked_at_its_metrics(status, code):
    with serving({"/metrics": status}) as port:
        result = rotulus("health", "--worker", ROTULUS_WORKER_METRICS_PORT=str(port))
    assert result.exit_code == code
    assert ("worker_unreachable" in result.stderr) == bool(code)


def test_a_worker_without_a_port_of_its_metrics_cannot_be_asked():
    result = rotulus("health", "--worker", ROTULUS_WORKER_METRICS_PORT=None)
    assert result.exit_code == 2
    assert "ROTULUS_WORKER_METRICS_PORT" in result.stderr


def test_who_asks_whether_a_worker_is_ready_is_told_that_it_is_where_it_answers():
    assert rotulus("health", "--worker", "--ready").exit_code == 2
