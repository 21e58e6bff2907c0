"""`make tamper`: what verification finds of every change to the tables, as the table of its README.

What it writes is `kernel/verify/REFERENCE.md`; a test fails when that file says anything else. An
honest ledger with rows in every table is changed in one place, verified, and thrown away.
"""

# ruff: noqa: E501
# A paragraph of the file that is written here is one line.

import itertools
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Column, LargeBinary, Table, UniqueConstraint

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.tiles import TILE_WIDTH
from kernel.retention.archival import Retention
from tests.chains_doc import chains_table
from tests.kernel.archives import archive_next, collect_next
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.honest import think, write_briefly
from tests.kernel.tampering import Copy, flipped, key_of
from tests.owner_doc import owner_table
from tests.turned_bytes import sentence
from workers.environment.ledger_access import archive_of
from workers.use_cases.log_archiving import archive_steps

HEAD = """# verify

This folder computes the record again from its stored bytes and trusts none of them.

It imports what the kernel may import below `verify`.

The levels and their order stand at the head of `__init__.py`. Rows are read with their surroundings, 64 at once, and many are folded in one transaction. `rotulus verify` lets further processes walk a long log while it folds it itself; what is found, and its order, does not depend on how many they are (decision kernel/0260).

## What is found

Each cell stands for one change to an honest ledger in a SQLite file, made past the program while the schema stays as it is. The cell says what the first finding of a verification names: **row**, the changed row; a **table**, where another row misses or contradicts the changed one; **no**, nothing, for the reason below the table. A dash stands for a change that cannot be made (a key that every row shares, a single row). `make tamper` makes every change and writes this file; a test compares.
"""

TAIL = f"""
## What else is found

- The schema: each table, column, constraint, index and trigger (`tests/contract/test_catalog.py`, for SQLite and PostgreSQL).
- Indexes: a row that an index lacks or holds differently (`PRAGMA integrity_check`; in PostgreSQL the extension amcheck, where it is installed).
- Runs: every column of every record of a run, finished or not, records that are gone, are new or belong to no run, and the groups that state them (`tests/kernel/landscape/test_record_groups.py`); of a run that has a seal also by the seal (`test_run_seals.py`); payloads that are not what their hash says. When the payloads of a run went (`payloads_purged_at_us`) is in no digest. A run from before there were groups is in none until a gateway starts or somebody writes of it; until then its records are held to the rules of their tables by whoever reads them.
- Bytes: one flipped bit in any byte of a SQLite file gives a finding, or changes nothing that is read (`tests/kernel/test_bytes.py` flips a sample, `make tamper ARGS=--bytes` the bytes that this line counts). {sentence()}
- Only within bounds: `idempotency_records.expires_at_us`, where it is moved by other than whole hours (the window is a setting of the gateway that answered); `idempotency_records.archived`, except in a record that expired and has no successor; and the clocks named above.
- Damage: a file that was cut, emptied or zeroed, or is no database; a write-ahead log that does not fit or is damaged (`tests/kernel/test_damage.py`).

## What is found only by something that was kept

Whoever owns the file and runs the program on it makes a record that is sound by itself. Each row is such an adversary, each cell the rule of the first finding. The heads were kept elsewhere, of a log of 9 operations of which the fifth is changed, the older one at the fourth: for `rotulus verify --expect-head` and `--since`; a checkpoint and a witness keep a tree head with a signature, so they reveal what the last column reveals. A head from before the change reveals nothing, and no head reveals what was added behind it.

{owner_table()}

Here one thing is changed that a chain holds, and the chain is computed anew from there to its end. In the second column the log stays as it was; in the others all that follows is computed anew as well, with its rows and the tree. The checkpoint was kept elsewhere, or cosigned, when the gateway stopped, or as the next one behind what was changed; the older head is of before it.

{chains_table()}

What a job of a plug-in answered, and what was refused, is under the tree with the next operation, and else with the seal of the receipts that follows within `ROTULUS_RECEIPTS_SEAL_S` seconds, before a checkpoint and at a stop (decision kernel/0570). `rotulus status` and `rotulus verify` say how many receipts are not under it yet. Where a gateway is killed they are under it once the next one has looked. The records of a run, whether it goes on, has failed, was interrupted or is completed, are under it with the receipt that states their newest group, which is written at the same times, and when a pipeline that runs without a gateway ends (decision kernel/0610). What a kept head commits to of an open state, batch or operation, or of the run itself, are the columns that stay, and what the others held then.

Verification does not look at who owns tables and may read them, at the planner's statistics, or at other tables in a PostgreSQL schema.
"""

BESIDE = (
    "The table says who may write and not what was decided; no row of the record commits to it."
)
TRIED = "The table says what was tried in vain and not what was decided; no row of the record commits to it."
REASONS: dict[tuple[str, str], str] = {
    (
        "shard_epochs",
        "*",
    ): f"{BESIDE} A raised epoch stops the shard's owner, which takes the shard anew. An epoch lowered to that of an earlier owner lets that one write instead of the present one, behind the same lock and onto the same chains.",
    (
        "mailbox_offsets",
        "*",
    ): f"{BESIDE} Where it is turned back, entries are taken again and answered by their keys; where it is turned forward, their senders get no answer and send again.",
    (
        "request_failures",
        "*",
    ): f"{TRIED} A request is tried sooner, later or more often for it, and has one outcome all the same.",
    (
        "request_attempts",
        "*",
    ): "The table says what was tried and not what was decided; no row of the record commits to it.",
    (
        "chart_blocks",
        "*",
    ): "The table says what a gateway counted for its charts and not what was decided; no row of the record commits to it.",
    (
        "gateway_keys",
        "*",
    ): f"{BESIDE} A gateway whose row was changed records it anew and is given the mail's key again; whoever puts in a row of its own may write the ledger, and has the mail's key from then on.",
    (
        "ledger_ids",
        "*",
    ): f"{BESIDE} Under another id, Redis and folders that are marked with the ledger's are refused as another ledger's.",
    (
        "chain_head",
        "committed_at_us",
    ): "A clock that may be ahead of everything recorded, because requests move it too. It is found where it is behind.",
    (
        "idempotency_records",
        "expires_at_us",
    ): "The window is a setting of the gateway that answered. It is found where it is not whole hours after the submission.",
    (
        "idempotency_records",
        "archived",
    ): "A record that expired and has no successor answers nobody, archived or not.",
    (
        "belief_sessions",
        "updated_at_us",
    ): "A clock that orders lists. It is found where it is later than the session's newest anchor.",
    ("belief_snapshots", "row"): "A snapshot may be gone, because the events hold the same.",
    (
        "ephemeral_receipts",
        "row",
    ): "A receipt may be gone after its time. One of a replay, or with a preview's content, may be gone at any time, because no operation emits it.",
}
"""Why a change is not found, by table and by column; `row` where whole rows are gone or new."""

ARCHIVED = (schema.archived_rows, schema.archive_segments)
"""Tables that have rows where rows of the log lie in the archive."""

HOWS = ("changed", "emptied", "swapped")
ROW_HOWS = ("deleted", "inserted", "swapped")


def honest_file(path: Path) -> Path:
    """Write the honest ledger and return its path."""
    host = FakeHost()
    ledger = Ledger.create(SqliteStore(path), host.host)
    write_briefly(ledger, host)
    with ledger.transaction() as transaction:
        _found_gateways(transaction.tables)
    ledger.close()
    return path


def _found_gateways(tables: Any) -> None:
    """Add the rows that gateways which share a ledger keep beside it."""
    for shard in range(3):
        row = {"shard": shard, "epoch": 2 + shard, "owner": f"g-{shard}", "acquired_at_us": shard}
        tables.insert(schema.shard_epochs, row)
        offset = {"session_id": f"s-{shard}", "mailbox_id": f"m-{shard}"}
        tables.insert(schema.mailbox_offsets, offset | {"consumed_to": f"{shard}-0"})
        key = {"gateway": f"g-{shard}", "public_key": bytes([shard]) * 32}
        tables.insert(schema.gateway_keys, key | {"key_number": 1, "sealed_key": b"sealed"})
        tables.insert(schema.ledger_ids, {"ledger_id": f"id-{shard}"})
        block = {"sample_s": 1, "slot": shard, "part": 0, "began_s": shard}
        tables.insert(schema.chart_blocks, block | {"samples": b"counted"})
        _fail(tables, f"request:{shard}", shard)


def _fail(tables: Any, request_id: str, number: int) -> None:
    """Add what is kept of an attempt that failed."""
    counted = ("deliveries", "failures", "snoozes", "worker_ends", "attempts", "request_sequence")
    times = ("first_started_at_us", "next_attempt_at_us")
    row: dict[str, Any] = dict.fromkeys((*counted, *times), number)
    names = ("queue", "error_signature", "last_claim", "policy_version")
    row |= {name: f"{name}-{number}" for name in names}
    tables.insert(schema.request_failures, {"request_id": request_id, "waits": 1, **row})
    attempt = {"request_id": request_id, "attempt_number": 1}
    tables.insert(schema.request_attempts, attempt | {"attempt_bytes": b"{}"})


def _write_tiles(path: Path, *, archived: bool) -> None:
    """Write a ledger that is long enough for a full tile, or for two that lie in the archive."""
    host = FakeHost()
    ledger = Ledger.create(SqliteStore(path), host.host, archive_of(path))
    for number in range(TILE_WIDTH * (2 if archived else 1) + 1):
        submit(ledger, create(f"n-{number}", "Note"))
    while archived and archive_next(ledger):
        collect_next(ledger, host)
    ledger.close()


def _write_cold(path: Path) -> None:
    """Write a ledger with two sessions of thoughts that lie in the archive."""
    ledger = Ledger.create(SqliteStore(path), FakeHost().host, archive_of(path))
    think(ledger)
    for _ in archive_steps(ledger, Retention(rounds_kept=0, rounds_warm=0)):
        pass
    ledger.close()


class Impossible(Exception):
    """There are not two rows, or not two values, for this change."""


class Tampering:
    """One honest ledger, changed in one place at a time."""

    def __init__(self, honest: Path, folder: Path) -> None:
        self._honest = honest
        self._folder = folder
        self._path = folder / "tampered.db"

    def outcome(self, table: Table, change: Callable[[Copy], Iterable[dict[str, Any]]]) -> str:
        """Make a change and return what the first finding names."""
        shutil.copy(self._with_rows_of(table), self._path)
        copy = Copy(self._path)
        try:
            rows = list(change(copy))
        except (Impossible, sqlite3.IntegrityError):
            copy.db.close()
            return "–"
        findings = copy.verify(limit_findings=1).findings
        if not findings:
            return "no"
        keys = {key_of(table, row) for row in rows}
        named = {findings[0].key, *(key for key in keys if key.startswith(f"{findings[0].key}/"))}
        return "row" if findings[0].table == table.name and keys & named else findings[0].table

    def _with_rows_of(self, table: Table) -> Path:
        """Return an honest file in which a table has rows."""
        if table is schema.thought_segments:
            path = self._folder / "cold.db"
            if not path.exists():
                _write_cold(path)
            return path
        if table not in (schema.tree_tiles, *ARCHIVED):
            return self._honest
        archived = table in ARCHIVED
        path = self._folder / ("archived.db" if archived else "long.db")
        if not path.exists():
            _write_tiles(path, archived=archived)
        return path


def _changed(column: Column[Any], held: Any) -> Any:
    if isinstance(held, bytes):
        return flipped(held) if held else b"x"
    return held + 1000 if isinstance(held, int) else f"{held or ''}x"


def _emptied(column: Column[Any], held: Any) -> Any:
    empty: Any = None
    if not column.nullable:
        empty = b"" if isinstance(column.type, LargeBinary) else 0 if isinstance(held, int) else ""
    if held == empty:
        raise Impossible
    return empty


def of_column(
    table: Table, column: Column[Any], how: str
) -> Callable[[Copy], Iterator[dict[str, Any]]]:
    """Return the change of one column of one row, or of two that change places."""
    name = column.name

    def change(copy: Copy) -> Iterator[dict[str, Any]]:
        if how != "swapped":
            row, value = _otherwise(copy, table, column, how)
            copy.set(table, row, **{name: value})
            yield from (row, {**row, name: value})
            return
        other_names = [other.name for other in table.columns if other is not column]
        rows = copy.rows(table)
        pair = next(
            (
                (row, other)
                for row, other in itertools.pairwise(rows)
                # Where all else is the same, two rows that change a value change nothing.
                if row[name] != other[name]
                and [row[n] for n in other_names] != [other[n] for n in other_names]
                and _keep_their_keys_apart(table, rows, row, other, name)
            ),
            None,
        )
        if pair is None:
            raise Impossible
        exchanged, neighbour = pair
        values = {exchanged["place"]: neighbour[name], neighbour["place"]: exchanged[name]}
        aside = {int: -1, bytes: b"aside"}.get(type(exchanged[name]), "aside")
        copy.set(table, exchanged, **{name: aside})
        if (
            copy.run("SELECT 1 FROM", table.name, f"WHERE rowid = {exchanged['place']}").fetchone()
            is None
        ):
            exchanged = exchanged | {"place": aside}
        copy.set(table, neighbour, **{name: values[pair[1]["place"]]})
        copy.set(table, exchanged, **{name: values[pair[0]["place"]]})
        yield from (exchanged, neighbour)

    return change


def _otherwise(
    copy: Copy, table: Table, column: Column[Any], how: str
) -> tuple[dict[str, Any], Any]:
    """Return a row whose column can be changed so, and the value that it is changed to."""
    other = _changed if how == "changed" else _emptied
    for row in (copy.a_row(table), *copy.rows(table)):
        with suppress(Impossible):
            return row, other(column, row[column.name])
    raise Impossible


def _keep_their_keys_apart(
    table: Table,
    rows: list[dict[str, Any]],
    row: dict[str, Any],
    other: dict[str, Any],
    name: str,
) -> bool:
    """Tell whether two rows may exchange a value without having the key of a third."""
    constraints = [
        table.primary_key,
        *(held for held in table.constraints if isinstance(held, UniqueConstraint)),
    ]
    keys = [[column.name for column in held.columns] for held in constraints]
    changed = ({**row, name: other[name]}, {**other, name: row[name]})
    thirds = [third for third in rows if third is not row and third is not other]
    return not any(
        [new[part] for part in key] == [third[part] for part in key]
        for key in keys
        if name in key
        for new in changed
        for third in thirds
    )


def of_row(table: Table, how: str) -> Callable[[Copy], Iterator[dict[str, Any]]]:
    def change(copy: Copy) -> Iterator[dict[str, Any]]:
        row = copy.a_row(table)
        if how == "deleted":
            copy.delete(table, row)
            yield row
        elif how == "inserted":
            new = _unlike(table, copy.rows(table), row)
            copy.insert(table, new)
            yield new
        else:
            yield from _exchange(copy, table)

    return change


def _unlike(table: Table, rows: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    """Return a row like another, with keys and unique values that nobody has."""
    unique = {column.name for column in table.primary_key.columns}
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            unique |= {column.name for column in constraint.columns}
    new = dict(row)
    for name in unique:
        last = max((row[name] for row in rows if row[name] is not None), default=0)
        new[name] = last + 1 if isinstance(row[name], int) else f"{row[name]}x"
    return new


def _exchange(copy: Copy, table: Table) -> Iterator[dict[str, Any]]:
    """Let two rows change places: each keeps its key and takes all else of the other."""
    rows = copy.rows(table)
    keys = {column.name for column in table.primary_key.columns} | {"place"}
    for row, other in itertools.pairwise(rows):
        ours = {name: value for name, value in row.items() if name not in keys}
        theirs = {name: value for name, value in other.items() if name not in keys}
        if ours == theirs:
            continue
        copy.delete(table, other)
        copy.set(table, row, **theirs)
        copy.insert(table, {**other, **ours})
        yield from (row, other)
        return
    raise Impossible


def rows_of_the_file(
    tampering: Tampering, *, in_turn: bool = False
) -> Iterator[tuple[str, str, list[str | None]]]:
    """Yield table, column (`row` for whole rows) and outcomes.

    Args:
        tampering: the honest file.
        in_turn: change the rows of each table in one way only, and every twelfth column in one,
            the next one in another; the outcomes of the other ways are None.
    """
    row_turns = itertools.cycle(ROW_HOWS)
    turns = itertools.cycle(how for each in HOWS for how in (each, *[None] * 11))
    for table in schema.metadata.sorted_tables:
        if table.name.startswith("landscape_"):
            continue
        row_ways = {next(row_turns)} if in_turn else ROW_HOWS
        rows = [
            tampering.outcome(table, of_row(table, how)) if how in row_ways else None
            for how in ROW_HOWS
        ]
        yield table.name, "row", rows
        for column in table.columns:
            ways = {next(turns)} if in_turn else HOWS
            outcomes = [
                tampering.outcome(table, of_column(table, column, how)) if how in ways else None
                for how in HOWS
            ]
            yield table.name, column.name, outcomes


def text(folder: Path) -> str:
    """Make every change and return the file."""
    tampering = Tampering(honest_file(folder / "honest.db"), folder)
    lines = [
        "| Table | Column | Changed | Emptied | Swapped with another row's |",
        "|---|---|---|---|---|",
    ]
    whole = ["| Table | Row deleted | Row inserted | Two rows swapped |", "|---|---|---|---|"]
    reasons: list[str] = []
    for table, column, outcomes in rows_of_the_file(tampering):
        cells = [str(outcome) for outcome in outcomes]
        if column == "row":
            whole.append(f"| `{table}` | {' | '.join(cells)} |")
        else:
            lines.append(f"| `{table}` | `{column}` | {' | '.join(cells)} |")
        reasons += _reasons(table, column, cells)
    reasons_given = ["Not found, and why:", "", *dict.fromkeys(reasons)]
    return "\n".join([HEAD, *whole, "", *lines, "", *reasons_given, TAIL])


def _reasons(table: str, column: str, cells: list[str]) -> list[str]:
    if "no" not in cells:
        return []
    for place in ((table, column), (table, "*")):
        if place in REASONS:
            name = table if place[1] in ("*", "row") else f"{table}.{column}"
            return [f"- `{name}`: {REASONS[place]}"]
    return [f"- `{table}.{column}`: **no reason is known**"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        sys.stdout.write(text(Path(made)))
