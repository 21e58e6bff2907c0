"""The table of tools: each name, and the class whose fields are its arguments."""

from collections.abc import Mapping
from types import MappingProxyType

from workers.mcp.question_tools import tool_of
from workers.mcp.tool import Tool
from workers.mcp.tools import diagnosis, query, queues, thoughts
from workers.questions.catalogue import QUESTIONS
from workers.questions.question import GatewayQuestion

NO_TOOLS = frozenset(
    {
        "get_access",
        "list_requests",
        "list_bulk_operations",
        "get_bulk_operation",
        "get_reviewed_batch",
        "get_thought_session",
        "prove_thought",
        "list_quarantines",
        "list_legal_holds",
        "list_lost",
        "get_shards",
        "list_operator_decisions",
        "get_charts",
        "list_review_decisions",
        "get_binding_activity",
        "count_requests",
        "count_reviews",
        "prove_operation",
        "prove_outcome",
        "prove_trail",
        "get_recent_runs",
        "diagnose_runs",
        "explain_lineage",
    }
)
"""Questions without a tool: each tool costs a model's reading, and others tell of these."""

BY_HAND: Mapping[str, type[Tool]] = MappingProxyType(
    {
        "diagnose": diagnosis.Diagnose,
        "get_queues": queues.GetQueueState,
        "get_request": queues.GetOpenRequest,
        "audit_verify_chain": thoughts.AuditVerifyChain,
        "merkle_verify": thoughts.MerkleVerify,
        "audit_session_start": thoughts.AuditSessionStart,
        "thought_record": thoughts.ThoughtRecordTool,
        "merkle_finalize": thoughts.MerkleFinalize,
        "audit_session_end": thoughts.AuditSessionEnd,
        "query": query.RunQuery,
        "describe_schema": query.DescribeSchema,
    }
)
"""Tools that are no questions to one snapshot."""

TOOLS: Mapping[str, type[Tool]] = MappingProxyType(
    {
        **{
            name: tool_of(question)
            for name, question in QUESTIONS.items()
            if name not in NO_TOOLS
            and name not in BY_HAND
            and not issubclass(question, GatewayQuestion)
        },
        **BY_HAND,
    }
)
