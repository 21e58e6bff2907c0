"""Lists every metric, by the process that has it; `deploy/metrics.md` shows the same table.

A reading that is not in the table fails (decision workers/0043).

Labels have few values, known before: names of queues, priorities, routes, outcomes. None holds an
id, a name that a caller chose, or content.
"""

from dataclasses import dataclass
from typing import Literal

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAIT_SECONDS = (
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
    30.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    14_400.0,
    86_400.0,
)
BATCH = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; a histogram has buckets, the value of any other is read at a scrape."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "gauge", labels, meaning)


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "counter", labels, meaning)


def _histogram(name: str, buckets: tuple[float, ...], meaning: str, *labels: str) -> Metric:
    return Metric(name, "histogram", labels, meaning, buckets)


_SPANS = _counter(
    "rotulus_trace_spans_total",
    "Spans of traces: exported to the collector, dropped for want of room or of an answer",
    "outcome",
)

_DROPPED = _counter(
    "rotulus_redis_values_dropped_total",
    "Values in Redis that no fleet writes and this process dropped",
    "kind",
)

_BUILD = _gauge(
    "rotulus_build_info",
    "1, with the release and the versions of the fleet's protocol and of the kernel's rules",
    "version",
    "protocol",
    "rules_version",
)

_UP = _gauge(
    "rotulus_dependency_up",
    "1 where it serves: Redis as a write by a script of ours says, the others where they could be "
    "read for this answer",
    "dependency",
)

GATEWAY: tuple[Metric, ...] = (
    # Of the fleet: every gateway tells the same.
    _gauge("rotulus_queue_ready_items", "Items that wait for a claim", "queue", "priority"),
    _gauge("rotulus_queue_suspended_items", "Items that wait for capacity", "queue", "priority"),
    _gauge(
        "rotulus_queue_oldest_eligible_age_seconds",
        "Age of the item that is served next, 0 where none waits",
        "queue",
        "priority",
    ),
    _gauge(
        "rotulus_queue_service_target_seconds",
        "Age below which the items of a priority should be served",
        "queue",
        "priority",
    ),
    _gauge("rotulus_queue_paused", "1 where claims pass over the priority", "queue", "priority"),
    _gauge(
        "rotulus_queue_items",
        "Items that are delayed, in_flight or dead; delayed are also requests that are not due yet",
        "queue",
        "state",
    ),
    _gauge("rotulus_lease_slots_held", "Slots that are leased now", "resource"),
    _gauge("rotulus_lease_slots", "Slots that may be leased at once", "resource"),
    _gauge("rotulus_workers_alive", "Workers whose last beat has not expired"),
    _gauge("rotulus_requests_open", "Requests on the record without an outcome", "queue"),
    _gauge(
        "rotulus_requests_oldest_open_age_seconds",
        "Age of the oldest request without an outcome, 0 where there is none",
        "queue",
    ),
    _gauge(
        "rotulus_requests_held",
        "Due requests without an item of their own: held back, on their way, or joined to another",
        "queue",
    ),
    _counter("rotulus_requests_recorded_total", "Requests on the record"),
    _counter(
        "rotulus_requests_closed_total",
        "Requests by queue and by how they ended; absent until the past was read once",
        "queue",
        "outcome",
    ),
    _gauge(
        "rotulus_implications_halted",
        "Loops of implications, or detectors, that wait for a person",
        "reason",
    ),
    _gauge(
        "rotulus_checkpoint_rows",
        "Rows under the published checkpoint, by its verdict; none where nothing is published",
        "verdict",
    ),
    _gauge(
        "rotulus_checkpoint_cosignatures",
        "Witnesses of the policy that have cosigned the published checkpoint",
    ),
    _gauge(
        "rotulus_checkpoint_refused",
        "1 where this gateway has a key and publishes nothing, by why",
        "code",
    ),
    _gauge("rotulus_chain_height", "Sequence number of the newest row of the log"),
    _gauge("rotulus_receipt_chain_height", "Sequence number of the newest durable receipt"),
    # Of this process.
    _BUILD,
    _UP,
    _gauge("rotulus_shards", "Shards of the ledger"),
    _gauge("rotulus_shards_owned", "Shards that this gateway owns"),
    _gauge(
        "rotulus_ledger_went_back",
        "Whether the ledger went back behind what was answered, so that nothing is answered",
    ),
    _gauge("rotulus_sessions_active", "Sessions whose actor is in memory"),
    _gauge("rotulus_sessions_corrupt", "Sessions whose record does not verify"),
    _gauge(
        "rotulus_records_damaged",
        "Damaged records with which nobody has dealt, quarantined ranges of the log among them",
        "table",
    ),
    _gauge("rotulus_mailbox_messages", "Messages that wait in all mailboxes of actors"),
    _gauge("rotulus_mailbox_messages_max", "Messages that wait in the fullest mailbox"),
    _gauge("rotulus_mailbox_limit", "Messages beyond which one mailbox refuses"),
    _counter(
        "rotulus_mail_refused_total",
        "Mail of gateways that was refused: entry or answer not sealed here, earlier_key, expired, "
        "replayed, clocks_differ",
        "what",
    ),
    _DROPPED,
    _gauge("rotulus_commit_waiting", "Callers that wait for the next commit"),
    _counter(
        "rotulus_operations_total",
        "Operations that were answered: accepted, duplicate, rejected",
        "outcome",
    ),
    _counter("rotulus_rejections_total", "Operations that a check refused", "check"),
    _counter("rotulus_commits_total", "Transactions: committed, rolled_back", "outcome"),
    _histogram("rotulus_commit_batch_units", BATCH, "Units in one commit"),
    _histogram(
        "rotulus_commit_duration_seconds", SECONDS, "From the first unit until COMMIT returned"
    ),
    _gauge(
        "rotulus_http_requests_in_flight",
        "Requests that have a place: of producers, workers, pages, streams",
        "asker",
    ),
    _gauge("rotulus_http_requests_limit", "Places for requests", "asker"),
    _counter(
        "rotulus_http_requests_refused_total",
        "Requests that were refused unread for want of a place (gateway_full)",
        "asker",
    ),
    _counter(
        "rotulus_access_refused_total",
        "Requests that were refused for who asked: unauthenticated, access_denied",
        "code",
    ),
    _counter(
        "rotulus_principal_limited_total",
        "Requests of principals that were at a limit (principal_limited)",
        "limit",
    ),
    _gauge("rotulus_principals", "Principals of which is remembered what they use here"),
    _counter("rotulus_http_requests_total", "Requests answered", "method", "route", "status"),
    _histogram(
        "rotulus_http_request_duration_seconds",
        SECONDS,
        "From a request until its answer begins",
        "route",
    ),
    _SPANS,
)

WORKER: tuple[Metric, ...] = (
    _BUILD,
    _DROPPED,
    _UP,
    _gauge("rotulus_worker_slots", "Batches that this worker drains at once"),
    _gauge("rotulus_worker_items_in_flight", "Items in hand", "queue"),
    _counter(
        "rotulus_worker_items_total",
        "Items by how their claim ended: completed, failed, put_off, dropped (not on the record)",
        "queue",
        "outcome",
    ),
    _counter("rotulus_worker_dead_letters_total", "Items given up for good", "queue"),
    _histogram("rotulus_worker_batch_items", BATCH, "Items in one batch", "queue"),
    _histogram(
        "rotulus_worker_batch_duration_seconds",
        SECONDS,
        "From a claim until every item of it was settled",
        "queue",
    ),
    _histogram(
        "rotulus_worker_queue_wait_seconds",
        WAIT_SECONDS,
        "From enqueuing until a delivery before which no other counted as an attempt",
        "queue",
        "priority",
    ),
    _SPANS,
)
