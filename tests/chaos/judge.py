"""Whether a record keeps what its fleet promised, held against the answers that were given.

A record is read as plain data, by SQL and `json`, so that no code that writes it has a say; only
its own verification is asked as well. Every check is a pure function that returns what is wrong,
and has a record, broken on purpose, in which it must find something.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import psycopg
from pydantic import SecretStr

from actors.sharding import SHARDS_DEFAULT
from actors.sharding.assignment import shard_of
from tests.chaos.witness import Note, notes, role_of
from tests.system.extractions import STATES
from workers.environment.ledger_verification import verify_file

Answer = Mapping[str, Any]

VERB_OF_INTENT: Mapping[str, str] = MappingProxyType(
    {
        "create_source": "create",
        "synthesize_cu": "create",
        "create_claim": "create",
        "field_adapt": "field_adapt",
        "complete_phase": "field_adapt",
        "source_binding_create": "source_binding_create",
    }
)


@dataclass(frozen=True, slots=True)
class LogRow:
    sequence: int
    operation: str
    verb: str
    prior_row_hash: str
    row_hash: str


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """A manifest, and what it says of each of its bindings."""

    manifest_id: str
    event: str
    cycle: int
    outcomes: Sequence[tuple[str, str, str | None, str, str]]
    """Outcome, binding, artifact, state and reason."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a ledger holds at the end of a run."""

    log: Sequence[LogRow]
    requests: Mapping[str, int]
    """Whether it is open, by request."""

    outcomes: Sequence[tuple[str, str]]
    """Request and outcome."""

    writes: Sequence[tuple[str, str]]
    """Node and operation, for each operation that wrote the node."""

    trails: Mapping[str, Sequence[str]]
    """The observations of each session, in order."""

    attempts: Mapping[str, Sequence[tuple[int, str]]]
    """Number and state of each step of each extraction, in the order of the log."""

    evaluations: Collection[str]
    """The requests for an evaluation of a binding."""

    manifests: Sequence[ManifestRow]
    """In the order of the log."""

    fires: Sequence[tuple[str, str, str]]
    """Binding, event and manifest of each record of a fire."""

    memberships: Sequence[str]
    """The membership that each effect wrote."""

    notes: Sequence[Note]
    authorities_equal: int
    authorities_pending: int
    findings: Sequence[str]


def read_record(url: str, *, witnessed: bool = True) -> Record:
    """Read a ledger of which nobody writes any more, and verify it.

    A ledger that was restored has no notes of the witness.
    """
    verification = verify_file(SecretStr(url), lambda _done, _total: None)
    with psycopg.connect(url) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query).fetchall()

        trails: dict[str, list[str]] = defaultdict(list)
        for session, event_bytes in rows(
            "SELECT session_id, event_bytes FROM belief_events ORDER BY session_id, event_index"
        ):
            event = json.loads(event_bytes)
            trail = trails[session]
            if event["verb"] != "DECLARE_SESSION":
                trail.append(event["payload"]["observation_id"])
        attempts: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for run, number, record in rows(
            "SELECT extraction_run_id, attempt_number, record FROM extraction_attempts"
            " JOIN kernel_event_log ON operation_id ="
            " convert_from(record, 'UTF8')::json ->> 'updated_by_operation_id'"
            " ORDER BY ec_sequence_number"
        ):
            attempts[run].append((number, json.loads(record)["current_state"]))
        return Record(
            log=[
                LogRow(*row)
                for row in rows(
                    "SELECT ec_sequence_number, operation_id, semantic_intent, prior_row_hash,"
                    " row_hash FROM kernel_event_log ORDER BY ec_sequence_number"
                )
            ],
            requests=dict(rows("SELECT request_id, open FROM outbox")),
            outcomes=rows("SELECT request_id, outcome FROM outbox_outcomes"),
            writes=rows(
                "SELECT DISTINCT record_key, operation_id FROM applied_effects"
                " JOIN kernel_event_log USING (ec_sequence_number) WHERE store = 'nodes'"
            ),
            evaluations=[
                request
                for (request,) in rows(
                    "SELECT request_id FROM outbox WHERE queue = 'binding-evaluation'"
                )
            ],
            manifests=[
                _manifest(*row)
                for row in rows(
                    "SELECT manifest_id, source_event_id, cycle, receipt_bytes"
                    " FROM binding_evaluation_manifests JOIN receipts USING (operation_id)"
                    " WHERE receipt_kind = 'binding_evaluation_manifest'"
                    " ORDER BY ec_sequence_number"
                )
            ],
            fires=[
                (fired["binding_id"], fired["source_event_id"], fired["manifest_id"])
                for (content,) in rows(
                    "SELECT receipt_bytes FROM receipts WHERE receipt_kind = 'binding_fire_record'"
                )
                for fired in (json.loads(content),)
            ],
            memberships=[
                key
                for (key,) in rows(
                    "SELECT record_key FROM applied_effects"
                    " WHERE store = 'corpus_membership_records'"
                )
            ],
            trails=dict(trails),
            attempts=dict(attempts),
            notes=notes(url) if witnessed else (),
            authorities_equal=verification.authorities_equal,
            authorities_pending=verification.authorities_pending,
            findings=[str(finding) for finding in verification.findings],
        )


def _manifest(manifest_id: str, event: str, cycle: int, content: bytes) -> ManifestRow:
    body = json.loads(content)
    artifacts = {
        evaluated["outcome_id"]: evaluated.get("evaluated_on", {}).get("artifact_ref")
        for evaluated in body["evaluations"]
    }
    outcomes = [
        (
            outcome["outcome_id"],
            outcome["binding_id"],
            artifacts.get(outcome["outcome_id"]),
            outcome["outcome_state"],
            outcome["outcome_reason_code"],
        )
        for outcome in body["binding_outcomes"]
    ]
    return ManifestRow(manifest_id, event, cycle, outcomes)


def one_outcome_for_each_request(record: Record, _: Sequence[Answer]) -> Iterator[str]:
    """Every request has exactly one outcome, and none is open."""
    outcomes = Counter(request for request, _outcome in record.outcomes)
    for request, is_open in record.requests.items():
        if outcomes[request] != 1 or is_open:
            yield f"{request}: {outcomes[request]} outcomes, open {is_open}"
    for request in outcomes.keys() - record.requests.keys():
        yield f"{request}: has an outcome and was never asked for"


def nothing_given_up(record: Record, _: Sequence[Answer]) -> Iterator[str]:
    """Nothing that was asked for is impossible, so that no request may be a dead letter."""
    for request, outcome in record.outcomes:
        if outcome != "completed":
            yield f"{request}: {outcome}"


def every_answer_on_record(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """What a producer was told is what the record says."""
    hashes = {row.operation: row.row_hash for row in record.log}
    for answer in answers:
        kind = answer["kind"]
        if kind == "operated":
            kept = hashes.get(answer["operation"]) == answer["row_hash"]
        elif kind == "requested":
            kept = answer["request"] in record.requests
        elif kind == "eliminated":
            kept = answer["observation"] in record.trails.get(answer["session"], ())
        elif kind == "declared":
            kept = answer["session"] in record.trails
        else:
            kept = kind in ("refused", "watched")
        if not kept:
            yield f"answered and not on the record: {dict(answer)}"


def nothing_of_what_was_refused(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """Where an answer says that nothing was taken, and nobody asked again, there is nothing."""
    written = {node for node, _operation in record.writes}
    for answer in answers:
        if answer["kind"] == "refused" and answer["node"] in written:
            yield f"refused with {answer['code']}, and on the record: {answer['node']}"


def no_effect_twice(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """Every key stands for one operation, and that alone wrote what was asked for under it."""
    yield from _repeated("operation", (row.operation for row in record.log))
    operations: dict[str, set[str]] = defaultdict(set)
    keys_by_verb: dict[tuple[str, str], set[str]] = defaultdict(set)
    for answer in answers:
        if answer["kind"] == "operated":
            operations[answer["intent_key"]].add(answer["operation"])
            keys_by_verb[answer["node"], VERB_OF_INTENT[answer["intent"]]].add(answer["intent_key"])
    for key, operation_ids in operations.items():
        if len(operation_ids) != 1:
            yield f"intent {key} was answered with {sorted(operation_ids)}"
    verbs = {row.operation: row.verb for row in record.log}
    done = Counter((node, verbs.get(operation)) for node, operation in record.writes)
    for (node, verb), keys in keys_by_verb.items():
        if done[node, verb] != len(keys):
            yield f"{verb} of {node}: asked {len(keys)} times, done {done[node, verb]} times"
    for session, trail in record.trails.items():
        yield from _repeated(f"observation of {session}", trail)
    for run, found_steps in record.attempts.items():
        yield from _repeated(f"step of {run}", (number for number, _state in found_steps))


def sessions_in_order(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """What one asker asked for one after the other stands in that order."""
    answered: dict[str, list[str]] = defaultdict(list)
    for answer in answers:
        if answer["kind"] == "eliminated":
            answered[answer["session"]].append(answer["observation"])
    for session, expected in answered.items():
        if (recorded := list(record.trails.get(session, ()))) != expected:
            expectation = f"{session}: {len(expected)} in the order of asking"
            yield f"{expectation}, the record has {recorded[-9:]}"


def no_stale_write(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """Whoever wrote for a session owned its shard on the record at that moment."""
    owners: dict[int, str] = {}
    answered = sum(answer["kind"] == "eliminated" for answer in answers)
    if (noted := sum(kind == "belief_events" for kind, *_ in record.notes)) < answered:
        yield f"{answered} eliminations were answered, {noted} were noted"
    for number, (kind, subject, name) in enumerate(record.notes):
        if kind == "shard":
            owners[int(subject)] = name
            continue
        owner = owners.get(shard_of(subject, SHARDS_DEFAULT), "")
        if name != role_of(owner):
            yield f"note {number}: {name} wrote {kind} of {subject}, which {owner!r} owned"


def one_chain(record: Record, _: Sequence[Answer]) -> Iterator[str]:
    """The log is one chain without a gap, and the whole record verifies."""
    prior = "0" * 64
    for number, row in enumerate(record.log, start=1):
        if row.sequence != number or row.prior_row_hash != prior:
            yield f"row {row.sequence} does not follow row {number - 1}"
        prior = row.row_hash
    yield from record.findings


def authorities_from_scratch(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """Every understanding's authority is what a computation from scratch gives."""
    synthesized = {answer["node"] for answer in answers if answer.get("intent") == "synthesize_cu"}
    if record.authorities_pending or record.authorities_equal < len(synthesized):
        yield (
            f"{len(synthesized)} understandings: {record.authorities_equal} equal,"
            f" {record.authorities_pending} pending"
        )


def extractions_in_order(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """Every extraction has all of its steps, in their order on the log."""
    expected = list(enumerate(STATES[1:], start=1))
    for run, numbers in record.attempts.items():
        if list(numbers) != expected:
            yield f"{run}: {list(numbers)}"
    runs = sum(answer.get("queue") == "extraction" for answer in answers) // len(expected)
    if len(record.attempts) != runs:
        yield f"{runs} extractions were asked for, the record has {len(record.attempts)}"


def one_manifest_for_each_cycle(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """The cycles of every event are numbered from 1, and each has ended with one manifest."""
    yield from _repeated("manifest", (manifest.manifest_id for manifest in record.manifests))
    cycles: dict[str, list[int]] = defaultdict(list)
    for manifest in record.manifests:
        cycles[manifest.event].append(manifest.cycle)
    for event, numbers in cycles.items():
        if numbers != [*range(1, len(numbers) + 1)]:
            yield f"{event}: cycles {numbers}"
    named = {
        artifact for manifest in record.manifests for _, _, artifact, _, _ in manifest.outcomes
    }
    for answer in answers:
        if answer["kind"] == "watched" and answer["artifact"] not in named:
            yield f"{answer['artifact']}: was brought, and is in no manifest"


def one_outcome_for_each_binding(record: Record, answers: Sequence[Answer]) -> Iterator[str]:
    """Every binding that was evaluated against an event has one outcome in its manifests."""
    ended = [
        outcome
        for manifest in record.manifests
        for outcome in manifest.outcomes
        if outcome[3] != "pending"
    ]
    times = Counter(outcome_id for outcome_id, *_ in ended)
    for request in record.evaluations:
        if (number := times[f"outcome:{request}"]) != 1:
            yield f"{request}: {number} outcomes in manifests"
    reasons: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for _, binding, artifact, _, reason in ended:
        reasons[binding, artifact].append(reason)
    for answer in answers:
        for binding in answer["bindings"] if answer["kind"] == "watched" else ():
            if (came_to := reasons[binding, answer["artifact"]]) != ["binding_fired"]:
                yield f"{binding} on {answer['artifact']}: {came_to}"


def nothing_fires_twice(record: Record, _: Sequence[Answer]) -> Iterator[str]:
    """A binding fires once on an event, its manifest says so, and it wrote once."""
    yield from _repeated("fire of", ((binding, event) for binding, event, _ in record.fires))
    yield from _repeated("membership", record.memberships)
    fired = Counter(
        (binding, manifest.event, manifest.manifest_id)
        for manifest in record.manifests
        for _, binding, _, _, reason in manifest.outcomes
        if reason == "binding_fired"
    )
    for fire in fired.keys() ^ set(record.fires):
        yield f"{fire}: its record and its manifest do not name each other"
    yield from (f"{fire}: {number} times" for fire, number in fired.items() if number > 1)


def _repeated(subject: str, values: Any) -> Iterator[str]:
    for value, times in Counter(values).items():
        if times > 1:
            yield f"{subject} {value}: {times} times"


Check = Callable[[Record, Sequence[Answer]], Iterator[str]]

CHECKS: tuple[Check, ...] = (
    one_outcome_for_each_request,
    nothing_given_up,
    every_answer_on_record,
    nothing_of_what_was_refused,
    no_effect_twice,
    sessions_in_order,
    no_stale_write,
    one_chain,
    authorities_from_scratch,
    extractions_in_order,
    one_manifest_for_each_cycle,
    one_outcome_for_each_binding,
    nothing_fires_twice,
)


def judge(record: Record, answers: Sequence[Answer]) -> dict[str, list[str]]:
    """Return what each check finds, for the checks that find something."""
    by_check = {check.__name__: list(check(record, answers)) for check in CHECKS}
    return {name: wrong for name, wrong in by_check.items() if wrong}
