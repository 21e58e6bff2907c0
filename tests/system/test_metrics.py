"""A whole tree under load, scraped as Prometheus does it; then asked as the README says."""

import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from kernel.authority.requests import AUTHORITY_QUEUE
from tests import loopback
from tests.ports import free_port
from tests.readme_examples import ANSWERS, answer
from tests.scraped import Scraped, declared
from tests.system.tree_run import running, wait_for
from workers.telemetry.metric_table import GATEWAY, WORKER

pytestmark = pytest.mark.timeout(180)


def scrape(url: str) -> Scraped:
    response = loopback.get(url, timeout=10)
    assert response.status_code == 200
    return Scraped(response.text)


def test_a_tree_is_scraped_at_gateway_and_worker_and_answers_the_readmes_examples(tmp_path: Path):
    gateway_port, worker_port = free_port(), free_port()
    urls = [f"http://127.0.0.1:{port}/metrics" for port in (gateway_port, worker_port)]
    environment = {
        "ROTULUS_PORT": str(gateway_port),
        "ROTULUS_WORKER_METRICS_PORT": str(worker_port),
    }
    scrapes: dict[str, list[Scraped]] = {url: [] for url in urls}
    # The examples name no folder, so the tree has the one that they take.
    with running(tmp_path / "rotulus-data", "demo", env=environment) as run:

        def finished() -> bool:
            assert run.process.poll() is None, run.stderr
            for url in urls:
                with suppress(httpx.TransportError):  # it does not listen yet
                    scrapes[url].append(scrape(url))
            return "  stop  " in run.stdout

        wait_for("the work to be done", finished, 90)
        shown = run.stdout
        time.sleep(1.1)  # an answer may be a second old
        gateway, worker = (scrape(url) for url in urls)
        answers = {example: answer(example, tmp_path) for example in ANSWERS}

    for example, said in ANSWERS.items():
        assert said in answers[example], example
    assert all(f"{url}\n" in shown for url in urls)
    assert gateway.described() == declared(GATEWAY)
    assert worker.described() == declared(WORKER)
    # What may only grow has only grown, in more than one look.
    for url, last in zip(urls, (gateway, worker), strict=True):
        looks = [scrape.counters() for scrape in (*scrapes[url], last)]
        assert len(looks) > 2
        for before, after in pairwise(looks):
            assert all(after[name] >= value for name, value in before.items())
    queue = {"queue": AUTHORITY_QUEUE}
    done = worker.value("rotulus_worker_items_total", **queue, outcome="completed")
    closed = gateway.total("rotulus_requests_closed_total", outcome="completed")
    assert 0 < done <= closed == gateway.value("rotulus_requests_recorded_total")
    assert worker.value("rotulus_worker_batch_items_sum", **queue) >= done
    assert worker.value("rotulus_worker_batch_duration_seconds_sum", **queue) > 0
    waited = [
        value
        for name, *_, value in ((*series, value) for series, value in worker.values.items())
        if name == "rotulus_worker_queue_wait_seconds_count"
    ]
    assert sum(waited) >= done
    assert gateway.value("rotulus_workers_alive") == 1
    assert gateway.value("rotulus_requests_open", **queue) == 0
    accepted = gateway.value("rotulus_operations_total", outcome="accepted")
    # What bindings, extractions and recomputes record is no answer to anybody's operation.
    assert 0 < accepted <= gateway.value("rotulus_chain_height")
