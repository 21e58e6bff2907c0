"""Lists what needs somebody, a sentence for each thing with the command for it."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from queues.queue.priorities import priorities_of
from workers.environment.diagnosis import DAMAGED
from workers.environment.output import command_line

PARTS: Final = {
    "queues": "/v1/queues",
    "set_aside": "/v1/shards/set-aside",
    "implications": "/v1/implications",
    "tree": "/v1/tree",
    "checkpoint": "/v1/checkpoint",
    "archive": "/v1/archive",
    "runs": "/v1/landscape/diagnose",
}
"""What is asked besides readiness, by its name in the JSON."""

_rotulus: Final = partial(command_line, "rotulus")

_CHECKPOINT_HELP: Final = (
    "`rotulus doctor` looks at keys and tiles; ROTULUS_CHECKPOINT_KEY, or the policy of"
    " ROTULUS_WITNESS_POLICY, says which key counts"
)


def attention(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each thing that somebody should look at, with the command for it."""
    problems = dict(state["readiness"].get("problems", {}))
    if (quarantine := problems.pop("quarantine", None)) is not None:
        yield f"quarantined: {quarantine}"
    if (went_back := problems.pop("ledger_went_back", None)) is not None:
        # Nothing else is answered until that is decided.
        yield f"the ledger went back: {went_back}"
        return
    for name in problems.keys() & DAMAGED:
        yield f"damaged: {problems.pop(name)}"
    for name, problem in problems.items():
        yield f"the gateway is not ready: {name}: {problem}"
    for name in PARTS:
        if "error" in state[name]:
            yield f"the gateway does not answer {PARTS[name]}: {state[name]['error']}"
    yield from _queue_attention(state["queues"])
    if set_aside := state["set_aside"].get("set_aside"):
        yield f"{len(set_aside)} requests are set aside, because they ended their takers"
    yield from _checkpoint_attention(state["checkpoint"])
    for halt in state["implications"].get("halts", []):
        what = halt["operation_kind"] or f"detector {halt['detector']}"
        yield f"{what} is halted: {_rotulus('implications', 'resume', halt['halt_id'])}"
    yield from _runs_attention(state)


def _checkpoint_attention(state: Mapping[str, Any]) -> Iterator[str]:
    problem, checkpoint = state.get("problem"), state.get("checkpoint") or {}
    if problem is not None:
        yield f"the log is not published: {problem['code']}: {problem['message']}"
    elif checkpoint.get("verdict") in ("invalid", "diverged"):
        yield f"the published checkpoint is {checkpoint['message']}: {_CHECKPOINT_HELP}"
    elif checkpoint and not checkpoint["quorum_met"]:
        yield f"the published checkpoint is {checkpoint['message']}: its witnesses do not answer"


def _runs_attention(state: Mapping[str, Any]) -> Iterator[str]:
    # A quarantine has its own sentence, and so have requests that a gateway's queues gave up.
    elsewhere = {"run_quarantined", *(("failed_tokens",) if "queues" in state["queues"] else ())}
    for problem in state["runs"].get("problems", []):
        if problem["severity"] != "INFO" and problem["type"] not in elsewhere:
            run_id, message = problem["run_id"], problem["message"]
            look = _rotulus("landscape", "report", run_id, "failure_context")
            yield f"run {run_id}: {message}: {look}"


def _queue_attention(state: Mapping[str, Any]) -> Iterator[str]:
    queues = state.get("queues", {})
    for pause in state.get("pauses", []):
        place = " ".join(filter(None, (pause["queue"], pause["priority"])))
        by = f" by {pause['decided_by']}" if pause["decided_by"] else ""
        of_priority = ("--priority", pause["priority"]) if pause["priority"] else ()
        yield f"{place} is paused{by}: {_rotulus('queues', 'resume', pause['queue'], *of_priority)}"
    served = {queue for worker in state.get("fleet", []) for queue in worker["queues"]}
    for worker_id in state.get("late_workers", []):
        yield f"{worker_id} missed a beat: if it is dead, others take over what it had in hand"
    for name, queue in queues.items():
        if name not in served:
            yield f"no worker serves {name}: {_rotulus('worker', '--queues', name)}"
        if queue["dead"]:
            dead = _rotulus("queues", "dead", name)
            yield f"{queue['dead']} of {name} were given up: {dead}"
        for priority in priorities_of(name):
            age_ms = queue["oldest_eligible_age_ms"].get(priority.name, 0)
            if age_ms > priority.service_target_ms:
                target_s = priority.service_target_ms / 1000
                waited = f"{age_ms / 1000:.0f} s, its target is {target_s:.0f} s"
                yield f"{name} {priority.name} is late: the oldest has waited {waited}"
