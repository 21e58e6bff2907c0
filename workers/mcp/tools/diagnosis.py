"""Diagnoses a runtime for a model: what needs somebody, by its record and its gateway."""

from typing import ClassVar

import orjson

from kernel.audit.open_reviews import count_open_reviews
from kernel.records.access.readable_view import ReadableView
from kernel.work.pauses import pauses_of
from workers.client.errors import GatewayError
from workers.environment.system_host import system_host
from workers.mcp.answers import dump_answer
from workers.mcp.errors import error_document
from workers.mcp.tool import Document, Tool, ToolContext
from workers.mcp.tools.queues import requests_summary
from workers.views import landscape
from workers.views.attention_facts import AttentionFacts, record_facts
from workers.views.attention_items import AttentionItem
from workers.views.attention_rules import attention_items
from workers.views.implications import implications_document
from workers.views.log_proofs import tree_head
from workers.views.quarantines import quarantines_document
from workers.views.records import count_requests

HALTS_SHOWN_MAX = 20


class Diagnose(Tool):
    """Scan for what is wrong: what needs somebody, the most urgent first, and what to do.

    Begin here. Without a gateway it is the record's alone: pauses, halts, damage, reviews, runs.
    """

    action: ClassVar[str] = "read.fleet"

    async def result(self, context: ToolContext) -> Document:
        """Return what the record says, and what the gateway says where there is one."""
        now_us = system_host().now_us()
        record, items = await context.read(lambda view: _read_record(view, now_us))
        try:
            state = await context.gateway_state()
        except GatewayError as error:
            about = f"no gateway answers ({error.code}); {requests_summary(record['requests'])}"
            gateway = error_document(error)
        else:
            items = state.pop("attention")
            about, gateway = requests_summary(record["requests"]), state
        return {
            "summary": f"{len(items)} things need somebody; {about}",
            "attention": items,
            "record": record,
            "gateway": gateway,
        }


def _read_record(view: ReadableView, now_us: int) -> tuple[Document, list[AttentionItem]]:
    items = attention_items(AttentionFacts(record=record_facts(view, now_us)))
    return _record_document(view, now_us), items


def _record_document(view: ReadableView, now_us: int) -> Document:
    recorded = {
        "tree_head": tree_head(view.log_tree()),
        "requests": count_requests(view),
        "pauses": pauses_of(view),
        "quarantines": quarantines_document(view)["quarantines"],
        "ledger_went_back": view.finding_stands(),
        "halts": implications_document(view, limit=HALTS_SHOWN_MAX)["halts"],
        "reviews": count_open_reviews(view),
        "runs": landscape.diagnose(view, now_us),
    }
    document: Document = orjson.loads(dump_answer(recorded))
    return document
