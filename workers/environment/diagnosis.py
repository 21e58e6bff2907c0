"""Diagnoses a data folder, its database and the record in it, each problem with its remedy.

Each check is about one subject. None of them writes, and one that fails says so and lets the others
go on. The record is looked at near its end: the last rows and receipts, the newest tiles of the
log's tree, and the schema. `rotulus verify` looks at all of it.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from kernel.ledger.ledger import LedgerView
from kernel.ledger.replication import Replication
from kernel.ledger.store.tables import HasStandbys
from kernel.records.head_acceptance import standing_findings
from kernel.verify.recent import audit_since, mark_before_last
from workers.environment.archive_files import NAME_ARCHIVE, NO_ARCHIVE
from workers.environment.checkpoint_key import is_handed_over, last_signed_size
from workers.environment.data_folder import DataFolder
from workers.environment.key_file import keys_in, seal_keys
from workers.environment.ledger_access import (
    file_of,
    ledger_place,
    open_record,
    open_store,
    printable_archive,
)
from workers.environment.machine_limits import ROOM_WANTED_BYTES, current_limits
from workers.environment.output import command_line
from workers.environment.private_files import check_folder
from workers.environment.settings import Settings

FREE_BYTES_MIN: Final = ROOM_WANTED_BYTES
"""Less than this is a problem: a full disk stops every commit."""

ROWS_LOOKED_AT: Final = 1_000
CLOCK_SKEW_S_MAX: Final = 60
"""A gateway whose clock is further off than this is not ready."""

TODO_VERIFY: Final = "let nothing write, keep the file as it is, and run `rotulus verify`"
TODO: Final = {"tile_differs": "`rotulus verify`; if the rows are sound, `rotulus tree rebuild`"}
"""What to do about a finding, by its rule."""

TODO_BY_CODE: Final = {
    "ledger_unavailable": "name it by ROTULUS_DATA_DIR or ROTULUS_DATABASE_URL, or `rotulus up`",
    "ledger_schema_older": "as deploy/upgrade.md says: back up, `rotulus migrate`",
    "ledger_file_damaged": TODO_VERIFY,
    "checkpoint_key_unusable": "see the file; `rotulus thought key FILE --name NAME` makes"
    " keys that sign seals, `rotulus checkpoint key FILE --origin ORIGIN` those of a log",
    "witness_policy_invalid": "mend the file that ROTULUS_WITNESS_POLICY names",
}
"""What to do about what kept a check from looking, by its code."""

LOST: Final = "a failover to it loses the answered work that it has not received"
IN_STEP_TODO: Final = (
    "name it in synchronous_standby_names and leave synchronous_commit on, or do not fail over to"
    " it; deploy/runbook.md says what to do after a failover"
)

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was seen of one subject; where that is not well, also what to do."""

    subject: str
    state: State
    what: str
    todo: str = ""


EXPECTED: Final[dict[str, tuple[str, State, str]]] = {
    "journal_mode": (
        "wal",
        "problem",
        "open it once with `rotulus up`: readers wait for writers until then",
    ),
    "fsync": ("on", "problem", "set fsync = on: a COMMIT is not durable without it"),
    "full_page_writes": (
        "on",
        "problem",
        "set full_page_writes = on: a power cut may tear pages without it",
    ),
    "server_encoding": ("UTF8", "problem", "make a database that is encoded in UTF-8"),
    "data_checksums": (
        "on",
        "note",
        "`pg_checksums --enable` lets the server notice damaged pages by itself",
    ),
}
"""By setting of a database: what it should be, how bad anything else is, and what to do."""


def diagnose(settings: Settings) -> Iterator[Diagnosis]:
    """Yield what is to be said of what the settings name, subject by subject."""
    for subject, check in _CHECKS.items():
        yield from guard_check(subject, check, settings)


def guard_check(
    subject: str, check: Callable[[Settings], Iterator[Diagnosis]], settings: Settings
) -> Iterator[Diagnosis]:
    """Yield what a check says, and why it cannot look where it fails."""
    try:
        yield from check(settings)
    except Exception as error:  # noqa: BLE001 - what keeps it from being looked at is the answer
        text, code = str(error), getattr(error, "code", type(error).__name__)
        what = text if text.startswith(code) else f"{code}: {text}"
        yield Diagnosis(subject, "problem", what, TODO_BY_CODE.get(code, ""))


def _machine(settings: Settings) -> Iterator[Diagnosis]:
    # The disk has a check of its own.
    seen = [limit for limit in current_limits(settings.data_dir, 0) if limit.fitness != "ok"]
    for limit in seen:
        state: State = "problem" if limit.fitness == "unfit" else "note"
        yield Diagnosis("machine", state, limit.what, limit.todo)
    if not seen:
        yield Diagnosis("machine", "ok", "open files, memory, locale and clock are enough")


def _folder(settings: Settings) -> Iterator[Diagnosis]:
    path = DataFolder(settings.data_dir).path
    if not path.exists():
        where = "`rotulus up`" if settings.database_url is None else "the first gateway"
        yield Diagnosis("folder", "note", f"{path} is not there", f"{where} makes it")
        return
    check_folder(path)
    yield Diagnosis("folder", "ok", f"{path} lets nobody else in")


def _disk(settings: Settings) -> Iterator[Diagnosis]:
    path = _there(DataFolder(settings.data_dir).path)
    free = shutil.disk_usage(path).free
    what = f"{free / (1 << 30):.1f} GiB are free at {path}"
    if free < FREE_BYTES_MIN:
        yield Diagnosis("disk", "problem", what, "make room, or `rotulus archive run`")
    else:
        yield Diagnosis("disk", "ok", what)


def _there(path: Path) -> Path:
    """Return the nearest folder of a path that exists."""
    return next(parent for parent in (path, *path.parents) if parent.exists())


def _database(settings: Settings) -> Iterator[Diagnosis]:
    place = ledger_place(settings)
    with closing(open_store(place, read_only=True)) as store:
        engine = store.engine()
        server_us = store.server_time_us()
    yield Diagnosis("database", "ok", engine.pop("version"))
    for name, value in engine.items():
        if name not in EXPECTED:
            continue
        wanted, state, todo = EXPECTED[name]
        if value.lower() != wanted.lower():
            yield Diagnosis("database", state, f"{name} is {value}", todo)
    if server_us is not None:
        off_s = abs(time.time() - server_us / 1_000_000)
        what = f"this machine's clock and the server's are {off_s:.1f} s apart"
        if off_s > CLOCK_SKEW_S_MAX:
            yield Diagnosis("clock", "problem", what, "set this machine's clock (NTP)")
        else:
            yield Diagnosis("clock", "ok", what)


def _standbys(settings: Settings) -> Iterator[Diagnosis]:
    with closing(open_store(ledger_place(settings), read_only=True)) as store:
        if isinstance(store, HasStandbys):
            yield from standby_diagnoses(store.replication())


def standby_diagnoses(replication: Replication) -> Iterator[Diagnosis]:
    """Yield what is to be said of a server's standbys, and of what a failover to one can lose."""
    seen, standbys = partial(Diagnosis, "standby"), replication.standbys
    if replication.in_recovery:
        yield seen("note", "this server is a standby, which shows what has reached it so far")
        return
    if not standbys and not replication.waits:
        yield seen("ok", "no standby streams from the server")
        return
    asynchronous = replication.asynchronous
    for each in asynchronous:
        behind = "" if each.behind_bytes is None else f", {each.behind_bytes} bytes behind now"
        what = f"{each.name or 'a standby'} is asynchronous{behind}: {LOST}"
        yield seen("note" if replication.waits else "problem", what, IN_STEP_TODO)
    if not replication.waits:
        return
    names = replication.standby_names
    if not replication.may_see:
        what = f"{replication.role} may not see whether a standby of {names} is synchronous"
        yield seen("note", what, f"GRANT pg_read_all_stats TO {replication.role}")
    elif len(asynchronous) == len(standbys):
        what = f"no standby of synchronous_standby_names ({names}) is there: COMMIT waits for it"
        yield seen("problem", what, "bring it back, or empty synchronous_standby_names")
    else:
        yield seen("ok", f"COMMIT waits for a standby of {names}: a failover to it loses nothing")
    if replication.commit == "remote_write":
        what = "a standby answers before its disk has it (synchronous_commit is remote_write)"
        yield seen("note", f"{what}: a crash of both machines can lose answered work")


def _record(settings: Settings) -> Iterator[Diagnosis]:
    place = ledger_place(settings)
    with open_record(place) as view:
        yield from _end_of(view)
        yield from _quarantine_problems(view)
        yield from _went_back(view)
    file = file_of(place)
    if file is not None:
        yield Diagnosis("record", "ok", f"{file} has {file.stat().st_size / (1 << 20):.0f} MiB")


def _end_of(view: LedgerView) -> Iterator[Diagnosis]:
    verification = audit_since(view, mark_before_last(view, ROWS_LOOKED_AT)).verification
    if verification.ok:
        size = view.head().ec_sequence_number
        what = f"the last {verification.rows} of {size} rows, their tiles and the schema verify"
        yield Diagnosis("record", "ok", what)
    for finding in verification.findings:
        what = f"{finding.table} {finding.key}: {finding.rule}: {finding.message}"
        yield Diagnosis("record", "problem", what, TODO.get(finding.rule, TODO_VERIFY))


def _archive(settings: Settings) -> Iterator[Diagnosis]:
    where, days = printable_archive(ledger_place(settings)), settings.kernel_retention_days
    if where is None:
        yield Diagnosis("archive", "note", NO_ARCHIVE, NAME_ARCHIVE)
    elif not days:
        todo = "set ROTULUS_KERNEL_RETENTION_DAYS, or `rotulus archive run --older-than 90d`"
        yield Diagnosis("archive", "note", "nothing is moved there by itself", todo)
    else:
        what = f"rows of the log older than {days} days go to {where}"
        yield Diagnosis("archive", "ok", what)


def _quarantine_problems(view: LedgerView) -> Iterator[Diagnosis]:
    for each in view.quarantines().standing:
        rows = ", ".join(map(str, each.ranges))
        named = [f"{rows} of the log: quarantined"] if rows else []
        named += [f"{', '.join(map(str, each.records))}: damaged"] if each.records else []
        what = f"{'; '.join(named)} since {each.found_at}: {each.finding}"
        lift = command_line(
            "rotulus",
            "quarantine",
            "lift",
            operands=[each.quarantine_id],
            options=["--reason", "TEXT", "--authority", "NAME"],
        )
        todo = f"`rotulus verify`, mend or explain it, then `{lift}`"
        yield Diagnosis("record", "problem", what, todo)


def _went_back(view: LedgerView) -> Iterator[Diagnosis]:
    standing = {each["finding_id"]: each for each in standing_findings(view)}
    for each in standing.values():
        known, there = (each[name]["ec_sequence_number"] for name in ("known", "found"))
        what = f"the ledger went back: {each['gateway']} knew {known} rows and found {there}"
        accept = "`rotulus ledger accept-head --reason TEXT --authority NAME`"
        todo = f"`rotulus ledger lost`; then the right database, or {accept}"
        yield Diagnosis("record", "problem", what, todo)


def _keys(settings: Settings) -> Iterator[Diagnosis]:
    path = settings.seal_key
    if path is None:
        yield Diagnosis(
            "keys",
            "note",
            "seals of sessions and rounds are not signed",
            "`rotulus thought key FILE --name NAME`, and ROTULUS_SEAL_KEY",
        )
        return
    keys = seal_keys(path)
    names = ", ".join(f"{key.name} ({key.kind.name})" for key in keys)
    yield Diagnosis("keys", "ok", f"{path} signs seals as {names}")
    if path.absolute().is_relative_to(DataFolder(settings.data_dir).path):
        yield Diagnosis("keys", "note", f"{path} is in the data folder", "move it out of backups")


def _log_keys(settings: Settings) -> Iterator[Diagnosis]:
    path = settings.checkpoint_key
    if path is None:
        todo = "`rotulus checkpoint key FILE --origin ORIGIN`, and ROTULUS_CHECKPOINT_KEY"
        yield Diagnosis("log keys", "note", "the log is not signed, so nobody holds it", todo)
        return
    names = ", ".join(f"{key.verifier.name} ({key.verifier.kind.name})" for key in keys_in(path))
    if is_handed_over(path):
        what, todo = f"{path} has handed the log over", "set ROTULUS_CHECKPOINT_KEY to the new keys"
        yield Diagnosis("log keys", "problem", what, todo)
        return
    signed = last_signed_size(path)
    what = f"{path} signs the log as {names}, last {signed} rows of it"
    yield Diagnosis("log keys", "ok", what)
    if path.absolute().is_relative_to(DataFolder(settings.data_dir).path):
        todo = "move it out: a backup that is put back brings what was signed with it"
        yield Diagnosis("log keys", "note", f"{path} is in the data folder", todo)


_CHECKS: Mapping[str, Callable[[Settings], Iterator[Diagnosis]]] = {
    "machine": _machine,
    "folder": _folder,
    "disk": _disk,
    "database": _database,
    "standbys": _standbys,
    "record": _record,
    "archive": _archive,
    "keys": _keys,
    "log keys": _log_keys,
}
"""By the subject, in the order in which they are told."""
