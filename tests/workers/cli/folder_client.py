"""The client of a command, with a gateway for the time of a call on the ledger of a folder."""

from contextlib import AsyncExitStack
from typing import Any

from kernel.ledger.sqlite.store import SqliteStore
from tests.kernel.build import FakeHost
from tests.workers.api.door import running_door
from workers.environment.data_folder import DataFolder


class FolderClient:
    """A gateway for the time of a call, on the ledger of a folder."""

    def __init__(self, folder: DataFolder, host: Any = None) -> None:
        self._folder = folder
        self._host = host or FakeHost().host
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Any:
        store = SqliteStore(self._folder.ledger_path)
        self._stack.callback(store.close)
        door = await self._stack.enter_async_context(running_door(store, host=self._host))
        return door.client()

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
