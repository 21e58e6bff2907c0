"""Begins access at a gateway's start: reads who may ask, and makes the first owner's key."""

from pathlib import Path
from typing import Final

import anyio.to_thread
import structlog

from kernel.records.access.keys import new_key
from workers.api.access import Door
from workers.environment.key_file import write_private
from workers.use_cases.access import AccessChanges

OWNER_KEY: Final = "owner.key"
"""The file in a data folder with the first owner's key."""

_log = structlog.get_logger(__name__)


async def begin_access(
    door: Door | None, changes: AccessChanges, folder: Path, *, halted: bool
) -> None:
    """Read who may ask; where nobody is owner yet, write a key of one into the data folder.

    Raises:
        CheckpointKeyUnusable: the file cannot be written.
    """
    if door is None:
        _log.info("access_open", todo="whoever reaches the port may do everything; ROTULUS_ACCESS")
        return
    await door.table.refresh()
    if halted or door.table.has_owner:
        return
    # On the disk before it counts, and under a name of its own: gateways may share the folder.
    key = new_key(changes.host.random_bytes)
    path = folder / OWNER_KEY
    draft = folder / f"{OWNER_KEY}.{key.key_id}"
    await anyio.to_thread.run_sync(write_private, draft, f"{key}\n".encode())
    if not await changes.record_first_owner(key):
        await anyio.to_thread.run_sync(draft.unlink)
        return
    await anyio.to_thread.run_sync(draft.replace, path)
    _log.warning("owner_key_made", file=str(path), todo="log in with it, and make other keys")
    await door.table.refresh()
