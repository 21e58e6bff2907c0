"""Names the nodes that an operation would touch, and what was read to say so (§11.5).

A preview shows records, so the class of every node that it shows is part of its taint, whether or
not the operation named it as a source: nobody reads a sealed node by simulating a change of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.schema import store_of
from kernel.ledger.simulations import simulation_of
from kernel.model.simulation import RecordChange, SimulationPrediction
from kernel.records.sources import SourceClasses, classes_of
from kernel.simulate.dry_run import DryRun
from kernel.values.visibility import VISIBILITY_CLASSES, max_visibility_class


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources from which a simulation was made, and their taint."""

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
    """Return the nodes that would change, in the order of their changes."""
    affected: dict[str, None] = {}
    for change in changes:
        record = change.after or change.before
        table = schema.STORES.get(change.store)
        store = None if table is None else store_of(table)
        speaks_of = None if store is None else store.speaks_of
        refs = speaks_of(record) if speaks_of is not None and record else (change.record_key,)
        affected.update(dict.fromkeys(ref for ref in refs if isinstance(ref, str)))
    return tuple(affected)


def sources_of(
    view: LedgerView,
    run: DryRun,
    affected: tuple[str, ...],
    prediction: SimulationPrediction | None,
) -> Sources:
    """Return what the preview shows something of, and how restricted that is."""
    stated = {}
    if run.envelope is not None:
        stated = {source.ref: visibility for source, visibility in classes_of(view, run.envelope)}
    shown = SourceClasses(view)
    shown_nodes = {ref: shown.of_ref(ref) for ref in affected if view.node(ref) is not None}
    refs = [*{**stated, **shown_nodes}]
    classes = [(shown_nodes | stated)[ref] for ref in refs]
    further = _written_classes(run.changes)
    if run.envelope is not None:
        further += run.envelope.source_visibility_taint
        further.append(run.envelope.resolved_output_visibility_class)
    if prediction is not None:
        for output in prediction.recorded_model_outputs:
            further += [*output.source_visibility_taint, output.resolved_output_visibility_class]
    classes += [name for name in dict.fromkeys(further) if name not in classes]
    simulations = (simulation_of(view, ref) for ref in refs)
    upstream = [
        simulation.operation_id
        for simulation in simulations
        if simulation is not None and simulation.operation_id
    ]
    taint = tuple(class_ for class_ in classes if class_ in VISIBILITY_CLASSES)
    return Sources(tuple(refs), taint, tuple(dict.fromkeys(upstream)))


def _written_classes(changes: Iterable[RecordChange]) -> list[Any]:
    """Classes that the operation itself would give to what it writes."""
    after = (change.after for change in changes)
    return [
        record["visibility_class"] for record in after if record and "visibility_class" in record
    ]
