"""Keeps the head that a gateway knew last in a file, so that it notices a ledger that was put back.

The file is a hint and no record. It names the ledger that it is about, so a folder whose ledger is
another one by now has no hint. A gateway that stops, or finds that its ledger went back, leaves
there also what it has written of late, by name.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import structlog

from kernel.ledger.head_watch import Answered, Memory, Remembered
from kernel.records.head_acceptance import head_document, head_of
from workers.environment.checkpoint_folder import write_whole
from workers.environment.private_files import FILE_MODE, UnsafePathError, check_file

KEY_SUFFIX = ".known-head"

_log = structlog.get_logger(__name__)


class KnownHead(NamedTuple):
    """What a process knew of a ledger."""

    ledger_id: str
    memory: Memory


def known_head_beside(key_file: Path) -> Path:
    """Return where the head lies that the gateway knew which signs with the keys of a file."""
    return key_file.with_name(f"{key_file.name}{KEY_SUFFIX}")


def read_known_head(path: Path) -> KnownHead | None:
    """Return what a file says; None where there is none, or it says nothing that can be read."""
    try:
        check_file(path)
        return _read(orjson.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, UnsafePathError, ValueError, KeyError, TypeError) as error:
        _log.warning("known_head_unreadable", path=str(path), error=str(error))
        return None


def write_known_head(path: Path, known: KnownHead, *, synced: bool) -> None:
    """Write what a process knows to a file, as a whole."""
    memory = known.memory
    document = {
        "ledger_id": known.ledger_id,
        "known": head_document(memory.known),
        "since": None if memory.since is None else head_document(memory.since),
        "remembered": [
            (head_document(part.head), [tuple(each) for each in part.answered])
            for part in memory.remembered
        ],
    }
    write_whole(path, orjson.dumps(document), FILE_MODE, synced=synced)


def _read(document: dict[str, Any]) -> KnownHead:
    since = document["since"]
    return KnownHead(
        document["ledger_id"],
        Memory(
            head_of(document["known"]),
            None if since is None else head_of(since),
            tuple(_remembered_head(*part) for part in document["remembered"]),
        ),
    )


def _remembered_head(head: dict[str, str], answered: Sequence[Sequence[Any]]) -> Remembered:
    return Remembered(head_of(head), tuple(Answered(*each) for each in answered))
