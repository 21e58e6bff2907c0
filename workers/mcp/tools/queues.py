"""Defines the tools of queues: requests on the record, what is paused or given up, who works."""

from dataclasses import asdict
from typing import ClassVar

from kernel.work.pauses import pauses_of
from kernel.work.requests import status_of
from workers.client.errors import GatewayError
from workers.mcp.errors import error_document
from workers.mcp.part_tool import PartTool
from workers.mcp.tool import Document, Tool, ToolContext, ToolRefused
from workers.questions.fields import Name
from workers.questions.gateway import GetQueues, GetWaiting
from workers.views.records import RequestCounts, count_requests


class GetQueueState(Tool):
    """Show each queue: requests on the record and how they ended, pauses, and what Redis holds.

    `queues` and `fleet` come from the gateway, the rest from the record.
    """

    action: ClassVar[str] = "read.fleet"

    async def result(self, context: ToolContext) -> Document:
        """Return the queues."""
        requests, pauses = await context.read(lambda view: (count_requests(view), pauses_of(view)))
        document: Document = {
            "summary": requests_summary(requests),
            "requests": requests,
            "pauses": pauses,
        }
        try:
            live = await context.ask(GetQueues())
        except GatewayError as error:
            return document | {"gateway": error_document(error)}
        return document | {"queues": live["queues"], "fleet": live["fleet"]}


class GetOpenRequest(PartTool):
    """Show a request for work as it stands: what was asked for, and how it ended.

    Of an open one the gateway says in a sentence why it waits.
    """

    action: ClassVar[str] = "read.producers"
    request_id: Name

    async def whole(self, context: ToolContext) -> Document:
        """Return the request, and of an open one why it waits."""
        status = await context.read(lambda view: status_of(view, self.request_id))
        if status is None:
            message = f"nobody asked for {self.request_id!r}"
            raise ToolRefused(message, code="work_request_unknown")
        document = asdict(status)
        if status.state == "open":
            document["waiting"] = await _waiting(context, status.queue, self.request_id)
        return document

    def summary(self, document: Document) -> str:
        """Return how it stands, and of which queue it is."""
        return f"{document['state']}, of {document['queue']}"


async def _waiting(context: ToolContext, queue: str, request_id: str) -> Document:
    try:
        answer: Document = await context.ask(GetWaiting(queue=queue, request_id=request_id))
    except GatewayError as error:
        return error_document(error)
    return answer


def requests_summary(requests: RequestCounts) -> str:
    """Return in a line how many requests there are and how they ended."""
    outcomes = ", ".join(f"{count} {name}" for name, count in requests["outcomes"].items())
    return f"{requests['open']} of {requests['recorded']} requests are open; {outcomes}"
