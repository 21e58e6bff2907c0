"""Tools to begin with: what needs somebody, and what happened lately, by the runtime's record."""

from typing import Annotated

import orjson
from pydantic import Field

from kernel.audit.costs import cost_totals
from kernel.audit.operations import AuditFilter, OperationEntryDocument, find_operations
from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.ledger import LedgerView
from kernel.ledger.quarantine import RecordKey, merged, range_of
from kernel.values.host import iso_time
from kernel.work.pauses import pauses_of
from workers.client.errors import GatewayError
from workers.environment.system_host import system_host
from workers.mcp.answers import dumped
from workers.mcp.errors import error_document
from workers.mcp.tool import Document, Tool, ToolContext
from workers.mcp.tools.queues import requests_summary
from workers.questions.costs import SUMMED_UP_MAX
from workers.views import landscape
from workers.views.attention import PARTS, attention
from workers.views.audit import CostTotalsDocument, page_document, totals_document
from workers.views.implications import implications_document
from workers.views.log_proofs import tree_head
from workers.views.quarantines import (
    damage_problems,
    quarantine_sentence,
    quarantines_document,
)
from workers.views.records import count_requests

HALTS_SHOWN_MAX = 20
MINUTES_MAX = 60 * 24 * 31
NEWEST_SHOWN = 10
LOOKED_AT_MAX = 1000
"""Rows of the log, from its end, among which the newest operations of a time are."""


class Diagnose(Tool):
    """Scan for what is wrong: a sentence for each thing that needs somebody, and what to do.

    Begin here. Without a gateway the record alone is looked at: pauses, halts, what was found
    damaged, and runs that failed, are stuck or have many errors.
    """

    async def result(self, context: ToolContext) -> Document:
        """Return what the record says, and what the gateway says where there is one."""
        now_us = system_host().now_us()
        record = await context.read(lambda view: _record_document(view, now_us))
        try:
            state = await context.gateway_state()
        except GatewayError as error:
            sentences = list(attention(_of_record(record)))
            about = f"no gateway answers ({error.code}); {requests_summary(record['requests'])}"
            gateway = error_document(error)
        else:
            sentences = list(attention(state))
            about, gateway = requests_summary(record["requests"]), state
        return {
            "summary": f"{len(sentences)} things need somebody; {about}",
            "attention": sentences,
            "record": record,
            "gateway": gateway,
        }


class GetRecentActivity(Tool):
    """Show what happened lately: operations by intent and actor, the newest of them, runs.

    `complete` says whether all of the time was summed up, or its first 10,000 operations.
    """

    minutes: Annotated[int, Field(ge=1, le=MINUTES_MAX)] = 60

    async def result(self, context: ToolContext) -> Document:
        """Return the sums and the newest operations, the newest first."""
        now_us = system_host().now_us()
        since_us = now_us - self.minutes * 60_000_000

        def read(
            view: LedgerView,
        ) -> tuple[CostTotalsDocument, list[OperationEntryDocument], landscape.ActivityDocument]:
            sums = cost_totals(view, after=0, limit=SUMMED_UP_MAX, from_us=since_us, before_us=None)
            first = max(0, view.head().ec_sequence_number - LOOKED_AT_MAX)
            page = find_operations(
                view, AuditFilter(from_us=since_us), after=first, limit=LOOKED_AT_MAX
            )
            newest = page_document(page)["operations"][-NEWEST_SHOWN:]
            runs = landscape.recent_activity(view, now_us, minutes=self.minutes)
            return totals_document(sums.totals, sums.next_after, sums.left_out), newest[::-1], runs

        totals, newest, runs = await context.read(read)
        count = sum(total["operations"] for total in totals["totals"])
        return {
            "summary": f"{count} operations since {iso_time(since_us)}",
            "by_intent": totals["totals"],
            "complete": totals["next_after"] is None,
            "newest": newest,
            "runs": runs,
        }


def _record_document(view: LedgerView, now_us: int) -> Document:
    recorded = {
        "tree_head": tree_head(view.log_tree()),
        "requests": count_requests(view),
        "pauses": pauses_of(view),
        "quarantines": quarantines_document(view)["quarantines"],
        "ledger_went_back": view.finding_stands(),
        "halts": implications_document(view, limit=HALTS_SHOWN_MAX)["halts"],
        "runs": landscape.diagnose(view, now_us),
    }
    document: Document = orjson.loads(dumped(recorded))
    return document


def _of_record(record: Document) -> Document:
    """Return the parts of a state that the record knows, of the others nothing."""
    known: Document = {
        "queues": {"pauses": record["pauses"]},
        "implications": {"halts": record["halts"]},
        "runs": record["runs"],
    }
    standing = record["quarantines"]
    ranges = merged(range_of(rows) for each in standing for rows in each["ranges"])
    problems = damage_problems({RecordKey(**key) for each in standing for key in each["records"]})
    if ranges:
        problems["quarantine"] = quarantine_sentence(ranges)
    if record["ledger_went_back"]:
        problems["ledger_went_back"] = str(LedgerWentBack("finding_stands"))
    known["readiness"] = {"problems": problems}
    return {name: known.get(name, {}) for name in ("readiness", *PARTS)}
