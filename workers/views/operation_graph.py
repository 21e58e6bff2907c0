"""Lays out an operation with its causes and its consequences in layers, as far as a page shows.

A layer holds what is one cause further away; an operation stands in the layer in which it is met
first. Causes stand at the left, consequences at the right.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernel.audit.operations import OperationEntry
from kernel.ledger.quarantine import RangeQuarantined
from kernel.records.access.readable_view import ReadableView

LAYERS_MAX = 3
"""Layers of causes, and of consequences."""

LAYER_MAX = 8
"""Operations of one layer."""

WIDTH, HEIGHT, STEP_X, STEP_Y, MARGIN = 168, 44, 216, 56, 8
"""Units of the drawing: a node, the distance between layers and between nodes, and around all."""


@dataclass(frozen=True, slots=True)
class PlacedOperation:
    """An operation of the graph, and where it is drawn."""

    operation_id: str
    semantic_intent: str
    ec_sequence_number: int
    layer: int
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class OperationEdge:
    """A cause, what it caused, and the line between them."""

    cause: str
    effect: str
    path: str


@dataclass(frozen=True, slots=True)
class OperationGraph:
    """An operation with what is around it; `is_cut` where there is more than is shown.

    No edge leads from a layer into itself.
    """

    nodes: tuple[PlacedOperation, ...]
    edges: tuple[OperationEdge, ...]
    width: int
    height: int
    is_cut: bool

    def beyond(self, operation_id: str, direction: int) -> list[PlacedOperation]:
        """Return the causes (-1) or consequences (1) of an operation in the next layer."""
        [here] = [node.layer for node in self.nodes if node.operation_id == operation_id]
        pairs = [(edge.cause, edge.effect)[::direction] for edge in self.edges]
        names = {other for near, other in pairs if near == operation_id}
        layer = here + direction
        return [node for node in self.nodes if node.operation_id in names and node.layer == layer]


def operation_graph(view: ReadableView, operation_id: str) -> OperationGraph | None:
    """Return the graph around an operation; None where it is not on the log, or cannot be read."""
    first = _entry(view, operation_id)
    if first is None:
        return None
    layers: dict[int, list[OperationEntry]] = {0: [first]}
    known = {operation_id}
    edges: set[tuple[str, str]] = set()
    is_cut = False
    for direction, around in ((-1, _causes), (1, _effects)):
        for layer in range(1, LAYERS_MAX + 1):
            beyond, cut = _layer(view, layers[direction * (layer - 1)], around, known, edges)
            is_cut |= cut
            if not beyond:
                break
            layers[direction * layer] = beyond
            is_cut |= layer == LAYERS_MAX
    return _layout(layers, edges, is_cut=is_cut)


_Around = Callable[[ReadableView, OperationEntry], Iterable[tuple[str, str, str]]]
"""Yields the operations around one: the name, and the cause and the effect of the edge."""


def _causes(_: ReadableView, entry: OperationEntry) -> Iterable[tuple[str, str, str]]:
    for parent in entry.causal_parent_operation_ids:
        yield parent, parent, entry.operation_id


def _effects(view: ReadableView, entry: OperationEntry) -> Iterable[tuple[str, str, str]]:
    for sequence in view.sequences_caused_by(entry.operation_id, after=0, limit=LAYER_MAX + 1):
        row = view.log_row_at(sequence)
        if row is not None:
            yield row["operation_id"], entry.operation_id, row["operation_id"]


def _layer(
    view: ReadableView,
    entries: list[OperationEntry],
    around: _Around,
    known: set[str],
    edges: set[tuple[str, str]],
) -> tuple[list[OperationEntry], bool]:
    """Return the next layer, and whether there are more than it holds."""
    layer: list[OperationEntry] = []
    for entry in entries:
        for name, cause, effect in around(view, entry):
            if name not in known:
                if len(layer) == LAYER_MAX:
                    return layer, True
                other = _entry(view, name)
                if other is None:
                    continue
                known.add(name)
                layer.append(other)
            edges.add((cause, effect))
    return layer, False


def _entry(view: ReadableView, operation_id: str) -> OperationEntry | None:
    row = view.log_row_of(operation_id)
    try:
        return None if row is None else OperationEntry.of_row(view, row)
    except RangeQuarantined:
        return None


def _layout(
    layers: dict[int, list[OperationEntry]], edges: set[tuple[str, str]], *, is_cut: bool
) -> OperationGraph:
    first, most = min(layers), max(map(len, layers.values()))
    nodes = {
        entry.operation_id: PlacedOperation(
            entry.operation_id,
            entry.semantic_intent,
            entry.ec_sequence_number,
            layer,
            MARGIN + (layer - first) * STEP_X,
            MARGIN + place * STEP_Y + (most - len(entries)) * STEP_Y // 2,
        )
        for layer, entries in sorted(layers.items())
        for place, entry in enumerate(entries)
    }
    lines = [
        OperationEdge(cause, effect, _line(nodes[cause], nodes[effect]))
        for cause, effect in sorted(edges)
        if cause in nodes and effect in nodes and nodes[cause].layer < nodes[effect].layer
    ]
    width = 2 * MARGIN + (max(layers) - first) * STEP_X + WIDTH
    height = 2 * MARGIN + (most - 1) * STEP_Y + HEIGHT
    return OperationGraph(tuple(nodes.values()), tuple(lines), width, height, is_cut)


def _line(cause: PlacedOperation, effect: PlacedOperation) -> str:
    """Return the path of a curve from the right of a cause to the left of what it caused."""
    x1, y1 = cause.x + WIDTH, cause.y + HEIGHT // 2
    x2, y2 = effect.x, effect.y + HEIGHT // 2
    bend = (x2 - x1) // 2
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
