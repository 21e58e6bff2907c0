"""Every door says of a queue the same numbers, and what is open adds up."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from kernel.work.contents import EXTRACTION_QUEUE
from queues.queue.work_queue import WorkQueue
from queues.redis.connection import connect_redis
from tests.kernel import attempts
from tests.ports import free_port
from tests.scraped import Scraped
from tests.workers.api.asking import EXTRACTIONS, step
from tests.workers.cli.command import rotulus
from tests.workers.gateway.served import served_gateway
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.worker_proof import WorkerProof
from workers.environment.settings import Settings
from workers.gateway import metrics as gateway_metrics

pytestmark = pytest.mark.anyio

WAIT_S = 30
VISIBLE_MS = 600_000
TOKEN = "the-token-of-these-tests"  # noqa: S105 - made up here
STANDS = {"open": 20, "ready": 4, "held": 6, "delayed": 5, "suspended": 2, "in_flight": 3}
"""No two numbers are alike, so none can stand in another's place."""

Read = Callable[[], Awaitable[Any]]


async def until(expected: Any, read: Read) -> None:
    """Return when what is read is what is expected; what it was last is in the failure."""
    last = None
    with anyio.move_on_after(WAIT_S):
        while (last := await read()) != expected:
            await anyio.sleep(0.05)
    assert last == expected


async def asked(client: httpx.AsyncClient, *requests: dict[str, Any]) -> str:
    """Ask for work; return the id of the first request."""
    answer = await client.post(f"{EXTRACTIONS}/requests", json={"requests": requests})
    answer.raise_for_status()
    return str(answer.json()["requests"][0]["request_id"])


async def prepare(client: httpx.AsyncClient, queue: WorkQueue) -> None:
    """Leave as many requests in each place as `STANDS` says, one dead letter, and a pause."""

    async def ready() -> int:
        return int(sum((await queue.depth()).ready.values()))

    given_up = await asked(client, step("broken"))
    await until(1, ready)
    report = attempts.given_up(given_up, "broken").model_dump(mode="json")
    async with GatewayClient(str(client.base_url), auth=WorkerProof(TOKEN)) as worker:
        await worker.post("/internal/work", {"queue": EXTRACTION_QUEUE, "reports": [report]})
    await queue.bury(await queue.claim(1, VISIBLE_MS))
    # Of seven steps of one run the later ones are held behind the first.
    await asked(client, *(step("run") | {"request_key": f"s{number}"} for number in range(7)))
    await asked(client, *(step(f"k{number}") for number in range(8)))
    await until(9, ready)
    await queue.suspend((await queue.claim(5, VISIBLE_MS))[:2])
    await asked(client, *(step(f"d{number}", delay_s=3600) for number in range(5)))
    pause = {"priority": "user_initiated", "decided_by": "ada", "reason": "an exchange"}
    (await client.post(f"{EXTRACTIONS}/pause", json=pause)).raise_for_status()


async def test_what_is_open_adds_up_alike_at_every_door(
    tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gateway_metrics, "FRESH_S", 0.0)
    settings = Settings(data_dir=tmp_path / "data", port=free_port(), worker_token=TOKEN)
    async with (
        served_gateway(settings, valkey_url) as client,
        connect_redis(valkey_url) as redis,
    ):
        url = str(client.base_url)
        await prepare(client, WorkQueue(redis, EXTRACTION_QUEUE))

        async def over_http() -> Any:
            document = (await client.get("/v1/queues")).json()
            backlog = document["queues"][EXTRACTION_QUEUE]["backlog"]
            return {name: backlog[name] for name in STANDS}

        async def in_metrics() -> Any:
            scraped = Scraped((await client.get("/metrics")).text)
            of_queue = {"queue": EXTRACTION_QUEUE}
            assert scraped.value("rotulus_requests_oldest_open_age_seconds", **of_queue) > 0
            return {
                "open": scraped.value("rotulus_requests_open", **of_queue),
                "ready": scraped.total("rotulus_queue_ready_items", **of_queue),
                "held": scraped.value("rotulus_requests_held", **of_queue),
                "delayed": scraped.value("rotulus_queue_items", state="delayed", **of_queue),
                "suspended": scraped.total("rotulus_queue_suspended_items", **of_queue),
                "in_flight": scraped.value("rotulus_queue_items", state="in_flight", **of_queue),
            }

        async def on_the_overview() -> Any:
            page = (await client.get("/")).text
            [_, row] = page.split(f'<tbody data-key="{EXTRACTION_QUEUE}"')
            own = row.partition("<tbody data-key")[0]
            numbers = dict(re.findall(r'data-f="q_(\w+)">([^<]*)', own))
            if numbers["oldest"] == "–":
                return None  # The first picture is not read yet.
            assert numbers["dead"] == "1"
            return {name: int(numbers[name]) for name in STANDS}

        async def on_its_page() -> Any:
            page = (await client.get(f"/queues/{EXTRACTION_QUEUE}")).text
            numbers = dict(re.findall(r"<dt>([^<]*)<dd>(\d+)", page))
            assert "by ada at 127.0.0.1: an exchange" in page
            return {name: int(numbers[name.replace("_", " ").capitalize()]) for name in STANDS}

        for door in (over_http, in_metrics, on_the_overview, on_its_page):
            await until(STANDS, door)
        counted, status = [
            (await anyio.to_thread.run_sync(partial(rotulus, name, "--gateway", url))).output
            for name in ("queues", "status")
        ]
    assert (
        "  open 20 = 4 ready + 6 held + 5 delayed + 2 suspended + 3 in flight; dead 1\n" in counted
    )
    assert f"{EXTRACTION_QUEUE} user_initiated paused at " in counted
    assert re.search(rf"^{EXTRACTION_QUEUE} +20 +4 +6 +5 +2 +3 +1 ", status, re.MULTILINE)
    assert f"1 of {EXTRACTION_QUEUE} was given up" in status
