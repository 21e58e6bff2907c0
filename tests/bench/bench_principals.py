"""What a producer waits for its answers alone, and beside one that asks as fast as it can.

    python -m tests.bench.bench_principals [--json] [--limits requests_per_s=100]

A gateway process that takes keys, on SQLite with ``synchronous = FULL`` in the temporary directory;
a quiet producer asks for a piece of work twenty times a second in this process. The noisy one is a
process of its own with 64 connections, each of which sends its next request when the last one was
answered: it honours `Retry-After` or, in a run of its own, does not. The bound is for p99 of the
quiet one: 1.5 times that of alone.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from queues.embedded.server import EmbeddedRedis, find_server
from tests.bench.bench_http import READY_S, serving
from tests.bench.report import figure, machine
from tests.ports import free_port

RATIO_MAX = 1.5
ASKED = 400
EVERY_S = 0.05
CONNECTIONS = 64
PATH = "/v1/queues/binding-evaluation/requests"
KEY = "BENCH_KEY"


def body(name: str) -> dict[str, object]:
    content = {"binding_id": "b-1", "source_event_id": name}
    return {"requests": [{"request_key": name, "content": content}]}


async def quiet(url: str, key: str, run: str) -> list[float]:
    """Ask at a steady pace, whatever the answers take, and return what each took, sorted."""
    latencies_ms: list[float] = []
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}) as http:

        async def ask(number: int) -> None:
            began_s = time.perf_counter()
            response = await http.post(PATH, json=body(f"quiet-{run}-{number}"), timeout=60)
            response.raise_for_status()
            latencies_ms.append((time.perf_counter() - began_s) * 1000)

        async with asyncio.TaskGroup() as tasks:
            for number in range(ASKED):
                tasks.create_task(ask(number))
                await asyncio.sleep(EVERY_S)
    return sorted(latencies_ms)


async def noisy(url: str, key: str, run: str, *, waits: bool) -> None:
    """Ask as fast as answers come until this process is ended."""
    limits = httpx.Limits(max_connections=CONNECTIONS)
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as http:

        async def ask(connection: int) -> None:
            number = 0
            while True:
                number += 1
                name = f"noisy-{run}-{connection}-{number}"
                response = await http.post(PATH, json=body(name))
                if waits and response.status_code == 429:
                    await asyncio.sleep(int(response.headers["Retry-After"]))

        await asyncio.gather(*map(ask, range(CONNECTIONS)))


def make_key(url: str, owner: str, name: str) -> str:
    made = httpx.post(
        f"{url}/v1/access/keys",
        json={"principal": f"service:{name}", "roles": [{"role": "producer"}]},
        headers={"Authorization": f"Bearer {owner}"},
    )
    made.raise_for_status()
    return str(made.json()["key"])


def owners_key(data: Path) -> str:
    """Return the key that the gateway writes at its first start, once it is there."""
    deadline_s = time.monotonic() + READY_S
    while not (data / "owner.key").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return (data / "owner.key").read_text(encoding="utf-8").strip()


def beside_noise(url: str, keys: dict[str, str], run: str) -> list[float]:
    """Return what the quiet producer waited while the noisy one asks."""
    command = [sys.executable, "-m", __spec__.name, "--noisy", url, "--run", run]
    process = subprocess.Popen(command, env=os.environ | {KEY: keys["noisy"]})
    try:
        time.sleep(3)  # what it may ask for at once is gone by then
        return asyncio.run(quiet(url, keys["quiet"], run))
    finally:
        process.terminate()
        process.wait()


def p99(latencies_ms: list[float]) -> float:
    return latencies_ms[len(latencies_ms) * 99 // 100]


def measure(url: str, owner: str) -> None:
    keys = {name: make_key(url, owner, name) for name in ("quiet", "noisy")}
    asyncio.run(quiet(url, keys["quiet"], "warm"))
    alone = asyncio.run(quiet(url, keys["quiet"], "alone"))
    figure("a quiet producer alone, latency p99", p99(alone), "ms")
    for run, name in (("waits", "that honours Retry-After"), ("rude", "that does not")):
        beside = beside_noise(url, keys, run)
        ratio = p99(beside) / p99(alone)
        noise = f"a quiet producer beside a noisy one {name}, latency p99"
        figure(noise, p99(beside), "ms", ratio=ratio, of=f"alone (bound {RATIO_MAX})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--limits", default="")
    parser.add_argument("--noisy")
    parser.add_argument("--run", default="")
    arguments = parser.parse_args()
    if arguments.noisy:
        waits = arguments.run == "waits"
        asyncio.run(noisy(arguments.noisy, os.environ[KEY], arguments.run, waits=waits))
        return
    machine(synchronous="FULL", connections=CONNECTIONS, limits=arguments.limits or "default")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        redis = EmbeddedRedis(Path(folder) / "redis", find_server())
        redis.start()
        data = Path(folder) / "data"
        try:
            settings = {
                "ROTULUS_DATA_DIR": str(data),
                "ROTULUS_PORT": str(port),
                "ROTULUS_REDIS_URL": redis.url,
                "ROTULUS_LOG_LEVEL": "warning",
                "ROTULUS_ACCESS": "keys",
                "ROTULUS_PRINCIPAL_LIMITS": arguments.limits,
            }
            with serving(port, "workers", "gateway", **settings):
                measure(f"http://127.0.0.1:{port}", owners_key(data))
        finally:
            redis.stop()


if __name__ == "__main__":
    main()
