"""A small run as a pipeline would record it, and its seal as the orchestrator would state it."""

from typing import Any

from kernel.landscape.canonical_types import typed_data
from kernel.landscape.recorder import Recorder
from kernel.landscape.run_checkpoints import FORMAT_VERSION, topology_of
from kernel.landscape.seals import seal_to_state
from kernel.ledger.ledger import Ledger
from tests.kernel.build import effect, envelope, submit

GRAPH = (
    ("source", "source", "io_read"),
    ("parse", "transform", "deterministic"),
    ("classify", "transform", "external_call"),
    ("gate", "gate", "deterministic"),
    ("gather", "aggregation", "deterministic"),
    ("sure", "sink", "io_write"),
    ("unsure", "sink", "io_write"),
)
EDGES = (
    ("source", "parse", "continue"),
    ("parse", "classify", "continue"),
    ("classify", "gate", "continue"),
    ("gate", "sure", "sure"),
    ("gate", "unsure", "unsure"),
)


def begin(recorder: Recorder, run_id: str = "run-1") -> dict[str, str]:
    """Begin a run and register its graph; return the ids of the edges by their labels."""
    recorder.begin_run({"threshold": 0.5}, run_id=run_id, source_schema={"text": "str"})
    for place, (node_id, node_type, determinism) in enumerate(GRAPH):
        recorder.register_node(
            run_id,
            node_id,
            f"{node_id}-plugin",
            node_type,
            {"node": node_id},
            determinism=determinism,
            sequence=place,
        )
    return {
        label: recorder.register_edge(run_id, start, end, label)["edge_id"]
        for start, end, label in EDGES
    }


def begin_with_token(recorder: Recorder, run_id: str = "run-1") -> None:
    """Begin a run with a row `r` and its token `t`."""
    begin(recorder, run_id)
    recorder.create_row(run_id, "source", 1000, {"row": "r"}, row_id="r")
    recorder.create_token(run_id, "r", token_id="t")  # noqa: S106 - an id


def checkpoint(
    recorder: Recorder, run_id: str, token_id: str, number: int, state: Any = None
) -> None:
    """Record a checkpoint as a pipeline does."""
    recorder.flush()
    recorder.record_of(
        run_id,
        "checkpoints",
        token_id=token_id,
        node_id="source",
        sequence_number=number,
        aggregation_state_json=None if state is None else typed_data(state).decode(),
        topology_hash=recorder.ledger.read(lambda view: topology_of(view, run_id)),
        node_config_hash="ab" * 32,
        format_version=FORMAT_VERSION,
    )
    recorder.flush()


def step(recorder: Recorder, token: Any, node: str, place: int, data: Any, **fields: Any) -> Any:
    run_id = token["run_id"]
    state = recorder.begin_node_state(run_id, token["token_id"], node, place, data)
    fields = {"output": data, **fields}
    return recorder.complete_node_state(
        run_id, state["state_id"], "completed", duration_us=1500, **fields
    )


def whole_run(recorder: Recorder, run_id: str = "run-1") -> dict[str, Any]:
    """Record a run that has a record in every table, and end it; return what a test asks for."""
    edges = begin(recorder, run_id)
    operation = recorder.begin_operation(run_id, "source", "source_load", input_data={"path": "a"})
    recorder.record_call(
        run_id,
        "filesystem",
        "success",
        {"open": "a"},
        operation_id=operation["operation_id"],
        response={"bytes": 9},
        latency_us=70,
    )
    recorder.complete_operation(run_id, operation["operation_id"], "completed", duration_us=90)
    row = recorder.create_row(run_id, "source", 0, {"text": "Motion GRANTED"}, keep_payload=True)
    token = recorder.create_token(run_id, row["row_id"])
    step(recorder, token, "parse", 0, {"text": "Motion GRANTED"})
    state = recorder.begin_node_state(run_id, token["token_id"], "classify", 1, {"text": "x"})
    for answer in ("granted", "denied"):
        recorder.record_call(
            run_id,
            "llm",
            "success",
            {"ask": answer},
            state_id=state["state_id"],
            response={"answer": answer},
            latency_us=1200,
            keep_payloads=True,
        )
    recorder.complete_node_state(
        run_id, state["state_id"], "completed", output={"label": "granted"}, duration_us=5000
    )
    branches = recorder.fork_token(run_id, token, ["sure", "unsure"], step=2)
    gate = step(recorder, branches[0], "gate", 2, {"confidence": 0.75})
    recorder.record_routing_event(
        run_id, gate["state_id"], edges["sure"], "move", {"because": 0.75}
    )
    merged = recorder.coalesce_tokens(run_id, branches, step=3)
    parts = recorder.expand_token(run_id, merged, 3, step=4)
    batch = recorder.create_batch(run_id, "gather")
    for place, part in enumerate(parts[:2]):
        recorder.add_batch_member(run_id, batch["batch_id"], part["token_id"], place)
    recorder.update_batch(run_id, batch["batch_id"], "executing", trigger_type="count")
    recorder.complete_batch(run_id, batch["batch_id"], trigger_reason="2 of 2")
    out = recorder.consume_batch(run_id, batch["batch_id"], parts[:2])
    sink = step(recorder, out, "sure", 5, {"sum": 2})
    recorder.register_artifact(
        run_id, sink["state_id"], "sure", "file", "out.csv", "ab" * 32, 12, idempotency_key="k"
    )
    recorder.record_token_outcome(run_id, out["token_id"], "completed", sink_name="sure")
    failing = recorder.begin_node_state(run_id, parts[2]["token_id"], "classify", 4, {"text": "y"})
    recorder.complete_node_state(
        run_id, failing["state_id"], "failed", duration_us=10, error={"why": "no label"}
    )
    recorder.record_transform_error(
        run_id, parts[2]["token_id"], "classify", {"text": "y"}, {"why": "no label"}
    )
    recorder.record_token_outcome(run_id, parts[2]["token_id"], "failed", error_hash="cd" * 32)
    recorder.record_validation_error(run_id, {"text": 7}, "text is no string", node_id="source")
    checkpoint(recorder, run_id, out["token_id"], 1, {"sum": 2.0})
    return {"run_id": run_id, "row": row, "token": token, "branches": branches, "out": out}


def seal_envelope(stated: dict[str, Any]) -> dict[str, Any]:
    emitted = effect("receipt_only", **stated) | {"receipt_subkind": "landscape_run_sealed"}
    target = f"run:{stated['run_id']}"
    return envelope("landscape_run_seal", [emitted], actor="system", target_refs=[target])


def seal(ledger: Ledger, run_id: str = "run-1") -> Any:
    """Seal a run that has ended."""
    stated = ledger.read(lambda view: seal_to_state(view, run_id))
    return submit(ledger, seal_envelope(stated), submitter="orchestrator")
