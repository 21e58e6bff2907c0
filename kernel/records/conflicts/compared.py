"""Lists the typed stores in which two writes are compared.

In the others nobody's word stands against another's. Whoever writes a generation of the policy
names the one in force (V5). A derived index and a materialized view are computed again from what
they show (§4.3.5, §4.3.6). A state transition repeats a change of a membership. A model's output is
what its content says, whoever names it.
"""

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
