"""Bindings, artifacts and phases as tests write them, and what pairs should come of them."""

from kernel.ledger import schema
from kernel.ledger.store.tables import TableQuery
from kernel.model.bindings.artifacts import COMPLETED_PHASES, completion, read_artifact
from kernel.model.bindings.dispatch import TARGETS
from kernel.model.bindings.selectors import phase_of, read_selector_list
from kernel.model.node_kinds import SOURCE_ARTIFACT, SOURCE_BINDING
from kernel.records.bindings import generation_in_force
from kernel.work.contents import BINDING_QUEUE
from kernel.work.routing_marks import open_marks, record_page
from tests.kernel.build import adapt, create, effect, envelope, link
from tests.kernel.every import binding, snapshot

CONVERSION, NORMALIZATION, RESOLUTION = (
    "post_doc25_conversion",
    "post_group_o_normalization",
    "post_relationship_resolution",
)


def selector(kind, value):
    return {"kind": kind, "value": value}


def generation(binding_id, number, include, exclude=(), **changes):
    selectors = {"include": list(include), "exclude": list(exclude)}
    stated = binding(number, binding_id)
    stated["payload"]["binding_snapshot"] = snapshot(selector_list=selectors, **changes)
    return stated


def created(binding_id, *include, over="corpus", **changes):
    """The envelope that creates a binding over a node."""
    written = effect("node_write", binding_id, node_kind=SOURCE_BINDING)
    [edge] = link(f"e:{binding_id}", binding_id, over)["primitive_effects"]
    stated = generation(binding_id, 1, include, **changes)
    return envelope("source_binding_create", [written, edge, stated])


def updated(binding_id, number, *include, **fields):
    """The envelope of a further generation; `state="active"` enables it again."""
    written = effect("node_write", binding_id, **(fields or {"title": "t"}))
    return envelope("source_binding_update", [written, generation(binding_id, number, include)])


def disabled(binding_id):
    written = effect("node_write", binding_id, state="disabled")
    return envelope("source_binding_disable", [written])


def brought(artifact_ref, content="text", **fields):
    return create(
        artifact_ref,
        SOURCE_ARTIFACT,
        content=content,
        acquisition_shape="ingested",
        prompt_injection_isolation_wrapper_applied=True,
        metadata_wrapper_applied=True,
        **fields,
    )


def completed(ledger, artifact_ref, phase, **fields):
    """The envelope that completes a phase of an artifact as it stands."""
    with ledger.view() as view:
        node = view.node(artifact_ref)
    artifact = read_artifact(node)
    assert artifact is not None
    stated = completion(artifact, node["payload"], phase, fields)
    return adapt(artifact_ref, **{COMPLETED_PHASES: stated})


def route_marks(ledger):
    """Record pages until no mark is left; return how many."""
    pages = 0
    while True:
        with ledger.transaction() as transaction:
            marks = open_marks(transaction, limit=1)
            if not marks:
                return pages
            assert record_page(transaction, marks[0])
        pages += 1


def pairs_of(view):
    """Every pair, the newest evaluation of a generation and an event last."""
    rows = view.tables.scan(TableQuery(schema.binding_pairs))
    return sorted(rows, key=lambda row: row["evaluation_number"])


def states_of(ledger):
    """The state of the newest pair of each binding and artifact."""
    with ledger.view() as view:
        return {(row["binding_id"], row["artifact_ref"]): row["state"] for row in pairs_of(view)}


def open_evaluations(ledger):
    with ledger.view() as view:
        return view.open_requests(queue=BINDING_QUEUE)


def expected(view):
    """What the records themselves say of each active binding and each artifact it matches.

    By generation and event: whether the pair may be evaluated, and the values it is judged by.
    """
    artifacts = [read_artifact(node) for node in _nodes(view, SOURCE_ARTIFACT)]
    pairs = {}
    for node in _nodes(view, SOURCE_BINDING):
        stands = generation_in_force(view, node["node_id"])
        if node["state"] != "active" or stands is None:
            continue
        selectors = read_selector_list(stands["binding_snapshot"]["selector_list"])
        target_kind = stands["binding_snapshot"]["target_kind"]
        kinds = selectors.kinds.union(TARGETS[target_kind].states)
        for artifact in filter(None, artifacts):
            if not selectors.until("intake_time").matches(artifact.fields):
                continue
            passed = artifact.has_passed(phase_of(kinds))
            key = (node["node_id"], stands["binding_generation_id"], artifact.source_event_id)
            pairs[key] = {kind: artifact.fields.get(kind) for kind in kinds} if passed else None
    return pairs


def _nodes(view, node_kind):
    return view.nodes_of_kind(node_kind, after=None, limit=1000)
