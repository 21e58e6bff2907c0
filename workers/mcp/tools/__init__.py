"""The table of tools: each name, and the class whose fields are its arguments."""

from collections.abc import Mapping
from types import MappingProxyType

from workers.mcp.question_tools import tool_of
from workers.mcp.tool import Tool
from workers.mcp.tools import diagnosis, explanations, query, queues, thoughts
from workers.questions.catalogue import QUESTIONS

NO_TOOLS = frozenset(
    {
        "list_requests",
        "get_reviewed_batch",
        "get_thought_session",
        "prove_thought",
        "list_quarantines",
        "list_legal_holds",
        "list_lost",
        "get_shards",
    }
)
"""Questions without a tool: each tool costs a model's reading, and others tell of these."""

TOOLS: Mapping[str, type[Tool]] = MappingProxyType(
    {
        "diagnose": diagnosis.Diagnose,
        "get_recent_activity": diagnosis.GetRecentActivity,
        "get_queues": queues.GetQueues,
        "get_request": queues.GetRequest,
        **{name: tool_of(question) for name, question in QUESTIONS.items() if name not in NO_TOOLS},
        "explain_token": explanations.ExplainToken,
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
