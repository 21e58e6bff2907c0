"""Runs at a glance: a page of runs, what each node of one did, and where its tokens ended.

Counts are asked of the database, along indexes; nothing here reads all records of a run.
"""

from dataclasses import dataclass

from kernel.landscape.digest import records_of
from kernel.landscape.listing import page_of
from kernel.landscape.record_counts import hold_to_total
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.landscape.reports import run_of_id
from kernel.ledger.landscape_tables import RUN_STATUSES, STATE_STATUSES
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, TableQuery

NODES_SHOWN_MAX = 100

COUNTED = ("rows", "tokens", "validation_errors", "transform_errors")


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """Some runs, the newest first, and before which start the next page is: None after the last."""

    runs: list[Row]
    next_before_us: int | None


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """A node and how many of its states are in each status."""

    node: Row
    states: dict[str, int]


@dataclass(frozen=True, slots=True)
class TokensPage:
    """Some tokens, each with its terminal outcome, None while it is on its way."""

    tokens: list[tuple[Row, Row | None]]
    next_after: str | None


def runs_page(
    view: LedgerView, *, status: str | None, before_us: int | None, limit: int
) -> RecordedRuns:
    """Return the runs that began before a time, those of a status where one is named.

    Runs that began in the same microsecond as the last of a page are on that page, too.

    Raises:
        RecordDamaged: a record breaks a rule.
    """
    where = {"status": status} if status in RUN_STATUSES else {}
    query = TableQuery(
        TABLES["runs"],
        where,
        order_by="started_at_us",
        after=before_us,
        descending=True,
        limit=limit + 1,
    )
    rows = view.tables.scan(query)
    page, last_us = rows[:limit], None
    if len(rows) > limit:
        last_us = page[-1]["started_at_us"]
        shown = {row["run_id"] for row in page}
        alike = view.tables.scan(TableQuery(TABLES["runs"], where | {"started_at_us": last_us}))
        page += [row for row in alike if row["run_id"] not in shown]
    return RecordedRuns([check_stored(TABLES["runs"], row) for row in page], last_us)


def record_counts(view: LedgerView, run_id: str) -> dict[str, int]:
    """Return how many rows, tokens and errors a run has."""
    return {
        name: view.tables.count(TableQuery(TABLES[name], {"run_id": run_id})) for name in COUNTED
    }


def node_counts(view: LedgerView, run_id: str) -> list[NodeCounts]:
    """Return the nodes of a run in the order of its pipeline, at most `NODES_SHOWN_MAX`.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: a record breaks a rule.
    """
    run_of_id(view, run_id)
    nodes = [check_stored(TABLES["nodes"], row) for row in records_of(view.tables, run_id, "nodes")]
    nodes.sort(
        key=lambda node: (node["sequence_in_pipeline"] is None, node["sequence_in_pipeline"] or 0)
    )
    counted = [NodeCounts(node, _states(view, node)) for node in nodes[:NODES_SHOWN_MAX]]
    if len(nodes) <= NODES_SHOWN_MAX:
        states = sum(sum(counts.states.values()) for counts in counted)
        hold_to_total(view, run_id, "node_states", states)
    return counted


def _states(view: LedgerView, node: Row) -> dict[str, int]:
    of_node = {"run_id": node["run_id"], "node_id": node["node_id"]}
    return {
        status: view.tables.count(TableQuery(TABLES["node_states"], {**of_node, "status": status}))
        for status in STATE_STATUSES
    }


def tokens_page(view: LedgerView, run_id: str, *, after: str | None, limit: int) -> TokensPage:
    """Return some tokens of a run in the order of their ids.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: a record breaks a rule.
    """
    page = page_of(view, run_id, "tokens", {}, after=after, limit=limit)
    ids = [token["token_id"] for token in page.records]
    rows = view.tables.scan(
        TableQuery(TABLES["token_outcomes"], {"run_id": run_id}, any_of=("token_id", ids))
    )
    stored = [check_stored(TABLES["token_outcomes"], row) for row in rows]
    outcomes = {row["token_id"]: row for row in stored if row["is_terminal"]}
    following = page.next_after
    return TokensPage(
        [(token, outcomes.get(token["token_id"])) for token in page.records],
        None if following is None else str(following),
    )
