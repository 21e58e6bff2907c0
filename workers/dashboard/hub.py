"""Reads the state once for everybody and hands the newest picture to each stream.

Rules:

1. One reader, one serialisation, any number of readers of the result.
2. A change is made once for all clients, and there is no queue for a client. A stream that falls
   behind finds the newest picture when it comes back, never a backlog.
3. Nobody listening: one read every `idle_interval_s`. Somebody listening or asking: one read
   every `interval_s`, never more.
4. `stop` ends every wait at once.
5. Nothing that a source does ends the page: a part that fails keeps the last value known under
   its error, and so do all parts when the source raises or sends what cannot be shown.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from math import isinf
from typing import Any

import anyio
import orjson
import structlog

from workers.dashboard import formatting, page_model
from workers.dashboard.page_model import Row, Rows
from workers.dashboard.sanitize import tidy
from workers.dashboard.snapshot import PARTS, DashboardSnapshot, SnapshotPart, SnapshotSource
from workers.environment.system_host import utc_now

log = structlog.get_logger(__name__)


class TooManyListeners(Exception):
    """Raised when as many streams are open as the hub allows."""

    code = "too_many_listeners"


@dataclass(frozen=True, slots=True)
class Published:
    """One picture of the state with its serial, as every listener gets it."""

    at: datetime
    """When it was published, by the hub's clock; the ages in it are counted up to here."""
    serial: int
    """Grows by one with each picture of this hub; 0 is the picture before the first read."""
    snapshot: DashboardSnapshot
    page: page_model.Row
    full: bytes
    """The whole picture as JSON."""
    delta: bytes
    """The changes since the picture before this one, as JSON."""


class SnapshotHub:
    """Takes the picture again and again and lets streams wait for the next one."""

    def __init__(
        self,
        source: SnapshotSource,
        interval_s: float = 1.0,
        *,
        clock: Callable[[], datetime] = utc_now,
        idle_interval_s: float = 5.0,
        read_timeout_s: float = 5.0,
        listeners_max: int = 256,
    ) -> None:
        self.interval_s = interval_s
        self.clock = clock
        self._source = source
        self._idle_interval_s = idle_interval_s
        self._read_timeout_s = read_timeout_s
        self._listeners_max = listeners_max
        self._listeners = 0
        self._failing = ""
        self._picture_wanted = anyio.Event()
        self._changed = anyio.Event()
        self._stopped = anyio.Event()
        unread = _unread(clock())
        self._newest = _publication_of(0, unread, {}, clock())

    @property
    def newest(self) -> Published:
        """The last picture taken; all its parts are errors before the first read."""
        return self._newest

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    async def run(self) -> None:
        """Take pictures until `stop` is called; cancelling it is safe at any moment.

        With an idle interval that never ends none is taken before somebody asks.
        """
        if isinf(self._idle_interval_s):
            await self._picture_wanted.wait()
        while not self.stopped:
            started_s = anyio.current_time()
            self._publish(await self._take())
            await self._rest(started_s)

    def stop(self) -> None:
        """End `run` and every wait at once; call it on the event loop's thread."""
        self._stopped.set()
        self._changed.set()
        self._picture_wanted.set()

    async def wait_stopped(self) -> None:
        """Return when `stop` is called."""
        await self._stopped.wait()

    async def next_after(self, serial: int, timeout_s: float) -> Published | None:
        """Wait for a picture newer than `serial` and return the newest, or None if there is none.

        None also when the hub stops.
        """
        with anyio.move_on_after(timeout_s):
            while self._newest.serial <= serial and not self.stopped:
                await self._changed.wait()
        return self._newest if self._newest.serial > serial and not self.stopped else None

    async def fresh(self, timeout_s: float = 2.0) -> Published:
        """Return a picture at most one interval old, or the newest there is after `timeout_s`."""
        age = self.clock() - self._newest.at
        if self._newest.serial == 0 or age.total_seconds() > self.interval_s:
            self._picture_wanted.set()
            await self.next_after(self._newest.serial, timeout_s)
        return self._newest

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Count as somebody who listens while the block runs.

        Raises:
            TooManyListeners: the hub serves as many as it may.
        """
        if self._listeners >= self._listeners_max:
            raise TooManyListeners(f"{self._listeners} streams are open")
        self._listeners += 1
        self._picture_wanted.set()
        try:
            yield
        finally:
            self._listeners -= 1

    async def _take(self) -> Published:
        try:
            with anyio.fail_after(self._read_timeout_s):
                snapshot = tidy(await self._source.read())
            published = self._next(_following(self._newest.snapshot, snapshot))
        except Exception as error:  # noqa: BLE001 - a source that fails must not end the page
            return self._next(self._snapshot_of_trouble(error))
        self._failing = ""
        return published

    def _next(self, snapshot: DashboardSnapshot) -> Published:
        old = self._newest
        return _publication_of(old.serial + 1, snapshot, old.page, self.clock())

    def _snapshot_of_trouble(self, error: Exception) -> DashboardSnapshot:
        """Keep the last values and say on every part that they could not be read again."""
        trouble = type(error).__name__
        if trouble != self._failing:
            log.warning("snapshot_read_failed", error=trouble, detail=str(error))
        self._failing = trouble
        last = self._newest.snapshot
        message = f"The state could not be read ({trouble})."
        parts: dict[str, SnapshotPart[Any]] = {
            n: replace(getattr(last, n), error=message) for n in PARTS
        }
        return replace(last, version=last.version + 1, time=self.clock(), **parts)

    def _publish(self, published: Published) -> None:
        self._newest = published
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
        if self.stopped:
            self._changed.set()

    async def _rest(self, started_s: float) -> None:
        if self._listeners == 0:
            self._picture_wanted = anyio.Event()
        with anyio.move_on_after(started_s + self._idle_interval_s - anyio.current_time()):
            await self._picture_wanted.wait()
        with anyio.move_on_after(started_s + self.interval_s - anyio.current_time()):
            await self._stopped.wait()


def _publication_of(
    serial: int, snapshot: DashboardSnapshot, old: page_model.Row, now: datetime
) -> Published:
    page = page_model.page(snapshot)
    head = {
        "version": str(snapshot.version),
        "time": formatting.iso(snapshot.time),
        "parts": page_model.notes(snapshot, now),
    }
    full = orjson.dumps({**head, "page": page})
    change = orjson.dumps({**head, "page": changes(old, page)})
    return Published(now, serial, snapshot, page, full, change)


def _following(last: DashboardSnapshot, new: DashboardSnapshot) -> DashboardSnapshot:
    """Return the new picture, with the last values known under the errors of its parts."""
    # A source that starts again must not make the ids of the stream go back.
    changes: dict[str, Any] = {"version": max(new.version, last.version + 1)}
    for name in PARTS:
        part, known = getattr(new, name), getattr(last, name)
        if part.error and part.value is None and known.value is not None:
            changes[name] = replace(known, error=part.error)
    return replace(new, **changes)


def _unread(now: datetime) -> DashboardSnapshot:
    parts: dict[str, SnapshotPart[Any]] = {
        n: SnapshotPart("nowhere", now, None, "Not read yet.") for n in PARTS
    }
    return DashboardSnapshot(version=0, time=now, **parts)


def changes(old: Row, new: Row) -> Row:
    """Return what turns the old page into the new one; empty when they say the same.

    A change is itself a row: text, numbers and chips replace the old field, rows inside a list
    merge by key, and `order` is present only when it changed. A field that the new page lacks is
    not in the change, so the reader keeps it. `static/stream.js` applies it.
    """
    return {
        name: _list_changes(old[name], value)
        if isinstance(value, Rows) and isinstance(old.get(name), Rows)
        else value
        for name, value in new.items()
        if old.get(name) != value
    }


def _list_changes(old: Rows, new: Rows) -> Row:
    rows = {k: changes(old.rows.get(k, {}), row) for k, row in new.rows.items()}
    change: Row = {"rows": {k: row for k, row in rows.items() if row}}
    return change if old.order == new.order else {"order": new.order, **change}
