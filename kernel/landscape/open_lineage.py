"""Writes a run as events of OpenLineage (openlineage.io, 2-0-2), a line of JSON for each.

The run is a run of a job, and so is each of its nodes, whose parent it is: a START, and an event
with how it ended. The data on an edge are a dataset, written by the node where the edge begins and
read by the one where it ends. The data of a source and of a sink are datasets by the node's name,
and each artifact is one by its path. A node that did nothing has no event (decision kernel/0477).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid5

import orjson

from kernel.landscape.canonical_types import restore_value
from kernel.landscape.contracts import contract_of
from kernel.landscape.digest import records_of
from kernel.landscape.grades import grade_now
from kernel.landscape.record_counts import counts_by
from kernel.landscape.record_rules import TABLES, check_stored
from kernel.landscape.reports import run_of_id
from kernel.landscape.seals import seal_of
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.values.host import iso_time

NAMESPACE = "rotulus"
ARTIFACTS_IN_EVENT_MAX = 500

_SPECIFICATION = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPECIFICATION}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_IDS = UUID("6f6b8f2e-1d5b-5c0e-9d3f-0c5a4a1f7d21")
"""Under which the ids of runs and nodes become UUIDs, as the specification asks for."""

_ENDS: Mapping[str, str] = MappingProxyType(
    {"completed": "COMPLETE", "failed": "FAIL", "interrupted": "ABORT", "running": "RUNNING"}
)

Document = dict[str, Any]


@dataclass(slots=True)
class _NodeWork:
    """What a node did, from its states and operations."""

    records: int = 0
    failed: int = 0
    unfinished: int = 0
    rows_done: int = 0
    times_us: list[int] = field(default_factory=list)
    """The first start and the last end, empty before the first."""

    error: str | None = None

    def add(self, record: Row, error: str | None) -> None:
        ends = (record["started_at_us"], record["completed_at_us"] or record["started_at_us"])
        self.times_us = [min([*self.times_us, *ends]), max([*self.times_us, *ends])]
        self.records += 1
        self.failed += record["status"] == "failed"
        self.unfinished += record["status"] in ("open", "pending")
        if self.error is None and record["status"] == "failed":
            self.error = error


def open_lineage_events(view: LedgerView, run_id: str, *, producer: str) -> Iterator[bytes]:
    """Yield the events of a run; `producer` is a URI that names this program.

    Raises:
        LandscapeRefused: `landscape_unknown`.
        RecordDamaged: a record breaks a rule.
    """
    events = _Events(view, run_of_id(view, run_id), producer)
    for event in events.all():
        yield orjson.dumps(event) + b"\n"


class _Events:
    def __init__(self, view: LedgerView, run: Row, producer: str) -> None:
        self._view, self._run, self._producer = view, run, producer
        settings = restore_value(run["settings_json"].encode())
        stated = settings if isinstance(settings, dict) else {}
        self._rows: dict[str, int] | None = None
        # Runs of a pipeline are runs of one job, however each was configured.
        names = (stated.get(key) for key in ("name", "pipeline"))
        self._job = next(
            (name for name in names if isinstance(name, str) and name), run["config_hash"]
        )

    def all(self) -> Iterator[Document]:
        run, work = self._run, self._work()
        started, ended = run["started_at_us"], run["completed_at_us"] or run["started_at_us"]
        yield self._event("START", started, self._whole(), self._job_of("DAG", self._job))
        for node in self._records("nodes"):
            did = work.get(node["node_id"], _NodeWork())
            if did.times_us:
                yield from self._of_node(node, did)
        yield from self._artifacts(ended)
        whole = self._whole(ended=True)
        yield self._event(_ENDS[run["status"]], ended, whole, self._job_of("DAG", self._job))

    def _work(self) -> dict[str, _NodeWork]:
        work: dict[str, _NodeWork] = {}
        for state in self._records("node_states"):
            did = work.setdefault(state["node_id"], _NodeWork())
            did.rows_done += state["status"] == "completed"
            did.add(state, state["error_json"])
        for operation in self._records("operations"):
            did = work.setdefault(operation["node_id"], _NodeWork())
            did.add(operation, operation["error_message"])
        return work

    def _of_node(self, node: Row, did: _NodeWork) -> Iterator[Document]:
        node_id, (first, last) = node["node_id"], did.times_us
        run, job = self._node_run(node_id), self._job_of("TASK", f"{self._job}.{node_id}")
        yield self._event("START", first, run, job)
        if did.error is not None:
            fields = {"message": did.error, "programmingLanguage": "PYTHON"}
            run["facets"]["errorMessage"] = self._facet("ErrorMessageRunFacet", "1-0-1", **fields)
        end = "COMPLETE"
        if did.unfinished:
            end = "RUNNING" if self._run["status"] == "running" else "ABORT"
        elif did.failed == did.records:
            end = "FAIL"
        inputs, outputs = self._datasets(node, did)
        yield self._event(end, last, run, job, inputs, outputs)

    def _datasets(self, node: Row, did: _NodeWork) -> tuple[list[Document], list[Document]]:
        inputs: list[Document] = []
        outputs: list[Document] = []
        for edge in self._records("edges"):
            name = f"{self._job}.{edge['from_node_id']}.{edge['label']}"
            if edge["to_node_id"] == node["node_id"]:
                inputs.append({"namespace": NAMESPACE, "name": name})
            if edge["from_node_id"] == node["node_id"]:
                outputs.append({"namespace": NAMESPACE, "name": name})
        own = {"namespace": NAMESPACE, "name": f"{self._job}.{node['node_id']}"}
        if node["node_type"] == "source":
            statistics = self._facet(
                "InputStatisticsInputDatasetFacet",
                "1-0-0",
                rowCount=self._rows_of_source(node["node_id"]),
            )
            inputs.append(
                own
                | {"facets": {"schema": self._schema()}}
                | {"inputFacets": {"inputStatistics": statistics}}
            )
        if node["node_type"] == "sink":
            statistics = self._facet(
                "OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=did.rows_done
            )
            outputs.append(own | {"outputFacets": {"outputStatistics": statistics}})
        return inputs, outputs

    def _rows_of_source(self, node_id: str) -> int:
        if self._rows is None:
            run_id = self._run["run_id"]
            sources = [row["node_id"] for row in self._records("nodes")]
            self._rows = counts_by(self._view, run_id, "rows", "source_node_id", sources)
        return self._rows[node_id]

    def _artifacts(self, at_us: int) -> Iterator[Document]:
        """Yield what sinks made, some artifacts in each event, as additions to the sinks' runs."""
        waiting: dict[str, list[Document]] = {}
        for artifact in self._records("artifacts"):
            size = self._facet(
                "OutputStatisticsOutputDatasetFacet", "1-0-2", size=artifact["size_bytes"]
            )
            dataset = {
                "namespace": NAMESPACE,
                "name": artifact["path_or_uri"],
                "outputFacets": {"outputStatistics": size},
            }
            outputs = waiting.setdefault(artifact["sink_node_id"], [])
            outputs.append(dataset)
            if len(outputs) == ARTIFACTS_IN_EVENT_MAX:
                yield self._event_of_node(
                    artifact["sink_node_id"], waiting.pop(artifact["sink_node_id"]), at_us
                )
        for node_id, outputs in waiting.items():
            yield self._event_of_node(node_id, outputs, at_us)

    def _event_of_node(self, node_id: str, outputs: list[Document], at_us: int) -> Document:
        job = self._job_of("TASK", f"{self._job}.{node_id}")
        return self._event("OTHER", at_us, self._node_run(node_id), job, [], outputs)

    def _whole(self, *, ended: bool = False) -> Document:
        facets = {}
        if ended:
            seal = seal_of(self._view, self._run["run_id"])
            stated = {
                "run_id": self._run["run_id"],
                "reproducibility_grade": grade_now(self._run),
                "run_digest": None if seal is None else seal["run_digest"],
                "sealed_by_sequence": None if seal is None else str(seal["ec_sequence_number"]),
            }
            tags = [
                {"key": key, "value": value, "source": "ROTULUS"}
                for key, value in stated.items()
                if value is not None
            ]
            facets["tags"] = self._facet("TagsRunFacet", "1-0-0", tags=tags)
        return {"runId": self._run_uuid(), "facets": facets}

    def _node_run(self, node_id: str) -> Document:
        parent = {
            "run": {"runId": self._run_uuid()},
            "job": {"namespace": NAMESPACE, "name": self._job},
        }
        return {
            "runId": str(uuid5(UUID(self._run_uuid()), node_id)),
            "facets": {"parent": self._facet("ParentRunFacet", "1-2-0", **parent)},
        }

    def _run_uuid(self) -> str:
        try:
            return str(UUID(self._run["run_id"]))
        except ValueError:
            return str(uuid5(_IDS, self._run["run_id"]))

    def _job_of(self, job_type: str, name: str) -> Document:
        fields = {"processingType": "BATCH", "integration": "ROTULUS", "jobType": job_type}
        facet = self._facet("JobTypeJobFacet", "2-0-4", **fields)
        return {"namespace": NAMESPACE, "name": name, "facets": {"jobType": facet}}

    def _schema(self) -> Document:
        declared = contract_of(self._view, self._run["run_id"]).source_fields
        fields = [
            {"name": name, **({"type": kind} if isinstance(kind, str) else {})}
            for name, stated in declared.items()
            for kind in [stated.get("type") if isinstance(stated, dict) else stated]
        ]
        return self._facet("SchemaDatasetFacet", "1-2-0", fields=fields)

    def _facet(self, name: str, version: str, **fields: Any) -> Document:
        url = f"{_SPECIFICATION}/facets/{version}/{name}.json#/$defs/{name}"
        return {"_producer": self._producer, "_schemaURL": url, **fields}

    def _event(
        self,
        kind: str,
        at_us: int,
        run: Document,
        job: Document,
        inputs: Iterable[Document] = (),
        outputs: Iterable[Document] = (),
    ) -> Document:
        return {
            "eventType": kind,
            "eventTime": iso_time(at_us),
            "producer": self._producer,
            "schemaURL": _RUN_EVENT,
            "run": {**run, "facets": dict(run["facets"])},
            "job": job,
            "inputs": list(inputs),
            "outputs": list(outputs),
        }

    def _records(self, name: str) -> Iterator[Row]:
        rows = records_of(self._view.tables, self._run["run_id"], name)
        return (check_stored(TABLES[name], row) for row in rows)
