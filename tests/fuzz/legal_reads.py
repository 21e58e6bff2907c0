"""Legal reads: everything that a gateway shows, as JSON and as pages.

In a path, OWN is a name of the request's own, SESSION a session that hostile requests know, and
THOUGHTS a session of thoughts that they know.
"""

from typing import Final

from tests.fuzz.legal_request import ANY, OK, SHARED, THOUGHTS, LegalRequest, Names, get

_TIMES: Final = "since=2026-01-01T00:00:00Z&until=2027-01-01T00:00:00Z"
_SEARCH: Final = f"state=open&priority=critical&words=legal&session_id=s&{_TIMES}&limit=5"

READ_ALWAYS: Final = (
    "/healthz",
    "/metrics",
    "/",
    "/snapshot.json",
    "/openapi.json",
    "/v1/log?after=0&limit=5",
    "/v1/shards",
    "/v1/shards/set-aside",
    "/v1/gateways",
    "/v1/queues",
    "/v1/nodes/source-shared",
    "/v1/audit/operations?limit=5&semantic_intent=create&since=2026-01-01T00:00:00Z",
    "/v1/audit/operations?entity=cu-shared&from_sequence=1&to_sequence=900&declared=true&limit=3",
    "/v1/audit/operations?order=newest&actor=user&reversibility=fully_reversible&after=40&limit=3",
    "/v1/audit/authority/cu-shared",
    "/v1/audit/adjudications?state=open&after=0&limit=5",
    f"/v1/audit/costs?limit=5&{_TIMES}",
    f"/v1/audit/costs/totals?limit=50&{_TIMES}",
    "/v1/archive",
    "/v1/attention",
    "/v1/charts?span=day&queue=binding-evaluation",
    "/v1/operator-log?limit=5",
    "/v1/reviews/decided?limit=5",
    "/v1/search?text=source-sha",
    "/v1/authority/backfill",
    "/v1/bindings?limit=5",
    "/v1/bindings?after=b&limit=5",
    "/v1/bulk-operations?after=900&limit=5",
    "/v1/checkpoint",
    "/v1/dead-letters?limit=5&after=900&error_signature=e",
    "/v1/queues/binding-evaluation/dead-letters?limit=5&after=900&error_signature=e",
    "/v1/failures?limit=5&after=e",
    "/v1/queues/binding-evaluation/failures?limit=5&after=e",
    f"/v1/queues/binding-evaluation/requests?{_SEARCH}",
    f"/v1/requests?{_SEARCH}&after=900&item_key=i&request_key=k&request_id=r",
    "/v1/explain?record_id=source-shared&format=text",
    "/v1/explain?record_id=cu-shared&format=mermaid",
    "/v1/extractions?state=blocked&after=&limit=5",
    "/v1/sources/source-shared/extraction",
    "/v1/implications?after=&limit=5",
    "/v1/landscape/activity?minutes=5",
    "/v1/landscape/diagnose",
    "/v1/landscape/runs?limit=2&status=running",
    "/v1/legal-holds",
    "/v1/ledger/lost?after=0&limit=5",
    "/v1/quarantines",
    "/v1/access",
    "/v1/access?to_sequence=2",
    "/v1/access/caller",
    "/login?next=queues",
    "/v1/reviews/open?kind=relationship&limit=5",
    "/v1/reviews/open?kind=outcome&after=0&limit=5",
    "/v1/reviews/counts",
    "/v1/rounds?after=0&limit=5",
    "/v1/sessions?words=shared&limit=5",
    "/v1/tree",
    "/v1/tree?tree_size=3",
    "/v1/tree/consistency/2?tree_size=5",
    "/v1/tree/inclusion/2?tree_size=5",
    *(f"/v1/sessions/{session}?survivors=3" for session in SHARED),
    *(f"/v1/sessions/{session}/audit?limit=5" for session in SHARED),
    *(f"/v1/thoughts/{session}?after=0&limit=5" for session in THOUGHTS),
    *(f"/v1/thoughts/{session}/status" for session in THOUGHTS),
    *(f"/v1/thoughts/{session}/root" for session in THOUGHTS),
    "/queues/binding-evaluation?state=open&after=0",
    f"/requests?{_SEARCH}&queue=binding-evaluation",
    "/search?q=shared",
    f"/requests.csv?{_SEARCH}".removesuffix("&limit=5"),
    f"/requests.jsonl?{_SEARCH}".removesuffix("&limit=5"),
    "/failures",
    "/queues",
    "/workers",
    "/schedules",
    "/operator-log",
    "/bindings",
    "/record",
    "/fleet",
    "/reviews",
    "/bulk-operations?after=900",
    "/bulk-operations/preview?verb=cancel&state=open&tag=customer%3Dacme",
    "/bulk-operations/preview?verb=requeue&error_signature=e&since=2026-01-01T00:00",
    "/sessions?words=shared",
    "/operations?actor=user&order=newest",
    "/runs?status=running",
    "/explain?id=source-shared",
    "/docs",
)
READ_PERHAPS: Final = (
    "/readyz",
    "/v1/audit/manifests/e-OWN?after=0&limit=5",
    "/v1/audit/migration-reviews?state=settled&limit=5",
    "/v1/operations/op-OWN",
    "/v1/bindings/b-OWN",
    "/v1/audit/binding-activity/b-OWN",
    "/v1/tree/operations/op-OWN",
    "/v1/tree/sessions/SESSION?first_event=0&limit=5",
    "/v1/bulk-operations/7",
    "/v1/audit/ancestors/op-OWN?after=0&limit=5",
    "/v1/audit/rollback-preview/op-OWN",
    "/v1/queues/binding-evaluation/requests/OWN",
    "/v1/queues/binding-evaluation/requests/OWN/outcome?wait_s=0.01",
    "/v1/queues/binding-evaluation/requests/OWN/progress",
    "/v1/queues/binding-evaluation/requests/OWN/proof",
    "/v1/queues/binding-evaluation/requests/OWN/waiting",
    "/v1/extractions/run-OWN",
    "/v1/landscape/explain?record_id=source-shared&run_id=run-OWN&sink=s",
    "/v1/landscape/runs/run-OWN",
    "/v1/landscape/runs/run-OWN/performance_report",
    "/v1/landscape/runs/run-OWN/dag_structure",
    "/v1/landscape/runs/run-OWN/error_analysis",
    "/v1/landscape/runs/run-OWN/llm_usage_report",
    "/v1/landscape/runs/run-OWN/outcome_analysis",
    "/v1/landscape/runs/run-OWN/failure_context",
    "/v1/landscape/runs/run-OWN/errors",
    "/v1/reviews/batches/batch-OWN",
    "/v1/sessions/SESSION/audit?since_event_id=OWN",
    "/v1/thoughts/THOUGHTS/proof/1",
    "/checkpoint",
    "/tile/0/000.p/5",
    "/tile/0/x001/067",
    "/static/v/page.css",
    "/internal/crons/none",
    "/queues/binding-evaluation/requests/OWN",
    "/bulk-operations/7",
    "/sessions/SESSION",
    "/operations/op-OWN",
    "/workers/OWN",
    "/bindings/b-OWN",
    "/manifests/e-OWN",
    "/nodes/source-shared?at=3",
    "/explain?id=OWN&hypothesis=h",
    "/exhibit?id=cu-shared",
    "/runs/run-OWN",
    "/runs/run-OWN/tokens/token-OWN",
    "/docs/routes/post-v1-sessions",
    "/docs/schemas/Snapshot",
)
"""What may be answered otherwise than with 200."""


def read(names: Names) -> LegalRequest:
    """Read something that is there."""
    return _read(names.chance.choice(READ_ALWAYS), names, OK)


def read_perhaps(names: Names) -> LegalRequest:
    """Read something that may not be there."""
    return _read(names.chance.choice(READ_PERHAPS + READ_ALWAYS), names, ANY)


def _read(path: str, names: Names, statuses: frozenset[int]) -> LegalRequest:
    named = path.replace("OWN", names.own).replace("SESSION", names.session)
    named = named.replace("THOUGHTS", names.chance.choice(THOUGHTS))
    return get(path.partition("?")[0], named, statuses)
