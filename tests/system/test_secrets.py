"""No part of a secret is in anything that a running fleet says, whether its services answer or not.

One tree has a canary in each setting that may hold a secret, and a database and a Redis that take
it. Everything that anybody can read is gathered: logs, pages, answers, metrics, spans, commands,
MCP. Then Redis is killed and the database refuses, and it is gathered again.
"""

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest
from pydantic import SecretStr

from tests import loopback
from tests.ports import free_port
from tests.queues.topologies import server
from tests.system.tree_run import running, wait_for
from tests.workers.cli.command import rotulus
from tests.workers.cli.test_secrets import OTHERS, PARTS, SECRET, SECRETS, said_in
from tests.workers.mcp.conftest import asking
from tests.workers.telemetry.collector import running_collector

ROOT = Path(__file__).parents[2]
COMMANDS = (
    ("doctor", "--json"),
    ("status",),
    ("settings",),
    ("archive", "status"),
    ("landscape", "diagnose"),
    ("queues",),
    ("show", "log"),
)
PAGES = (
    *("/", "/metrics", "/queues", "/requests", "/sessions", "/operations", "/runs"),
    *("/explain", "/docs"),
)
TOOLS: Mapping[str, dict[str, Any]] = {
    "diagnose": {},
    "list_runs": {},
    "describe_schema": {},
    "query": {"sql": "SELECT * FROM outbox"},
}


@contextmanager
def refusing(url: str) -> Iterator[None]:
    """Have a database take no connections, and end those that there are."""
    psycopg = pytest.importorskip("psycopg")
    name = urlsplit(url).path.removeprefix("/")
    with psycopg.connect(
        urlunsplit(urlsplit(url)._replace(path="/postgres")), autocommit=True
    ) as admin:
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def every_get() -> list[str]:
    """Return a path for each route that can be read, with a name that nothing has."""
    routes = json.loads((ROOT / "workers/api/openapi.json").read_text())["paths"]
    paths = [
        re.sub(r"\{[^}]*\}", "nothing", path) for path, verbs in routes.items() if "get" in verbs
    ]
    return [*PAGES, *(f"{page}/nothing" for page in PAGES[1:]), *paths]


def answers(url: str, paths: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what a gateway answers, and by which path, also to what is no request."""

    def get(path: str) -> tuple[str, str]:
        with (
            suppress(httpx.TransportError),
            httpx.stream("GET", url + path, timeout=2, trust_env=False) as answer,
        ):
            # A stream goes on; its begin is enough.
            return path, f"{answer.headers}{next(answer.iter_text(), '')}"
        return path, ""

    with ThreadPoolExecutor(4) as threads:
        yield from threads.map(get, paths)
    signed = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
    for path, headers in (
        ("/v1/sources", signed),
        ("/v1/sources", {"authorization": f"Bearer {'x' * 40}"}),
        ("/v1/queues/authority-recompute/outcomes", {}),
        ("/v1/queues/extraction-transition/requests", {}),
    ):
        with suppress(httpx.TransportError):
            answer = loopback.post(url + path, content=b"{", headers=headers, timeout=5)
            yield path, f"{answer.headers}{answer.text}"


def commands(environment: Mapping[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    for words in COMMANDS:
        ended = rotulus("--data-dir", str(folder), *words, **environment)
        yield " ".join(words), ended.output + ended.stderr


async def of_mcp(database_url: str) -> dict[str, str]:
    """Return what a model is told: the tools, and answers of those that read much."""
    said = {}
    async with asking(SecretStr(database_url), gateway_url="http://127.0.0.1:1") as ask:
        said["tools"] = str(await ask.session.list_tools())
        for tool, arguments in TOOLS.items():
            said[tool] = str(await ask.session.call_tool(tool, arguments))
    return {f"mcp {name}": text for name, text in said.items()}


def kept_keys(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Make the files of keys; return their settings, and the private half of each."""
    files = {name: str(folder / f"{name}.key") for name in ("checkpoint", "seal")}
    rotulus("checkpoint", "key", files["checkpoint"], "--origin", "example.org/log")
    rotulus("thought", "key", files["seal"], "--name", "seals")
    lines = "".join(Path(file).read_text() for file in files.values()).splitlines()
    settings = {f"ROTULUS_{name.upper()}_KEY": file for name, file in files.items()}
    # The kind of a key is the first byte, in two characters and a part of a third.
    return settings, [line.split("+", 4)[4][3:] for line in lines]


def check(said: Mapping[str, str], keys: list[str]) -> None:
    assert {where: parts for where, text in said.items() if (parts := said_in(text))} == {}
    assert [where for where, text in said.items() for key in keys if key in text] == []


@pytest.mark.timeout(180)
def test_nothing_that_a_fleet_says_has_a_part_of_a_secret(postgres_empty_url, tmp_path: Path):
    tmp_path.chmod(0o700)
    files, keys = kept_keys(tmp_path)
    database_url = postgres_empty_url.replace("@", f":{SECRET}@", 1)
    folder, metrics_port = tmp_path / "data", free_port()
    metrics = f"http://127.0.0.1:{metrics_port}/metrics"
    with (
        server(tmp_path / "redis") as redis,
        running_collector() as collector,
    ):
        redis.say("ACL", "SETUSER", "me", "on", f">{SECRET}", "~*", "&*", "+@all")
        environment = {
            **SECRETS,
            **OTHERS,
            **files,
            "ROTULUS_ARCHITECT_CONFIRMATION_KEY": SECRET * 3,
            "ROTULUS_DATABASE_URL": database_url,
            "ROTULUS_REDIS_URL": f"redis://me:{SECRET}@127.0.0.1:{redis.port}/0",
            "ROTULUS_TRACES_URL": collector.url,
            "ROTULUS_LOG_LEVEL": "info",
            "ROTULUS_WORKER_METRICS_PORT": str(metrics_port),
            "ROTULUS_CHECKPOINT_S": "1",
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={SECRET}",
        }
        with running(folder, "up", env=environment) as run:
            url = run.wait_until_up()["gateway_url"]
            beside = environment | {"ROTULUS_GATEWAY_URL": url}
            said = dict(answers(url, every_get()))
            said |= dict(commands(beside, folder))
            said |= asyncio.run(of_mcp(database_url))
            said["worker metrics"] = loopback.get(metrics, timeout=10).text
            assert said["/metrics"], "the fleet was reached"
            assert "ledger_unavailable" not in said["show log"], "so was its database"
            redis.kill()
            with refusing(postgres_empty_url):
                wait_for(
                    "the loss to be seen",
                    lambda: loopback.get(f"{url}/readyz", timeout=10).status_code == 503,
                    60,
                )
                lost = ["/readyz", "/metrics", "/", "/v1/queues", "/snapshot.json", "/v1/log"]
                said |= {f"lost {path}": text for path, text in answers(url, lost)}
                said |= {f"lost {words}": text for words, text in commands(beside, folder)}
        said["the log of the fleet"] = run.stdout + run.stderr
        said["spans"] = str(collector.spans)
    assert collector.spans, "requests were traced"
    assert "gateway_listens" in said["the log of the fleet"]
    assert sum(map(bool, said.values())) > 80, "most routes said something"
    check(said, [*keys, base64.b64encode(SECRET.encode()).decode(), SECRET[::-1]])


def test_what_is_looked_for_would_be_seen():
    with pytest.raises(AssertionError):
        check({"a log": f"… {PARTS[2].lower()} …"}, [])
    with pytest.raises(AssertionError):
        check({"a log": "… a key …"}, ["a key"])
