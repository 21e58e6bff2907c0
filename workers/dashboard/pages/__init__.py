"""The pages: one row for each, with what answers its path."""

from workers.dashboard.pages import (
    actions,
    docs,
    explanations,
    operations,
    queues,
    requests,
    runs,
    sessions,
    workers,
)
from workers.dashboard.pages.page import PageRoute

ROUTES = (
    PageRoute("GET", "/queues/{queue}", queues.show),
    PageRoute("GET", "/queues/{queue}/requests/{request_id:path}", requests.show),
    PageRoute("POST", "/queues/{queue}/{verb}", actions.act),
    PageRoute("GET", "/requests", requests.index),
    PageRoute("GET", "/sessions", sessions.index),
    PageRoute("GET", "/sessions/{session_id:path}", sessions.show),
    PageRoute("GET", "/operations", operations.index),
    PageRoute("GET", "/operations/{operation_id:path}", operations.show),
    PageRoute("GET", "/workers/{worker_id}", workers.show),
    PageRoute("GET", "/runs", runs.show_all),
    PageRoute("GET", "/runs/{run_id}", runs.show),
    PageRoute("GET", "/runs/{run_id}/tokens/{token_id:path}", runs.show_token),
    PageRoute("GET", "/explain", explanations.show),
    PageRoute("GET", "/docs", docs.index),
    PageRoute("GET", "/docs/routes/{route_id}", docs.route),
    PageRoute("GET", "/docs/schemas/{name}", docs.schema),
)
