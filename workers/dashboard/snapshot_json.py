"""Writes a snapshot as JSON that any reader can trust, whatever its numbers are made of."""

from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import orjson

from workers.dashboard import formatting as words
from workers.dashboard.snapshot import DashboardSnapshot

EXACT_MAX = 2**53 - 1
"""The largest integer that a browser reads exactly; what is larger is sent as text."""


def snapshot_json(snapshot: DashboardSnapshot) -> bytes:
    """Return the snapshot as JSON: times in ISO 8601 UTC, large integers as text."""
    return orjson.dumps(_plain(snapshot))


def _plain(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > EXACT_MAX:
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, datetime):
        return words.iso(value)
    return value
