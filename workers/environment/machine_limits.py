"""Limits of the machine, held against what a process needs, at its start (decision workers/0381).

Each limit is a row of the table: what there is of it, below what a process cannot work, and below
what it works with little to spare. A process that cannot work is refused by name before it opens
anything; what is tight is said, and it starts. `rotulus doctor` says the same.

A full disk is no row: what is full is waited for (decision workers/0106).
"""

import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import structlog

FILES_KEPT: Final = 256
"""File descriptors of a gateway for everything but clients: ledger, Redis, effects outside."""

CLIENTS_MIN: Final = 64
CLIENTS_WANTED: Final = 1024

_GIB: Final = 1 << 30
_MIB: Final = 1 << 20
CGROUPS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_EARLIEST_S: Final = 1_735_689_600
"""2025-01-01: a clock that says less was never set."""

_LATEST_S: Final = 4_102_444_800
"""2100-01-01."""

ROOM_WANTED_BYTES: Final = _GIB
"""What should be free on the disk."""

_log = structlog.get_logger(__name__)

Fitness = Literal["ok", "tight", "unfit"]


class MachineUnfitError(Exception):
    """A process cannot work within a limit of its machine; it has opened nothing."""

    code = "machine_unfit"


@dataclass(frozen=True, slots=True)
class LimitSeen:
    """One limit: what there is, whether that is enough, and what to do where it is not."""

    name: str
    fitness: Fitness
    what: str
    todo: str = ""


@dataclass(frozen=True, slots=True)
class _Amount:
    """A limit that is a number; `read` returns None where there is none."""

    name: str
    read: Callable[[], int | None]
    least: int
    wanted: int
    unit: int
    todo: str

    def look(self) -> LimitSeen:
        there = self.read()
        if there is None:
            return LimitSeen(self.name, "ok", f"{self.name}: no limit")
        what = f"{self.name}: {there // self.unit} are allowed"
        if there < self.least:
            what += f", {self.least // self.unit} needed"
            return LimitSeen(self.name, "unfit", what, self.todo)
        if there < self.wanted:
            what += f", {self.wanted // self.unit} wanted"
            return LimitSeen(self.name, "tight", what, self.todo)
        return LimitSeen(self.name, "ok", what)


def _hard(limit: int) -> Callable[[], int | None]:
    def read() -> int | None:
        # A process allows itself what its hard limit allows.
        hard = resource.getrlimit(limit)[1]
        return None if hard == resource.RLIM_INFINITY else hard

    return read


def _memory() -> int | None:
    for path in CGROUPS:
        try:
            stated = path.read_text().strip()
        except OSError:
            continue
        return int(stated) if stated.isdecimal() else None
    return None


_AMOUNTS: Final = (
    _Amount(
        "open files",
        _hard(resource.RLIMIT_NOFILE),
        FILES_KEPT + CLIENTS_MIN,
        FILES_KEPT + CLIENTS_WANTED,
        1,
        "raise `ulimit -Hn`, LimitNOFILE of the service or --ulimit nofile of the container",
    ),
    _Amount(
        "MiB of memory",
        _memory,
        192 * _MIB,
        512 * _MIB,
        _MIB,
        "give the container or the service more memory",
    ),
    _Amount(
        "MiB of address space",
        _hard(resource.RLIMIT_AS),
        _GIB,
        4 * _GIB,
        _MIB,
        "raise `ulimit -Hv`, or set none",
    ),
)


def current_limits(folder: Path, room_bytes: int = ROOM_WANTED_BYTES) -> Iterator[LimitSeen]:
    """Yield every limit as it is now; `room_bytes` is what should be free where the folder is."""
    yield from (amount.look() for amount in _AMOUNTS)
    encoding = sys.getfilesystemencoding().lower()
    if encoding != "utf-8":
        todo = "set LC_ALL=C.UTF-8, or PYTHONUTF8=1"
        yield LimitSeen("locale", "unfit", f"locale: names of files are {encoding}", todo)
    now_s = time.time()
    if not _EARLIEST_S <= now_s < _LATEST_S:
        shown = time.strftime("%Y-%m-%d", time.gmtime(now_s))
        yield LimitSeen("clock", "unfit", f"clock: it says {shown}", "set the machine's clock")
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free < room_bytes:
        what = f"disk: {free // _MIB} MiB are free at {there}"
        yield LimitSeen("disk", "tight", what, "make room, or `rotulus archive run`")


def begin_within_limits(folder: Path) -> None:
    """Log what is tight for a process that begins.

    Raises:
        MachineUnfitError: see `expect_fit`.
    """
    for limit in expect_fit(folder):
        _log.warning("machine_tight", limit=limit.what, todo=limit.todo)


def expect_fit(folder: Path) -> Sequence[LimitSeen]:
    """Return what is tight for a process of this data folder.

    Raises:
        MachineUnfitError: naming each limit within which a process cannot work, and what to do.
    """
    seen = [*current_limits(folder)]
    unfit = [f"{limit.what}: {limit.todo}" for limit in seen if limit.fitness == "unfit"]
    if unfit:
        raise MachineUnfitError("; ".join(unfit))
    return [limit for limit in seen if limit.fitness == "tight"]
