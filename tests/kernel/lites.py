"""Logs of version 1.5: lite envelopes that can be migrated unless a test says otherwise."""

import io
import json
from typing import Any

from kernel.ledger.ledger import Ledger
from kernel.migration.job import LogMigration, migrate
from kernel.migration.lite_log import Taken, take_log
from kernel.transaction.kernel import Kernel

_NOT_KNOWN_THEN = ("policy_generation_id", "read_set_refs", "write_set_refs")


def lite(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """An envelope as version 1.5 recorded it; None takes a field out."""
    kept = {name: value for name, value in document.items() if name not in _NOT_KNOWN_THEN}
    effects = [
        {name: effect[name] for name in ("effect_kind", "target_ref", "payload") if name in effect}
        for effect in document["primitive_effects"]
    ]
    fields = kept | {"envelope_version": "1.5", "primitive_effects": effects} | changes
    return {name: value for name, value in fields.items() if value is not None}


def log_of(*documents: Any) -> io.BytesIO:
    return io.BytesIO(b"".join(json.dumps(document).encode() + b"\n" for document in documents))


def take(ledger: Ledger, *documents: Any) -> Taken:
    return take_log(ledger, log_of(*documents))


def migrated(ledger: Ledger, *documents: Any) -> LogMigration:
    take(ledger, *documents)
    return migrate(Kernel(), ledger)
