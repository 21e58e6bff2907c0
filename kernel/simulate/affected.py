"""Which nodes an operation would touch, and what was read to say so (§11.5 steps 2 and 3).

A preview shows records, so the class of every node that it shows is part of its taint, whether or
not the operation named it as a source: nobody reads a sealed node by simulating a change of it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kernel.ledger.ledger import LedgerView
from kernel.ledger.simulations import simulation_of
from kernel.model.simulation import RecordChange, SimulationPrediction
from kernel.simulate.dry_run import DryRun
from kernel.sources import SourceClasses, classes_of
from kernel.visibility import VISIBILITY_CLASSES, max_visibility_class

_NODES_OF_RECORD: Mapping[str, Callable[[dict[str, Any]], tuple[Any, ...]]] = MappingProxyType(
    {
        "nodes": lambda record: (record["node_id"],),
        "edges": lambda record: (record["source_node_id"], record["target_node_id"]),
        "corpus_membership_records": lambda record: (record["node_id"], record["corpus_id"]),
        "topic_assignments": lambda record: (
            record["payload"].get("node_id"),
            record["payload"].get("topic_id"),
        ),
        "derived_indexes": lambda record: (record["target_ref"],),
        "binding_generation_snapshots": lambda record: (record["binding_id"],),
        "extraction_attempts": lambda record: (record["extraction_run_id"],),
    }
)
"""What a record speaks of; one of another store speaks of itself."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a simulation was made of."""

    refs: tuple[str, ...]
    taint: tuple[str, ...]
    """One class for each source touched (K7)."""

    upstream_operation_ids: tuple[str, ...]
    """Simulations among the sources, which caused this one (§11.9)."""

    @property
    def resolved(self) -> str:
        """The most restrictive class; the least where nothing was touched."""
        return max_visibility_class(self.taint)


def affected_node_refs(changes: Iterable[RecordChange]) -> tuple[str, ...]:
    """Return the nodes that would change, in the order in which they would."""
    found: dict[str, None] = {}
    for change in changes:
        record = change.after or change.before
        of_record = _NODES_OF_RECORD.get(change.store)
        refs = (change.record_key,) if of_record is None or not record else of_record(record)
        found.update(dict.fromkeys(ref for ref in refs if isinstance(ref, str)))
    return tuple(found)


def sources_of(
    view: LedgerView,
    run: DryRun,
    affected: tuple[str, ...],
    prediction: SimulationPrediction | None,
) -> Sources:
    """Return everything that the preview says something of, and how restricted it is."""
    stated = {}
    if run.envelope is not None:
        stated = {source.ref: visibility for source, visibility in classes_of(view, run.envelope)}
    shown = SourceClasses(view)
    shown_nodes = {ref: shown.of_ref(ref) for ref in affected if view.node(ref) is not None}
    refs = [*{**stated, **shown_nodes}]
    classes = [(shown_nodes | stated)[ref] for ref in refs]
    further = _classes_shown(run.changes)
    if run.envelope is not None:
        further += run.envelope.source_visibility_taint
        further.append(run.envelope.resolved_output_visibility_class)
    if prediction is not None:
        for one in prediction.recorded_model_outputs:
            further += [*one.source_visibility_taint, one.resolved_output_visibility_class]
    classes += [one for one in dict.fromkeys(further) if one not in classes]
    simulations = (simulation_of(view, ref) for ref in refs)
    upstream = [one.operation_id for one in simulations if one is not None and one.operation_id]
    taint = tuple(one for one in classes if one in VISIBILITY_CLASSES)
    return Sources(tuple(refs), taint, tuple(dict.fromkeys(upstream)))


def _classes_shown(changes: Iterable[RecordChange]) -> list[Any]:
    """Classes that the operation itself would give to what it writes."""
    after = (change.after for change in changes)
    return [one["visibility_class"] for one in after if one and "visibility_class" in one]
