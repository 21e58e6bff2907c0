"""The pages: one row for each, with what answers its path."""

from workers.dashboard.pages import (
    bindings,
    bulk,
    docs,
    explanations,
    fleet,
    login,
    past,
    record,
    requests,
    reviews,
    runs,
    search,
    work,
    workers,
)
from workers.dashboard.pages.page import PageRoute

ROUTES = (
    PageRoute("GET", "/login", "public", login.show),
    PageRoute("POST", "/login", "public", login.log_in),
    PageRoute("GET", "/login/provider", "public", login.begin_at_provider),
    PageRoute("GET", "/login/provider/answer", "public", login.end_at_provider),
    PageRoute("POST", "/logout", "public", login.log_out),
    PageRoute("GET", "/queues", "read.fleet", work.list_queues, "Queues"),
    PageRoute("GET", "/queues/{queue}", "read.fleet", work.show_queue, "Queues"),
    PageRoute(
        "GET",
        "/queues/{queue}/requests/{request_id:path}",
        "read.producers",
        requests.show_request,
        "Requests",
    ),
    PageRoute("POST", "/queues/{queue}/{verb}", "operate.queues", work.act, "Queues"),
    PageRoute("GET", "/requests", "read.requests", requests.list_requests, "Requests"),
    PageRoute("GET", "/requests.csv", "read.requests", requests.download_csv, "Requests"),
    PageRoute("GET", "/requests.jsonl", "read.requests", requests.download_json_lines, "Requests"),
    PageRoute("GET", "/failures", "read.requests", requests.list_failures, "Requests"),
    PageRoute("GET", "/bulk-operations", "operate.queues", bulk.list_all, "Requests"),
    PageRoute("GET", "/bulk-operations/preview", "operate.queues", bulk.preview, "Requests"),
    PageRoute("POST", "/bulk-operations", "operate.queues", bulk.begin, "Requests"),
    PageRoute("GET", "/bulk-operations/{bulk_number}", "operate.queues", bulk.show, "Requests"),
    PageRoute(
        "POST", "/bulk-operations/{bulk_number}/stop", "operate.queues", bulk.stop, "Requests"
    ),
    PageRoute("GET", "/sessions", "read.records", record.list_sessions, "Sessions"),
    PageRoute(
        "GET", "/sessions/{session_id:path}", "read.sessions", record.show_session, "Sessions"
    ),
    PageRoute("GET", "/nodes/{node_id:path}", "read.records", past.show_node, "Record"),
    PageRoute("GET", "/record", "read.records", record.show_record, "Record"),
    PageRoute("GET", "/operations", "read.records", record.list_operations, "Record"),
    PageRoute(
        "GET", "/operations/{operation_id:path}", "read.records", record.show_operation, "Record"
    ),
    PageRoute(
        "POST", "/operations/{operation_id:path}/undo", "review.operations", record.undo, "Record"
    ),
    PageRoute("GET", "/workers", "read.fleet", workers.list_workers, "Workers"),
    PageRoute("GET", "/workers/{worker_id:path}", "read.fleet", workers.show_worker, "Workers"),
    PageRoute("GET", "/schedules", "read.fleet", workers.list_schedules, "Workers"),
    PageRoute("GET", "/fleet", "read.fleet", fleet.show, "Fleet"),
    PageRoute("GET", "/operator-log", "read.operators", fleet.show_operator_log, "Fleet"),
    PageRoute("GET", "/bindings", "read.bindings", bindings.list_all, "Record"),
    PageRoute("GET", "/bindings/{binding_id:path}", "read.bindings", bindings.show, "Record"),
    PageRoute(
        "GET", "/manifests/{source_event_id:path}", "read.audit", bindings.show_manifests, "Record"
    ),
    PageRoute("GET", "/reviews", "read.reviews", reviews.show, "Reviews"),
    PageRoute("POST", "/reviews/decide", "review.items", reviews.decide, "Reviews"),
    PageRoute("GET", "/runs", "read.landscape", runs.show_all, "Runs"),
    PageRoute(
        "GET",
        "/runs/{run_id:path}/tokens/{token_id:path}",
        "read.landscape",
        runs.show_token,
        "Runs",
    ),
    PageRoute("GET", "/runs/{run_id:path}", "read.landscape", runs.show, "Runs"),
    PageRoute("GET", "/search", "read.records", search.show),
    PageRoute("GET", "/explain", "read.records", explanations.show, "Record"),
    PageRoute("GET", "/exhibit", "read.records", explanations.exhibit, "Record"),
    PageRoute("GET", "/docs", "public", docs.index),
    PageRoute("GET", "/docs/routes/{route_id}", "public", docs.route),
    PageRoute("GET", "/docs/schemas/{name}", "public", docs.schema),
)
