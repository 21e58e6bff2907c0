"""Lists for each route of the pages what is asked for of it, in a state of trouble and in peace.

`{name}` stands for something of the state (`Trouble.names`), as a part of a URL. A route without an
example fails a test, so whoever adds one adds its examples here.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

OVERVIEW = "/"


class Example(NamedTuple):
    """What is asked for, and with which status it is answered."""

    path: str
    status: int = 200
    is_page: bool = True
    """Whether it is a page of the dashboard, and not a file that somebody downloads."""


EXAMPLES: Mapping[str, Sequence[Example]] = {
    OVERVIEW: [Example("/")],
    "/login": [Example("/login?next=queues")],
    "/login/provider": [Example("/login/provider", 401)],
    "/login/provider/answer": [Example("/login/provider/answer", 401)],
    "/queues/{queue}": [
        Example("/queues/{jobs}"),
        Example("/queues/binding-evaluation?since=2026-01-31T12:00&until=never"),
        Example("/queues/authority-recompute?state=cancelled"),
        Example("/queues/{odd}", 404),
    ],
    "/queues/{queue}/requests/{request_id:path}": [
        Example("/queues/{jobs}/requests/{open}"),
        Example("/queues/{jobs}/requests/{dead}"),
        Example("/queues/{jobs}/requests/{dead too}"),
        Example("/queues/{jobs}/requests/{retried}"),
        Example("/queues/{jobs}/requests/{cancelled}"),
        Example("/queues/{jobs}/requests/{done}"),
        Example("/queues/{jobs}/requests/{hostile}", 404),
    ],
    "/queues": [Example("/queues")],
    "/record": [Example("/record")],
    "/workers": [Example("/workers")],
    "/schedules": [Example("/schedules")],
    "/operator-log": [Example("/operator-log")],
    "/nodes/{node_id:path}": [
        Example("/nodes/{understanding}"),
        Example("/nodes/{understanding}?at=70"),
        Example("/nodes/{hostile}", 404),
    ],
    "/bindings": [Example("/bindings")],
    "/bindings/{binding_id:path}": [
        Example("/bindings/{binding}"),
        Example("/bindings/{hostile}", 404),
    ],
    "/manifests/{source_event_id:path}": [Example("/manifests/{hostile}", 404)],
    "/fleet": [Example("/fleet")],
    "/reviews": [Example("/reviews")],
    "/requests": [
        Example("/requests"),
        Example("/requests?state=dead_letter&words={hostile}&until=never"),
        Example("/requests?tag=customer%3Dacme"),
    ],
    "/requests.csv": [Example("/requests.csv", is_page=False)],
    "/requests.jsonl": [Example("/requests.jsonl", is_page=False)],
    "/failures": [Example("/failures")],
    "/bulk-operations": [Example("/bulk-operations")],
    "/bulk-operations/preview": [
        Example("/bulk-operations/preview?verb=cancel&tag=customer%3Dacme"),
        Example("/bulk-operations/preview?verb=requeue&request_key=dead+as+well"),
        Example("/bulk-operations/preview?verb=requeue&state=standing"),
        Example("/bulk-operations/preview?verb=dismiss&queue={jobs}"),
        Example("/bulk-operations/preview?verb=prioritize&queue={jobs}"),
        Example("/bulk-operations/preview?verb={hostile}", 404),
    ],
    "/bulk-operations/{bulk_number}": [
        Example("/bulk-operations/{bulk}"),
        Example("/bulk-operations/{odd}", 404),
    ],
    "/sessions": [Example("/sessions"), Example("/sessions?words={hostile}")],
    "/sessions/{session_id:path}": [
        Example("/sessions/{session}"),
        Example("/sessions/{session}?before=6"),
        Example("/sessions/{session}?at=40"),
        Example("/sessions/{hostile}", 404),
    ],
    "/operations": [Example("/operations"), Example("/operations?entity={hostile}")],
    "/operations/{operation_id:path}": [
        Example("/operations/{operation}"),
        Example("/operations/{quarantined}"),
        Example("/operations/{refused}"),
        Example("/operations/{hostile}", 404),
    ],
    "/workers/{worker_id:path}": [
        Example("/workers/{worker}"),
        Example("/workers/{late}"),
        Example("/workers/{gone}", 404),
    ],
    "/runs": [Example("/runs"), Example("/runs?status=failed")],
    "/runs/{run_id:path}": [
        Example("/runs/{run}"),
        Example("/runs/{failed_run}"),
        Example("/runs/run-damaged", 500),
        Example("/runs/{sealed_run}", 409),
        Example("/runs/{hostile}", 404),
    ],
    "/runs/{run_id:path}/tokens/{token_id:path}": [
        Example("/runs/{run}/tokens/{token}"),
        Example("/runs/{run}/tokens/{hostile}", 404),
    ],
    "/search": [Example("/search"), Example("/search?q={hostile}"), Example("/search?q=acme")],
    "/explain": [
        Example("/explain"),
        Example("/explain?id={operation}"),
        Example("/explain?id={understanding}"),
        Example("/explain?id={session}&hypothesis={hostile}"),
        Example("/explain?id={hostile}", 404),
    ],
    "/exhibit": [Example("/exhibit?id={operation}", 409), Example("/exhibit?id={hostile}", 409)],
    "/docs": [Example("/docs")],
    "/docs/routes/{route_id}": [
        Example("/docs/routes/enqueue_v1_queues__queue__requests_post"),
        Example("/docs/routes/{odd}", 404),
    ],
    "/docs/schemas/{name}": [
        Example("/docs/schemas/RequestBody"),
        Example("/docs/schemas/{odd}", 404),
    ],
}


def examples(names: Mapping[str, str], of_route_max: int | None = None) -> list[Example]:
    """Return the examples of every route, or its first ones, for things with these names."""
    in_urls = {name: quote(value, safe="") for name, value in names.items()}
    return [
        example._replace(path=example.path.format(**in_urls))
        for of_route in EXAMPLES.values()
        for example in of_route[:of_route_max]
    ]


def examples_of_peace() -> list[Example]:
    """Return the examples that are about nothing in particular, which every gateway has."""
    return [
        example
        for of_route in EXAMPLES.values()
        for example in of_route
        if "{" not in example.path and example.status == 200 and example.is_page
    ]
