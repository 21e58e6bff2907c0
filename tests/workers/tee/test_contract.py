"""The wire contract: names and numbers, and generated code that is what the file generates."""

import subprocess
import sys
from pathlib import Path

import pytest

from workers.tee import tee_pb2 as wire

ROOT = Path(__file__).parents[3]
GENERATED = ("tee_pb2.py", "tee_pb2.pyi")

NUMBERS = {
    "HypothesisDelta": "nodes=1 edges=2",
    "HypothesisMergeResult": "created_ids=1 merged_ids=2 conflicts=3",
    "MergeConflict": "id=1 field=2 existing_value=3 proposed_value=4",
    "CreateIncidentRequest": "incident_id=1",
    "CreateIncidentResult": "incident_id=1 created=2",
    "IncidentContextRequest": "incident_id=1",
    "IncidentContext": "incident_id=1 created_at=2 tombstones=3",
    "NodeTombstoneRequest": "incident_id=1 node_ids=2 provenance=3",
    "EdgeTombstoneEntry": "source=1 target=2 type=3",
    "EdgeTombstoneRequest": "incident_id=1 entries=2 provenance=3",
    "TombstoneMergeResult": "applied_ids=1 already_tombstoned_ids=2 unmatched_ids=3",
    "LiveViewRequest": "incident_id=1",
    "TombstoneRequest": "incident_id=1",
    "TombstoneSet": "node_ids=1 edge_entries=2",
    "CausalGraph": "nodes=1 edges=2",
    "Provenance": "source=1 timestamp=2 trigger=3",
    "Node": "id=1 type=2 label=3 hypothetical=4 provenance=5",
    "Edge": "source=1 target=2 type=3 provenance=4",
}

METHODS = {
    "MergeHypothesis": ("HypothesisDelta", "HypothesisMergeResult"),
    "CreateIncident": ("CreateIncidentRequest", "CreateIncidentResult"),
    "GetIncidentContext": ("IncidentContextRequest", "IncidentContext"),
    "MergeNodeTombstones": ("NodeTombstoneRequest", "TombstoneMergeResult"),
    "MergeEdgeTombstones": ("EdgeTombstoneRequest", "TombstoneMergeResult"),
    "GetLiveView": ("LiveViewRequest", "CausalGraph"),
    "GetTombstones": ("TombstoneRequest", "TombstoneSet"),
    "GetMainGraph": ("Empty", "CausalGraph"),
}


def test_messages_and_methods_have_the_names_and_numbers_of_the_contract():
    messages = {
        name: " ".join(f"{field.name}={field.number}" for field in message.fields)
        for name, message in wire.DESCRIPTOR.message_types_by_name.items()
    }
    assert messages == NUMBERS
    service = wire.DESCRIPTOR.services_by_name["Tee"]
    assert service.full_name == "tee.Tee"
    assert {
        method.name: (method.input_type.name, method.output_type.name) for method in service.methods
    } == METHODS


def test_the_types_have_the_numbers_of_the_contract():
    assert dict(wire.NodeType.items()) == {
        "NODE_TYPE_UNSPECIFIED": 0,
        "NODE_TYPE_SERVICE": 1,
        "NODE_TYPE_DEPENDENCY": 2,
        "NODE_TYPE_INFRASTRUCTURE": 3,
        "NODE_TYPE_MECHANISM": 4,
    }
    assert dict(wire.EdgeType.items()) == {
        "EDGE_TYPE_UNSPECIFIED": 0,
        "EDGE_TYPE_DEPENDS_ON": 1,
        "EDGE_TYPE_PROPAGATES_TO": 2,
        "EDGE_TYPE_MANIFESTS_AS": 3,
    }


@pytest.mark.slow
def test_the_generated_code_is_what_the_file_generates(tmp_path):
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi")]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-Irotulus=."]
    subprocess.run([*protoc, *outputs, "rotulus/workers/tee/tee.proto"], cwd=ROOT, check=True)
    for name in GENERATED:
        generated = (tmp_path / "rotulus" / "workers" / "tee" / name).read_text()
        assert generated == (ROOT / "workers" / "tee" / name).read_text(), "make proto"
