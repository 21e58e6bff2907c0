"""Picks the understandings that a sweep asks for: nightly, and in a backfill (§8.2, §8.6).

Sweeps only read, a page of understandings at a time, so that no snapshot is held for long. The tick
looks at `last_decay_at` of the claims that are inputs (decision kernel/0145).
"""

from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import TypedDict

from kernel.authority.graph import is_nightly
from kernel.authority.requests import AUTHORITY_QUEUE
from kernel.authority.value import authority_of
from kernel.ledger.ledger import Document, LedgerView
from kernel.model.authority_fields import last_decay_us
from kernel.model.authority_strategy import AuthorityStrategy
from kernel.model.node_kinds import UNDERSTANDING
from kernel.values.host import iso_time, parse_time_us

BACKFILL = "migration_v15_to_v16"
"""The source of every request of the backfill (§8.6)."""

READY_SHARE = 0.99
"""More than this part of the understandings have an authority once a deployment is ready (§8.6)."""

DEFAULT_DECAY_THRESHOLD_HOURS = 7 * 24
PAGE_NODES = 1000


def tick_source(now_us: int) -> str:
    """Return the source of every request of a day's tick; a day is a day of UTC."""
    return f"authority_decay_tick:{iso_time(now_us)[:10]}"


@dataclass(frozen=True, slots=True)
class NightlyTick:
    """What is due tonight (T3, §8.5).

    That is an understanding whose newest decay event among its inputs has aged past a threshold
    since it was computed, and one that waits for the tick and is not what its inputs give.
    """

    now_us: int
    threshold_us: int
    strategy: AuthorityStrategy

    def is_due(self, view: LedgerView, node: Document) -> bool:
        """Tell whether the tick has to ask for an understanding; an open request suffices."""
        if is_nightly(node):
            stored = node["payload"].get("cu_authority")
            due = stored != authority_of(view, self.strategy, node)[0]
        else:
            due = self._has_aged(view, node)
        return due and not view.open_requests_of(AUTHORITY_QUEUE, node["node_id"])

    def _has_aged(self, view: LedgerView, node: Document) -> bool:
        sources = (view.node(edge["source_node_id"]) for edge in view.input_edges(node["node_id"]))
        events = [
            at
            for source in sources
            if source is not None
            and source["state"] == "active"
            and (at := last_decay_us(source["payload"])) is not None
        ]
        if not events:
            return False
        aged_us = max(events) + self.threshold_us
        computed = node["payload"].get("cu_authority_computed_at")
        return aged_us <= self.now_us and (computed is None or parse_time_us(computed) < aged_us)


def lacks_authority(view: LedgerView, node: Document) -> bool:
    """Tell whether an understanding has no authority and nobody has asked for one (T7)."""
    return node["payload"].get("cu_authority") is None and not view.open_requests_of(
        AUTHORITY_QUEUE, node["node_id"]
    )


def page_of(
    view: LedgerView, is_due: Callable[[LedgerView, Document], bool], after: str | None
) -> tuple[list[str], str | None]:
    """Return what is due in the next page of understandings, and where the page after it begins."""
    nodes = view.nodes_of_kind(UNDERSTANDING, after=after, limit=PAGE_NODES)
    due = [node["node_id"] for node in nodes if is_due(view, node)]
    return due, nodes[-1]["node_id"] if len(nodes) == PAGE_NODES else None


class BackfillDocument(TypedDict):
    """How far the backfill is."""

    understandings: int
    materialized: int
    requested: int
    share: float
    ready: bool


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """How far the backfill is; a deployment is ready above 99 % (§8.6)."""

    understandings: int
    materialized: int
    requested: int
    """Understandings without an authority for which a recompute was requested."""

    @property
    def ready(self) -> bool:
        """Whether the gate is passed; a ledger without understandings passes it."""
        return self.materialized > READY_SHARE * self.understandings or not self.understandings

    def plus(self, view: LedgerView, nodes: list[Document]) -> "BackfillProgress":
        """Return the progress with more understandings counted."""
        lacking = [node for node in nodes if node["payload"].get("cu_authority") is None]
        requested = sum(
            bool(view.open_requests_of(AUTHORITY_QUEUE, row["node_id"])) for row in lacking
        )
        return BackfillProgress(
            self.understandings + len(nodes),
            self.materialized + len(nodes) - len(lacking),
            self.requested + requested,
        )

    def document(self) -> BackfillDocument:
        """Return it as it leaves the process."""
        share = self.materialized / self.understandings if self.understandings else 1.0
        return {
            "understandings": self.understandings,
            "materialized": self.materialized,
            "requested": self.requested,
            "share": share,
            "ready": self.ready,
        }
