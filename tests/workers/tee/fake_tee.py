"""A Tee in memory, as the contract is kept elsewhere: nothing is anchored, and it grows.

What differs from ours on purpose: the live view is of the graph of the moment, and an unknown id
is kept as a tombstone of the incident.
"""

# ruff: noqa: N802, ARG002
# The contract names the methods, and each takes a context.

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import grpc

from workers.tee import tee_pb2 as wire
from workers.tee.rpc import client_methods, serve_methods


def why(source="adapter://test", trigger="probe:1"):
    return wire.Provenance(source=source, trigger=trigger)


def node(node_id, kind=wire.NODE_TYPE_SERVICE, label=None, *, hypothetical=True, by=None):
    return wire.Node(
        id=node_id,
        type=kind,
        label=label or f"label of {node_id}",
        hypothetical=hypothetical,
        provenance=by or [why()],
    )


def edge(source, target, kind=wire.EDGE_TYPE_DEPENDS_ON, by=None):
    return wire.Edge(source=source, target=target, type=kind, provenance=by or [why()])


def key_of(edge):
    return f"{edge.source}->{edge.target}:{edge.type}"


class FakeTee:
    def __init__(self):
        self._lock = threading.Lock()
        self.nodes, self.edges, self.incidents = {}, {}, {}
        self.calls = []
        self.fails = {}
        """Method to the statuses with which its next calls fail, and whether after its work."""

    def _failing(self, method, context, *, after):
        planned = self.fails.get(method)
        if planned and planned[0][1] is after:
            context.abort(planned.pop(0)[0], "as planned")

    def _incident(self, request, context):
        if not request.incident_id:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "incident_id is empty")
        if request.incident_id not in self.incidents:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such incident")
        return self.incidents[request.incident_id]

    def MergeHypothesis(self, request, context):
        with self._lock:
            self.nodes.update(
                {node.id: node for node in request.nodes if node.id not in self.nodes}
            )
            self.edges.update({key_of(edge): edge for edge in request.edges})
        return wire.HypothesisMergeResult()

    def CreateIncident(self, request, context):
        self.calls.append("CreateIncident")
        self._failing("CreateIncident", context, after=False)
        with self._lock:
            created = request.incident_id not in self.incidents
            self.incidents.setdefault(request.incident_id, ({}, {}))
        return wire.CreateIncidentResult(incident_id=request.incident_id, created=created)

    def MergeNodeTombstones(self, request, context):
        return self._merge("MergeNodeTombstones", request, context, 0, request.node_ids, str)

    def MergeEdgeTombstones(self, request, context):
        return self._merge("MergeEdgeTombstones", request, context, 1, request.entries, key_of)

    def _merge(self, method, request, context, part, named, key):
        self.calls.append(method)
        self._failing(method, context, after=False)
        if not named or not request.provenance.source or not request.provenance.trigger:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "names nothing, or no provenance")
        graph = (self.nodes, self.edges)[part]
        result = wire.TombstoneMergeResult()
        with self._lock:
            tombstones = self._incident(request, context)[part]
            for element in named:
                if key(element) in tombstones:
                    result.already_tombstoned_ids.append(key(element))
                    continue
                tombstones[key(element)] = element
                answered = result.applied_ids if key(element) in graph else result.unmatched_ids
                answered.append(key(element))
        self._failing(method, context, after=True)
        return result

    def GetLiveView(self, request, context):
        with self._lock:
            nodes, edges = self._incident(request, context)
            return wire.CausalGraph(
                nodes=[node for name, node in sorted(self.nodes.items()) if name not in nodes],
                edges=[
                    edge
                    for name, edge in sorted(self.edges.items())
                    if name not in edges and edge.source not in nodes and edge.target not in nodes
                ],
            )

    def GetTombstones(self, request, context):
        self.calls.append("GetTombstones")
        self._failing("GetTombstones", context, after=False)
        with self._lock:
            nodes, edges = self._incident(request, context)
            return wire.TombstoneSet(node_ids=sorted(nodes), edge_entries=edges.values())

    def GetIncidentContext(self, request, context):
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "not kept here")

    def GetMainGraph(self, request, context):
        with self._lock:
            return wire.CausalGraph(nodes=self.nodes.values(), edges=self.edges.values())


@contextmanager
def serving(servicer):
    """Serve a servicer on a free port of loopback and give its target."""
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    serve_methods(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def calling(target):
    """A client with a method for each of the contract."""
    with grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        yield SimpleNamespace(**client_methods(channel))


def seed(target, hypothesis_ids):
    """Put what hypotheses speak of into the main graph."""
    bare = {name for name in hypothesis_ids if not name.startswith("edge:")}
    edges = []
    for name in hypothesis_ids - bare:
        source, end, kind = name.removeprefix("edge:").split("|")
        edges.append(edge(source, end, wire.EdgeType.Value(f"EDGE_TYPE_{kind}")))
    if hypothesis_ids:
        delta = wire.HypothesisDelta(nodes=[node(name) for name in sorted(bare)], edges=edges)
        with calling(target) as stub:
            stub.MergeHypothesis(delta)
