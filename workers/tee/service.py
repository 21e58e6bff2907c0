"""Answers the Tee contract from the record: messages in, messages out, no rules of its own.

An invalid request is INVALID_ARGUMENT and an unknown incident NOT_FOUND, before anything was
written; a ledger that did not answer is UNAVAILABLE, and asking again is safe. A write after
another Tee has taken the ledger's incidents is UNAVAILABLE (`stale_epoch`), nothing of it was
written, and health says so. A record that does not verify is served no further: every call is
INTERNAL, and health says so.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NoReturn

import grpc
import structlog

from actors.commit.graph_units import GraphRefused
from actors.errors import StaleEpoch
from actors.incidents.incidents import Incidents
from kernel.belief.elimination_store import EliminationProvenance
from kernel.belief.errors import BeliefError, CorruptBeliefEvent
from kernel.belief.limits import invalid
from kernel.records.causal_graph import ProvenanceFull
from kernel.values.errors import CommitOutcomeUnknown, LedgerCorrupt, LedgerUnavailable
from workers.tee import tee_pb2 as wire
from workers.tee.messages import (
    causal_graph,
    merge_result,
    read_edge,
    read_edge_name,
    read_id,
    read_mark,
    read_node,
    read_node_name,
    timestamp_of,
    tombstone_result,
    tombstone_set,
)

DELTA_MAX_ELEMENTS = 10_000
TOMBSTONES_MAX = 100_000
ANSWERED_AT_ONCE = 8
"""Calls that are being answered; others whose message has come wait for one of them."""

_STATUS: Mapping[type[Exception], grpc.StatusCode] = MappingProxyType(
    {
        ProvenanceFull: grpc.StatusCode.FAILED_PRECONDITION,
        GraphRefused: grpc.StatusCode.FAILED_PRECONDITION,
        LedgerUnavailable: grpc.StatusCode.UNAVAILABLE,
        CommitOutcomeUnknown: grpc.StatusCode.UNAVAILABLE,
        StaleEpoch: grpc.StatusCode.UNAVAILABLE,
    }
)

_STATUS_OF_CODE = MappingProxyType(
    {
        "INVALID_REQUEST": grpc.StatusCode.INVALID_ARGUMENT,
        "SESSION_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    }
)

_log = structlog.get_logger(__name__)


class TeeService:
    """The gRPC service, with one method for each of the contract."""

    def __init__(self, incidents: Incidents, unfit: Callable[[], None] = lambda: None) -> None:
        """Answer from the record.

        `unfit` is called when the record is found not to verify, and when another Tee writes it.
        """
        self._incidents = incidents
        self._unfit = unfit
        self._refusal: str | None = None
        self._answering = threading.BoundedSemaphore(ANSWERED_AT_ONCE)

    def MergeHypothesis(self, request: Any, context: Any) -> Any:  # noqa: N802 - the contract's
        """Merge a delta into the main graph, all of it or nothing."""

        def answer() -> Any:
            if len(request.nodes) + len(request.edges) > DELTA_MAX_ELEMENTS:
                raise invalid("nodes, edges", f"must be at most {DELTA_MAX_ELEMENTS} together")
            nodes, edges = list(map(read_node, request.nodes)), list(map(read_edge, request.edges))
            merge = self._incidents.merge(nodes, edges)
            return merge_result(merge)

        return self._answer(answer, context)

    def CreateIncident(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Open an incident over the main graph as it is now."""

        def answer() -> Any:
            incident_id = read_id("incident_id", request.incident_id)
            created = self._incidents.create(incident_id)
            return wire.CreateIncidentResult(incident_id=incident_id, created=created)

        return self._answer(answer, context)

    def GetIncidentContext(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Say when an incident was opened and what is struck in it."""

        def answer() -> Any:
            incident_id = read_id("incident_id", request.incident_id)
            opened_at, tombstones = self._incidents.opening_of(incident_id)
            return wire.IncidentContext(
                incident_id=incident_id,
                created_at=timestamp_of(opened_at),
                tombstones=tombstone_set(tombstones),
            )

        return self._answer(answer, context)

    def MergeNodeTombstones(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Strike nodes in an incident."""
        return self._strike(
            request, context, lambda: list(map(read_node_name, request.node_ids)), "node_ids"
        )

    def MergeEdgeTombstones(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Strike edges in an incident."""
        return self._strike(
            request, context, lambda: list(map(read_edge_name, request.entries)), "entries"
        )

    def GetLiveView(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return what is left of an incident's graph."""
        return self._answer(
            lambda: causal_graph(
                self._incidents.live_view(read_id("incident_id", request.incident_id))
            ),
            context,
        )

    def GetTombstones(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return what is struck in an incident."""
        return self._answer(
            lambda: tombstone_set(
                self._incidents.tombstones(read_id("incident_id", request.incident_id))
            ),
            context,
        )

    def GetMainGraph(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the whole graph as it is now."""
        del request
        return self._answer(lambda: causal_graph(self._incidents.main_graph()), context)

    def _strike(
        self, request: Any, context: Any, read_ids: Callable[[], list[str]], field: str
    ) -> Any:
        def answer() -> Any:
            incident_id = read_id("incident_id", request.incident_id)
            if not 0 < len(getattr(request, field)) <= TOMBSTONES_MAX:
                raise invalid(field, f"must name 1 to {TOMBSTONES_MAX}")
            record_ids = read_ids()
            if not request.HasField("provenance"):
                raise invalid("provenance", "is missing")
            mark = read_mark(request.provenance)
            provenance = EliminationProvenance(mark.source, mark.trigger)
            struck = self._incidents.strike(incident_id, record_ids, provenance, mark.timestamp)
            return tombstone_result(struck)

        return self._answer(answer, context)

    def _answer(self, answer: Callable[[], Any], context: Any) -> Any:
        if self._refusal is not None:
            context.abort(grpc.StatusCode.INTERNAL, self._refusal)
        try:
            with self._answering:
                return answer()
        except BeliefError as error:
            status = _STATUS_OF_CODE.get(error.code, grpc.StatusCode.FAILED_PRECONDITION)
            context.abort(status, str(error))
        except tuple(_STATUS) as error:
            if isinstance(error, CommitOutcomeUnknown):
                _log.error("commit_outcome_unknown", error=str(error))
            if isinstance(error, StaleEpoch):
                _log.error("tee_displaced", error=str(error))
                self._unfit()
            context.abort(_STATUS[type(error)], f"{error.code}: {error}")  # type: ignore[attr-defined]
        except (LedgerCorrupt, CorruptBeliefEvent) as error:
            self._stop_serving(error, context)
        except Exception as error:  # noqa: BLE001 - whatever it was, its insides stay here
            _log.exception("tee_call_failed", error=repr(error))
            context.abort(grpc.StatusCode.INTERNAL, "internal")

    def _stop_serving(self, error: Exception, context: Any) -> NoReturn:
        """Stop serving: a record that does not verify is neither retried nor skipped (L3)."""
        _log.critical("tee_record_corrupt", error=str(error))
        self._refusal = "ledger_corrupt: the record does not verify"
        self._unfit()
        with suppress(Exception):  # a receipt where one can be written
            self._incidents.record_damage(error)
        context.abort(grpc.StatusCode.INTERNAL, self._refusal)
        raise AssertionError("abort raises")
