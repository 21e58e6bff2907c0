"""Keeps tombstones in a Tee over gRPC, where a session is an incident (seed 000 §3.2).

A Tee's graph grows, and what it shows of an incident may grow with it. The universe of a session
does not, so it is kept here (if this process did not create the session, as the ledger has it), and
everything that a Tee answers is cut down to it. A hypothesis is tombstoned when the Tee says so of
that node or that edge; survivors are the rest of the universe. One `GetTombstones` holds both kinds
of tombstones, so what is recovered is of one moment. The live view would not do: it grows with the
graph, loses an edge with its ends, and is of another moment than the tombstones.

An elimination of nodes and edges is two calls to a Tee, and one call for each 1000 ids. If a later
call fails the earlier ones took effect; asking again eliminates the rest.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty

from kernel.belief.elimination_store import (
    EliminationProvenance,
    EliminationStoreUnavailable,
    RecoveredState,
    StoreResult,
    session_not_found,
    universe_differs,
)
from kernel.belief.errors import BeliefError
from kernel.belief.limits import MAX_CLAIMED_IDS, MAX_HYPOTHESES, check_ids, check_text, invalid
from workers.tee import tee_pb2 as wire
from workers.tee.hypothesis_ids import EDGE_TYPES, EdgeHypothesis, edge_of, is_edge
from workers.tee.rpc import authorization_of, client_methods

CALL_TIMEOUT_S = 10.0
IDS_A_CALL = 1000
ANSWER_MAX_BYTES = 256 << 20
UNIVERSES_KEPT_MAX = 64
MISSING_SHOWN_MAX = 100

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", ANSWER_MAX_BYTES),
    ("grpc.enable_http_proxy", 0),
    # A Tee that was started again is found again soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


class TeeStore:
    """An `EliminationStore` over a channel to a Tee."""

    def __init__(
        self,
        target: str,
        *,
        known: Callable[[str], Collection[str] | None] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        authorities: bytes | None = None,
        token: str | None = None,
    ) -> None:
        """Connect, on first use, to the Tee at `host:port`.

        `known` finds the universe of a session that another process created. Without it this
        object serves the sessions that it has created itself, after a restart none. With
        certificates of `authorities` the Tee is spoken to over TLS, else in the clear. A Tee that
        takes keys is shown that this side knows the `token`.
        """
        if authorities is None:
            self._channel = grpc.insecure_channel(target, options=CHANNEL_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(authorities)
            self._channel = grpc.secure_channel(target, credentials, options=CHANNEL_OPTIONS)
        self._methods = client_methods(self._channel)
        self._known = known
        self._timeout_s = timeout_s
        self._metadata = () if token is None else (("authorization", authorization_of(token)),)
        self._lock = threading.Lock()
        self._universes: OrderedDict[str, frozenset[str]] = OrderedDict()

    def close(self) -> None:
        """Close the channel; calls that wait fail."""
        self._channel.close()

    def create_session(self, session_id: str, hypothesis_ids: Iterable[str]) -> None:
        """Open the incident of a session whose hypotheses are in the main graph.

        Raises:
            BeliefError: INVALID_REQUEST where one is not in the graph, or is no id of an edge;
                SESSION_EXISTS for a universe that differs from the one known here.
        """
        check_text("session_id", session_id)
        universe = frozenset(check_ids("hypotheses", hypothesis_ids, max_ids=MAX_HYPOTHESES))
        known_universe = self._find(session_id)
        if known_universe is None:
            self._check_in_graph(universe)
        elif known_universe != universe:
            raise universe_differs(session_id)
        self._call(session_id, "CreateIncident", wire.CreateIncidentRequest(incident_id=session_id))
        with self._lock:
            if self._universes.setdefault(session_id, universe) != universe:
                raise universe_differs(session_id)
        self._forget_some()

    def eliminate(
        self, session_id: str, eliminated: Iterable[str], provenance: EliminationProvenance
    ) -> StoreResult:
        """Write tombstones of nodes, then of edges; nothing to write is answered without a call."""
        claimed = frozenset(check_ids("eliminated", eliminated, max_ids=MAX_CLAIMED_IDS))
        known = claimed & self._universe(session_id)
        nodes = sorted(name for name in known if not is_edge(name))
        edges = {key.wire_id: key for key in map(edge_of, filter(is_edge, known))}
        wire_provenance = wire.Provenance(source=provenance.source_id, trigger=provenance.trigger)
        wire_provenance.timestamp.GetCurrentTime()
        applied: set[str] = set()
        for page in _pages(nodes):
            request = wire.NodeTombstoneRequest(
                incident_id=session_id, node_ids=page, provenance=wire_provenance
            )
            applied.update(self._call(session_id, "MergeNodeTombstones", request).applied_ids)
        for page in _pages(sorted(edges)):
            edge_request = wire.EdgeTombstoneRequest(
                incident_id=session_id,
                entries=[_entry(edges[wire_id]) for wire_id in page],
                provenance=wire_provenance,
            )
            answer = self._call(session_id, "MergeEdgeTombstones", edge_request)
            applied.update(
                edges[applied_id].hypothesis_id
                for applied_id in answer.applied_ids
                if applied_id in edges
            )
        struck = frozenset(applied & known)
        return StoreResult(struck, claimed - struck)

    def get_survivors(self, session_id: str) -> frozenset[str]:
        """Return the universe without its tombstones."""
        return self.recover(session_id).survivors

    def get_eliminated(self, session_id: str) -> frozenset[str]:
        """Return the tombstones within the universe."""
        return self.recover(session_id).eliminated

    def recover(self, session_id: str) -> RecoveredState:
        """Return universe, tombstones and survivors, as of one answer of the Tee."""
        universe = self._universe(session_id)
        request = wire.TombstoneRequest(incident_id=session_id)
        answer = self._call(session_id, "GetTombstones", request)
        tombstones = {*answer.node_ids, *_edge_hypotheses(answer.edge_entries)}
        eliminated = universe & tombstones
        return RecoveredState(universe, eliminated, universe - eliminated)

    def _check_in_graph(self, universe: frozenset[str]) -> None:
        for name in filter(is_edge, universe):
            edge_of(name)
        graph = self._call("", "GetMainGraph", Empty())
        missing = universe.difference(
            (node.id for node in graph.nodes), _edge_hypotheses(graph.edges)
        )
        if missing:
            refusal = invalid("hypotheses", "must be in the main graph of the Tee")
            refusal.details["missing"] = sorted(missing)[:MISSING_SHOWN_MAX]
            raise refusal

    def _universe(self, session_id: str) -> frozenset[str]:
        universe = self._find(session_id)
        if universe is None:
            raise session_not_found(session_id)
        return universe

    def _find(self, session_id: str) -> frozenset[str] | None:
        with self._lock:
            universe = self._universes.get(session_id)
        if universe is not None or self._known is None:
            return universe
        known = self._known(session_id)
        if known is None:
            return None
        with self._lock:
            universe = self._universes.setdefault(session_id, frozenset(known))
        self._forget_some()
        return universe

    def _forget_some(self) -> None:
        with self._lock:
            while self._known is not None and len(self._universes) > UNIVERSES_KEPT_MAX:
                self._universes.popitem(last=False)

    def _call(self, session_id: str, method: str, request: Any) -> Any:
        try:
            return self._methods[method](request, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            status, text = error.code(), error.details() or ""
            if status is grpc.StatusCode.NOT_FOUND:
                raise session_not_found(session_id) from None
            if status is grpc.StatusCode.INVALID_ARGUMENT:
                raise BeliefError("INVALID_REQUEST", f"the Tee refused it: {text}") from None
            raise EliminationStoreUnavailable(f"{method}: {status.name}: {text}") from None
        except ValueError as error:
            # What grpc raises on a channel that was closed.
            raise EliminationStoreUnavailable(f"{method}: {error}") from None


def _entry(key: EdgeHypothesis) -> wire.EdgeTombstoneEntry:
    kind = wire.EdgeType.Name(key.type)
    return wire.EdgeTombstoneEntry(source=key.source, target=key.target, type=kind)


def _edge_hypotheses(edges: Iterable[Any]) -> Iterator[str]:
    """The ids of edges, or of entries that name them; a type that is unknown here names nothing."""
    for edge in edges:
        if edge.type in EDGE_TYPES:
            yield EdgeHypothesis(edge.source, edge.target, edge.type).hypothesis_id


def _pages(ids: list[str]) -> Iterator[list[str]]:
    waiting = iter(ids)
    while page := list(islice(waiting, IDS_A_CALL)):
        yield page
