"""Lists the typed stores in which two writes are compared, and says why in the others none is."""

from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Table

from kernel.ledger import schema
from kernel.records import bindings, edges, extraction, memberships, nodes, share_links
from kernel.records.comparison import Comparison
from kernel.records.court_dispositions import CASE_EVENTS, OBSERVATIONS, RULINGS
from kernel.records.filing_relationships import RELATIONSHIPS
from kernel.records.filings import TEXT_VERSIONS, UNITS, VERSIONS
from kernel.records.materializations import ARTIFACTS, MATERIALIZATIONS
from kernel.records.topics import ASSIGNMENTS

_TYPED = (
    *(UNITS, VERSIONS, TEXT_VERSIONS, RELATIONSHIPS),
    *(RULINGS, OBSERVATIONS, CASE_EVENTS, ASSIGNMENTS),
    *(ARTIFACTS, MATERIALIZATIONS),
)

COMPARED: Mapping[Table, Comparison] = MappingProxyType(
    {
        schema.nodes: nodes.COMPARISON,
        schema.edges: edges.COMPARISON,
        schema.corpus_membership_records: memberships.COMPARISON,
        schema.binding_generation_snapshots: bindings.COMPARISON,
        schema.extraction_attempts: extraction.COMPARISON,
        schema.share_links: share_links.COMPARISON,
        **{store.table: store.comparison for store in _TYPED},
    }
)
"""How two writes of a record that had not seen each other are held together (§15.5)."""

FOLLOWS: Mapping[Table, str] = MappingProxyType(
    {
        schema.policy_snapshots: "whoever writes a generation names the one in force (V5)",
        schema.derived_indexes: "an index is computed again from what it is an index of (§4.3.5)",
        schema.materialized_views: "a view is computed again from what it shows (§4.3.6)",
        schema.membership_state_transitions: "it repeats a change of a membership",
        schema.recorded_model_outputs: "an output is what its content says, whoever names it",
    }
)
"""Why nobody's word stands against another's in the other stores."""
