"""The pages: one row for each, with what answers its path."""

from workers.dashboard.pages import docs, explanations, record, runs, work
from workers.dashboard.pages.page import PageRoute

ROUTES = (
    PageRoute("GET", "/queues/{queue}", work.show_queue),
    PageRoute("GET", "/queues/{queue}/requests/{request_id:path}", work.show_request),
    PageRoute("POST", "/queues/{queue}/{verb}", work.act),
    PageRoute("GET", "/requests", work.list_requests),
    PageRoute("GET", "/sessions", record.list_sessions),
    PageRoute("GET", "/sessions/{session_id:path}", record.show_session),
    PageRoute("GET", "/operations", record.list_operations),
    PageRoute("GET", "/operations/{operation_id:path}", record.show_operation),
    PageRoute("GET", "/workers/{worker_id}", work.show_worker),
    PageRoute("GET", "/runs", runs.show_all),
    PageRoute("GET", "/runs/{run_id}", runs.show),
    PageRoute("GET", "/runs/{run_id}/tokens/{token_id:path}", runs.show_token),
    PageRoute("GET", "/explain", explanations.show),
    PageRoute("GET", "/docs", docs.index),
    PageRoute("GET", "/docs/routes/{route_id}", docs.route),
    PageRoute("GET", "/docs/schemas/{name}", docs.schema),
)
