"""The table of tools: each name, and the class whose fields are its arguments."""

from collections.abc import Mapping
from types import MappingProxyType

from workers.mcp.tool import Tool
from workers.mcp.tools import (
    audit,
    bindings,
    diagnosis,
    proofs,
    query,
    queues,
    records,
    sessions,
    thoughts,
)

TOOLS: Mapping[str, type[Tool]] = MappingProxyType(
    {
        "diagnose": diagnosis.Diagnose,
        "get_recent_activity": diagnosis.GetRecentActivity,
        "get_queues": queues.GetQueues,
        "get_request": queues.GetRequest,
        "list_dead_letters": queues.ListDeadLetters,
        "find_operations": audit.FindOperations,
        "get_ancestors": audit.GetAncestors,
        "preview_rollback": audit.PreviewRollback,
        "explain_authority": audit.ExplainAuthority,
        "list_adjudications": audit.ListAdjudications,
        "list_reviews": audit.ListReviews,
        "list_costs": audit.ListCosts,
        "sum_costs": audit.SumCosts,
        "get_operation": records.GetOperation,
        "get_node": records.GetNode,
        "list_log": records.ListLog,
        "list_extractions": records.ListExtractions,
        "get_extraction": records.GetExtraction,
        "get_source_fields": records.GetSourceFields,
        "list_sessions": sessions.ListSessions,
        "get_session": sessions.GetSession,
        "list_session_events": sessions.ListSessionEvents,
        "list_bindings": bindings.ListBindings,
        "get_binding": bindings.GetBinding,
        "list_manifests": bindings.ListManifests,
        "get_implications": bindings.GetImplications,
        "get_tree_head": proofs.GetTreeHead,
        "prove_inclusion": proofs.ProveInclusion,
        "prove_consistency": proofs.ProveConsistency,
        "list_thoughts": thoughts.ListThoughts,
        "list_rounds": thoughts.ListRounds,
        "audit_verify_chain": thoughts.AuditVerifyChain,
        "merkle_root": thoughts.MerkleRoot,
        "merkle_verify": thoughts.MerkleVerify,
        "audit_session_start": thoughts.AuditSessionStart,
        "thought_record": thoughts.ThoughtRecordTool,
        "merkle_finalize": thoughts.MerkleFinalize,
        "audit_session_end": thoughts.AuditSessionEnd,
        "query": query.RunQuery,
        "describe_schema": query.DescribeSchema,
    }
)
