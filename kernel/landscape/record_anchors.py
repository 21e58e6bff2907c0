"""Anchors of the chain of groups: a receipt states its newest group (seed 003, ruling L4).

Rows of the log and seals of receipts commit to receipts, so with an anchor the tree commits to
every record up to that group, of runs that go on, have failed or were interrupted as of others. A
gateway anchors when it seals receipts, and the seal of a run anchors what it seals (decision
kernel/0610).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson

from kernel.landscape.record_chain import (
    Entry,
    RecordChain,
    earlier_entries,
    has_group,
    newest_group,
)
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.store.tables import Row, TableQuery, TablesView
from kernel.model.receipt import Receipt
from kernel.values.errors import LedgerCorrupt

ANCHORED = "run_records_anchored"


class Anchor(NamedTuple):
    """What an anchor states: a group of the chain."""

    group_sequence: int
    group_hash: str

    @classmethod
    def of_receipt(cls, row: Row) -> "Anchor":
        """Return what the receipt of an anchor states.

        Raises:
            LedgerCorrupt: its bytes state no group.
        """
        try:
            stated = orjson.loads(row["receipt_bytes"])
            return cls(int(stated["group_sequence"]), str(stated["group_hash"]))
        except (ValueError, KeyError, TypeError) as error:
            message = f"receipt {row['receipt_sequence']} states no group of records"
            raise LedgerCorrupt(message) from error


def newest_anchor(view: LedgerView) -> Anchor | None:
    """Return the newest anchor, None before the first."""
    where = {"receipt_kind": ANCHORED}
    rows = view.tables.scan(TableQuery(schema.receipts, where, descending=True, limit=1))
    return Anchor.of_receipt(rows[0]) if rows else None


def count_unanchored_groups(view: LedgerView) -> int:
    """Return how many groups no anchor commits to."""
    return _behind(view, newest_group(view.tables))


def anchor_groups(transaction: LedgerTransaction) -> bool:
    """Record an anchor where groups stand behind the newest one; tell whether they did."""
    group = newest_group(transaction.tables)
    if group is None or _behind(transaction, group) <= 0:
        return False
    body = {
        "group_sequence": str(group["group_sequence"]),
        "group_hash": group["group_hash"],
    }
    transaction.next_commit_time_us()
    receipt_id = f"receipt:{transaction.host.new_id()}"
    append_receipt(transaction, receipt_id, Receipt(ANCHORED, body), None)
    return True


def _behind(view: LedgerView, group: Row | None) -> int:
    """Return how many groups stand behind the newest anchor, up to a group."""
    if group is None:
        return 0
    anchor = newest_anchor(view)
    return int(group["group_sequence"]) - (0 if anchor is None else anchor.group_sequence)


def earlier_runs(view: LedgerView) -> list[str]:
    """Return the runs without a seal that are in no group: recorded before there were groups."""
    return runs_in_no_group(view.tables)


def runs_in_no_group(tables: TablesView) -> list[str]:
    """Return the same from tables alone, as who verifies has them."""
    runs, sealed, taken_in = (
        {run_id for run_id, _ in tables.scan(TableQuery(table, columns=("run_id",), grouped=True))}
        for table in (
            schema.landscape_runs,
            schema.landscape_seals,
            schema.landscape_record_groups,
        )
    )
    return sorted(runs - sealed - taken_in)


def groups_to_take_in(view: LedgerView, run_id: str) -> tuple[dict[str, Entry], ...]:
    """Return the groups that take a run in, as it is stored; linear in its records.

    Raises:
        RecordDamaged: one breaks a rule.
    """
    return tuple(earlier_entries(view.tables, run_id))


def take_in_earlier(
    transaction: LedgerTransaction, run_id: str, groups: Iterable[Mapping[str, Entry]]
) -> bool:
    """Append the groups that take a run in; tell whether it was in none.

    Whoever writes of such a run takes it in first, so while it is in no group nothing of it has
    changed since the groups were made.
    """
    if has_group(transaction.tables, run_id):
        return False
    chain = RecordChain(transaction.tables)
    for entries in groups:
        chain.append_entries(run_id, entries)
    return True
