"""Measures what the first page of each filter of requests costs, with very many on the ledger.

    python -m tests.bench.bench_request_search [--requests 1000000] [--postgresql]

The ledger is filled past the kernel, by rows as it would write them; requests were
given up or cancelled only among the oldest tenth, and every fourth has failed with one signature,
most of which were done later. The bound is CPU of this process and of a server of PostgreSQL.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.outbox import CANCELLED, COMPLETED, DEAD_LETTER, OPEN, SETTLED
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.tables import Store
from kernel.values.canonical import canonicalize
from kernel.values.host import iso_time
from kernel.work.bulk_operations import preview
from kernel.work.dead_letters import dead_letters
from kernel.work.request_lists import list_requests
from kernel.work.request_search import RequestSearch
from kernel.work.requests import request_id_of
from tests.bench.report import note
from tests.postgres import own_postgres
from workers.environment.system_host import system_host

QUEUES = ("binding-evaluation", "extraction-transition")
START_US = 1_800_000_000_000_000
TIMES = 20
FAILED = "ConnectionError in jobs.call: refused"
"""The signature of every fourth request."""

BOUND_MS = 50.0


def state_of(number: int, count: int) -> int:
    """Return how a request stands: dead letters and cancelled ones are of the oldest tenth."""
    if number < count // 10:
        return (DEAD_LETTER, SETTLED, CANCELLED, COMPLETED)[number % 4]
    return OPEN if number >= count - count // 20 else COMPLETED


def rows(count: int) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Yield the rows of requests, table by table, some thousand requests at a time."""
    numbers = iter(range(count))
    while part := list(islice(numbers, 5000)):
        tables: dict[str, list[dict[str, Any]]] = {
            name: []
            for name in (
                "outbox",
                "outbox_outcomes",
                "dead_letters",
                "request_tags",
                "request_failures",
            )
        }
        for number in part:
            add(tables, number, count)
        yield tables


def add(tables: dict[str, list[dict[str, Any]]], number: int, count: int) -> None:
    """Add the rows of a request."""
    state, queue = state_of(number, count), QUEUES[number % 2]
    request_id, item = request_id_of(queue, f"k-{number}"), f"item-{number // 50}"
    at_us, tags = START_US + number * 1000, {"customer": f"c-{number % 1000}"}
    document = {
        "request_id": request_id,
        "queue": queue,
        "item_key": item,
        "priority": "background",
        "request_key": f"k-{number}",
        "content": {"source_event_id": item},
        "tags": tags,
        "enqueued_at": iso_time(at_us),
    }
    shared = {"request_sequence": number + 1, "queue": queue}
    row = shared | {"request_id": request_id, "item_key": item, "priority": "background"}
    row |= {"cause_sequence": 0, "open": int(state == OPEN), "state": state}
    row |= {"enqueued_at_us": at_us, "request_bytes": canonicalize(document)}
    tables["outbox"].append(row)
    tables["request_tags"].append(shared | {"tag": f"customer=c-{number % 1000}", "state": state})
    if number % 2 == 0:
        tables["request_tags"].append(shared | {"tag": "plan=free", "state": state})
    if state != OPEN:
        names = {COMPLETED: "completed", CANCELLED: "cancelled"}
        outcome = {"request_id": request_id, "outcome": names.get(state, "dead_letter")}
        outcome |= {"operation_id": None, "closed_sequence": 0, "closed_at_us": at_us + 500}
        tables["outbox_outcomes"].append(outcome)
    if number % 8 in (2, 3):
        failure = shared | {"request_id": request_id, "error_signature": FAILED, "failures": 1}
        failure |= {"deliveries": 1, "snoozes": 0, "worker_ends": 0, "attempts": 1, "waits": 1}
        failure |= {"first_started_at_us": at_us, "next_attempt_at_us": at_us + 5_000_000}
        failure |= {"last_claim": f"claim-{number}", "policy_version": "p"}
        tables["request_failures"].append(failure)
    if state in (DEAD_LETTER, SETTLED):
        letter = {"error_signature": f"Error {number % 7}", "settled": int(state == SETTLED)}
        tables["dead_letters"].append(shared | letter)


def filled(store: Store, count: int) -> Ledger:
    """Fill a new ledger."""
    ledger = Ledger.create(store, system_host())
    for tables in rows(count):
        with store.transaction() as written:
            for name, part in tables.items():
                written.insert_many(schema.metadata.tables[name], part)
    with store.transaction() as written:
        written.update(schema.chain_head, ("main",), {"request_sequence": count})
    return ledger


def searches(count: int) -> dict[str, RequestSearch]:
    """Return a search for each filter that is offered, and for what has no index."""
    middle, queue = START_US + count // 2 * 1000, QUEUES[0]
    of_all = {
        "none": {},
        "queue": {"queue": queue},
        "item": {"item_key": "item-3"},
        "item, queue, state": {"item_key": "item-3", "queue": queue, "state": "dead_letter"},
        "key": {"request_key": f"k-{count // 3}"},
        "tag of few": {"tag": "customer=c-7"},
        "tag of half": {"tag": "plan=free"},
        "tag, dead_letter": {"tag": "customer=c-4", "state": "dead_letter"},
        "tag, cancelled, queue": {"tag": "plan=free", "state": "cancelled", "queue": queue},
        "signature": {"error_signature": "Error 3"},
        "signature, standing, queue": {
            "error_signature": "Error 4",
            "state": "standing",
            "queue": queue,
        },
        "failed": {"error_signature": FAILED},
        "failed, queue": {"error_signature": FAILED, "queue": queue},
        "failed, open": {"error_signature": FAILED, "state": "open"},
        "failed, open, queue": {"error_signature": FAILED, "state": "open", "queue": queue},
        "failed, open, tag": {"error_signature": FAILED, "state": "open", "tag": "plan=free"},
        "failed, completed, until": {
            "error_signature": FAILED,
            "state": "completed",
            "before_us": middle,
        },
        "failed, standing (bounded)": {"error_signature": FAILED, "state": "standing"},
        "failed, cancelled, queue (bounded)": {
            "error_signature": FAILED,
            "state": "cancelled",
            "queue": queue,
        },
        "failed, item (bounded)": {"error_signature": FAILED, "item_key": "item-3"},
        "since": {"from_us": middle},
        "until": {"before_us": START_US + 500_000},
        "until, completed, tag": {
            "before_us": middle,
            "state": "completed",
            "tag": "customer=c-11",
        },
        "nothing fits": {"tag": "customer=nobody", "state": "dead_letter"},
        "priority (bounded)": {"priority": "critical"},
        "words (bounded)": {"words": "nobody said"},
    }
    by_state = {
        f"state={state}": {"state": state}
        for state in ("open", "completed", "dead_letter", "cancelled", "standing")
    }
    return {name: RequestSearch(**stated) for name, stated in (by_state | of_all).items()}


def measured(ask: Callable[[], Any], server_s: Callable[[], float]) -> tuple[float, float, Any]:
    """Return the CPU that a question took here and of a server, in ms, and its answer.

    Here it is the least of some times, of the server the mean: it tells whole ticks of 10 ms.
    """
    taken = []
    answer = ask()
    of_server = server_s()
    for _ in range(TIMES):
        begun = time.process_time()
        answer = ask()
        taken.append((time.process_time() - begun) * 1000)
    return min(taken), (server_s() - of_server) * 1000 / TIMES, answer


def report(ledger: Ledger, count: int, server_s: Callable[[], float] = lambda: 0.0) -> None:
    """Print what each filter costs."""
    note(f"{'':36} {'here':>8}    {'server':>8}")
    for name, search in searches(count).items():

        def ask(search: RequestSearch = search) -> Any:
            with ledger.view() as view:
                return list_requests(view, search, after=None, limit=50)

        line(name, *measured(ask, server_s), lambda page: len(page.requests))
    for name, queue in (("dead letters", None), ("dead letters of a queue", QUEUES[0])):

        def list_dead(queue: str | None = queue) -> Any:
            with ledger.view() as view:
                return dead_letters(view, queue, error_signature=None, after=None, limit=50)

        line(name, *measured(list_dead, server_s), lambda page: len(page.dead_letters))

    beside = {
        "bulk preview": ("requeue", RequestSearch(QUEUES[0])),
        "bulk preview, failed": ("cancel", RequestSearch(error_signature=FAILED)),
    }
    note("beside the bound:")
    for name, (verb, counted) in beside.items():

        def count_bulk(verb: Any = verb, counted: RequestSearch = counted) -> Any:
            with ledger.view() as view:
                return preview(view, verb, counted)

        line(name, *measured(count_bulk, server_s), lambda answer: answer.count)


def line(
    name: str, cpu_ms: float, server_ms: float, answer: Any, size: Callable[[Any], int]
) -> None:
    over = "  OVER" if cpu_ms + server_ms > BOUND_MS else ""
    note(f"{name:36} {cpu_ms:8.2f} ms {server_ms:8.2f} ms  {size(answer):>7} rows{over}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args()
    if options.postgresql:
        from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

        with own_postgres() as server:
            url = server.new_database()
            ledger = filled(PostgresStore(url), options.requests)
            with psycopg.connect(url, autocommit=True) as connection:
                # Else the server does it while what it uses is measured.
                connection.execute("VACUUM ANALYZE")
            report(ledger, options.requests, server.cpu_s)
            ledger.close()
        return
    with tempfile.TemporaryDirectory(prefix="search-") as folder:
        path = Path(folder) / "ledger.db"
        ledger = filled(SqliteStore(path), options.requests)
        report(ledger, options.requests)
        ledger.close()


if __name__ == "__main__":
    main()
