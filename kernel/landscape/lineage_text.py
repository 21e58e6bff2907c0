"""Writes an explanation as text for a person, and as a Mermaid graph."""

from collections.abc import Hashable, Iterable, Iterator

import orjson

from kernel.landscape.grades import grade_now
from kernel.landscape.lineage import Explanation, TokenLineage
from kernel.landscape.record_rules import KEYS
from kernel.ledger.store.tables import Row
from kernel.values.host import iso_time

DATA_CHARS_MAX = 400

_NAMES = {
    "rows": "row",
    "tokens": "token",
    "runs": "run",
    "nodes": "node",
    "edges": "edge",
    "node_states": "state",
    "operations": "operation",
    "calls": "call",
    "batches": "batch",
    "artifacts": "artifact",
    "token_outcomes": "outcome",
    "checkpoints": "checkpoint",
    "routing_events": "routing event",
    "transform_errors": "transform error",
    "validation_errors": "validation error",
    "batch_outputs": "batch output",
    "batch_members": "batch member",
    "token_parents": "token's parent",
}


class Flowchart:
    """A Mermaid graph; each arrow is drawn once."""

    def __init__(self) -> None:
        self._lines = {"flowchart LR": None}
        self._names: dict[Hashable, str] = {}

    def box(self, key: Hashable, label: str) -> str:
        """Return the name of a box, and draw it with its label the first time."""
        if key not in self._names:
            name = self._names[key] = f"N{len(self._names)}"
            self._lines[f'  {name}["{mermaid_label(label)}"]'] = None
        return self._names[key]

    def arrow(self, start: str, end: str, label: str | None = None) -> None:
        """Draw an arrow from one box to another."""
        shaft = "-->" if label is None else f'-->|"{mermaid_label(label)}"|'
        self._lines[f"  {start} {shaft} {end}"] = None

    def text(self) -> str:
        """Return the graph."""
        return "\n".join(self._lines) + "\n"


def mermaid_label(text: str) -> str:
    """Return a label in which nothing is Mermaid's own."""
    printable = "".join(each if each.isprintable() else " " for each in text)
    return (
        printable.replace("&", "&amp;")
        .replace('"', "&quot;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("`", "&#96;")
    )


def text_of_lines(lines: Iterable[str]) -> str:
    """Return lines as a text; a line feed in a name begins no line."""
    return "\n".join(line.replace("\n", "\\n") for line in lines) + "\n"


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation as lines of text."""
    return text_of_lines(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    run, kind = explanation.run, explanation.kind
    grade = grade_now(run)
    yield f"run {run['run_id']}: {run['status']}, began {iso_time(run['started_at_us'])}" + (
        f", {grade}" if grade else ""
    )
    if kind not in ("tokens", "runs"):
        yield f"{_NAMES[kind]} {explanation.record[KEYS[kind]]}"
        yield from _fields(explanation.record)
    for name, rows in explanation.related.items():
        yield f"{name}: {len(rows)}"
        yield from (f"  {_short(name, row)}" for row in rows)
    for lineage in explanation.lineages:
        yield ""
        yield from _lineage_lines(lineage)
    if explanation.is_cut:
        yield f"... more tokens than the {len(explanation.lineages)} that are shown"


def _fields(record: Row) -> Iterator[str]:
    for name, value in record.items():
        if value is not None and not name.endswith("_id"):
            shown = iso_time(value) if name.endswith("_at_us") else _cut(str(value))
            yield f"  {name.removesuffix('_us') if name.endswith('_at_us') else name}: {shown}"


def _lineage_lines(lineage: TokenLineage) -> Iterator[str]:
    token, row = lineage.token, lineage.source_row
    branch = f", branch {token['branch_name']}" if token["branch_name"] else ""
    yield f"token {token['token_id']}{branch}"
    yield f"source: row {row['row_index']} of {row['source_node_id']} ({row['row_id']})"
    yield f"  hash {row['source_data_hash']}, payload {lineage.source_data_state}"
    if lineage.source_data_state == "available":
        yield f"  {_cut(_json(lineage.source_data))}"
    outcome = lineage.outcome
    ends = "on its way" if outcome is None else _outcome(outcome)
    yield f"outcome: {ends}"
    sections = (
        ("states", [_state(state) for state in lineage.states]),
        ("routing", [*_routing(lineage)]),
        ("operations", [_short("operations", operation) for operation in lineage.operations]),
        ("calls", [*_calls(lineage)]),
        ("parents", [f"{link['parent_token_id']}" for link in lineage.parents]),
        ("children", [f"{link['token_id']}" for link in lineage.children]),
        ("batches", [_short("batches", batch) for batch in lineage.batches]),
        ("artifacts", [_short("artifacts", artifact) for artifact in lineage.artifacts]),
        ("validation errors", [error["error"] for error in lineage.validation_errors]),
        (
            "transform errors",
            [f"{e['transform_id']}: {e['error_details_json']}" for e in lineage.transform_errors],
        ),
    )
    for title, lines in sections:
        yield from _section(title, lines)


def _routing(lineage: TokenLineage) -> Iterator[str]:
    for event, edge in zip(lineage.routing_events, lineage.edges, strict=True):
        way = f"{edge['from_node_id']} -{edge['label']}-> {edge['to_node_id']}"
        yield f"{way}: {event['mode']}"
        if event["reason_ref"] in lineage.payloads:
            yield f"  because {_json(lineage.payloads[event['reason_ref']])}"


def _calls(lineage: TokenLineage) -> Iterator[str]:
    for call in lineage.calls:
        yield _short("calls", call)
        for ref, said in (("request_ref", "asked"), ("response_ref", "answered")):
            if call[ref] in lineage.payloads:
                yield f"  {said} {_json(lineage.payloads[call[ref]])}"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if not number:
            yield f"{title}:"
        yield f"  {_cut(line)}"


def _outcome(outcome: Row) -> str:
    names = ("sink_name", "batch_id", "fork_group_id", "join_group_id", "expand_group_id")
    ends = [f"{name.removesuffix('_name')} {outcome[name]}" for name in names if outcome[name]]
    return ", ".join([outcome["outcome"].upper(), *ends])


def _state(state: Row) -> str:
    took = _milliseconds(state["duration_us"])
    attempt = f" (attempt {state['attempt'] + 1})" if state["attempt"] else ""
    error = f" {state['error_json']}" if state["error_json"] else ""
    return f"[{state['step_index']}] {state['node_id']}{attempt}: {state['status']}, {took}{error}"


def _milliseconds(duration_us: int | None) -> str:
    return "N/A" if duration_us is None else f"{duration_us / 1000:.1f} ms"


def _short(name: str, row: Row) -> str:
    """Return a record in one line: what tells it from others of its kind."""
    if name == "calls":
        took = _milliseconds(row["latency_us"])
        return f"{row['call_type']} {row['call_index']}: {row['status']}, {took}"
    if name == "node_states":
        return _state(row)
    shown = {
        "routing_events": ("edge_id", "mode"),
        "operations": ("operation_type", "node_id", "status"),
        "nodes": ("node_id", "node_type", "plugin_name"),
        "edges": ("from_node_id", "label", "to_node_id"),
        "batches": ("batch_id", "aggregation_node_id", "status"),
        "artifacts": ("artifact_type", "path_or_uri", "content_hash"),
    }.get(name, (KEYS[name],))
    return " ".join(str(row[part]) for part in shown)


def _json(value: object) -> str:
    return orjson.dumps(value, default=str).decode()


def _cut(text: str) -> str:
    return text if len(text) <= DATA_CHARS_MAX else f"{text[:DATA_CHARS_MAX]}..."


def lineage_mermaid(explanation: Explanation) -> str:
    """Return the ways of the explained tokens as a Mermaid graph."""
    chart = Flowchart()
    for lineage in explanation.lineages:
        _draw(lineage, chart)
    return chart.text()


def _draw(lineage: TokenLineage, chart: Flowchart) -> None:
    # Each kind of record has ids of its own: a row and its token may be called alike.
    token_id, row = lineage.token["token_id"], lineage.source_row
    source = chart.box(("row", row["row_id"]), f"row {row['row_index']} of {row['source_node_id']}")
    token = chart.box(("token", token_id), lineage.token["branch_name"] or f"token {token_id}")
    arrows = [(source, token)] if not lineage.parents else []
    for link in lineage.parents + lineage.children:
        parent, child = (
            chart.box(("token", each), f"token {each}")
            for each in (link["parent_token_id"], link["token_id"])
        )
        arrows.append((parent, child))
    last = token
    for state in lineage.states:
        label = f"{state['node_id']}: {state['status']}"
        node = chart.box(("state", state["state_id"]), label)
        arrows.append((last, node))
        last = node
    if lineage.outcome is not None:
        end = chart.box(("outcome", lineage.outcome["outcome_id"]), _outcome(lineage.outcome))
        arrows.append((last, end))
    for arrow in arrows:
        chart.arrow(*arrow)


def graph_mermaid(nodes: list[Row], edges: list[Row]) -> str:
    """Return a run's graph; every node has a name of its own, whatever it is called."""
    chart = Flowchart()
    boxes = {
        node["node_id"]: chart.box(node["node_id"], f"{node['node_id']} ({node['node_type']})")
        for node in nodes
    }
    for edge in edges:
        if edge["from_node_id"] in boxes and edge["to_node_id"] in boxes:
            chart.arrow(boxes[edge["from_node_id"]], boxes[edge["to_node_id"]], edge["label"])
    return chart.text()
