"""A gateway in the test's process, and workers of its bindings, each a process with its log."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.forked import ForkedProgram
from tests.ports import free_port
from tests.workers.gateway.served import served_gateway
from workers.environment.settings import Settings

TOKEN = "the-token-of-these-tests"  # noqa: S105 - made up here


class BindingWorkers:
    """Runs a program as each of its workers, with the settings that an operator would give."""

    def __init__(self, folder: Path, redis_url: str, program: str, **variables: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._folder, self._redis_url, self._program = folder, redis_url, program
        self._settings = Settings(data_dir=folder / "data", port=port, worker_token=TOKEN)
        self._environment = {
            "ROTULUS_DATA_DIR": str(folder / "data"),
            "ROTULUS_REDIS_URL": redis_url,
            "ROTULUS_GATEWAY_URL": self.url,
            "ROTULUS_WORKER_TOKEN": TOKEN,
            **variables,
        }

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[httpx.AsyncClient]:
        async with served_gateway(self._settings, self._redis_url) as client:
            yield client

    def worker(self, *arguments: object) -> ForkedProgram:
        return ForkedProgram(
            self._program,
            [*map(str, arguments)],
            os.environ | self._environment,
            self._folder / "worker.log",
        )
