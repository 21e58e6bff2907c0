"""Every number that a page shows is held against SQL of the same moment, or is no count.

The numbers are those that the templates write for the examples of all pages (`shown_numbers.py`):
one that stands in neither table here fails a test.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

import anyio
import pytest

from tests.workers.dashboard.example_pages import OVERVIEW, examples
from tests.workers.dashboard.served_gateways import ServedGateway, client_of
from tests.workers.dashboard.shown_numbers import Shown, numbers_of_cells, shown_numbers

TRIES = 20
"""Looks at a page: the picture of the overview is a second old, and a gateway goes on working."""


class Held(NamedTuple):
    """A number of a page, and the query whose rows are the same numbers, but for zeros."""

    path: str
    place: str
    query: str
    part: slice = slice(None)
    """Which of the numbers at the place; the others are Redis's."""


def count(table: str, where: str = "", by: str = "") -> str:
    condition, groups = f" WHERE {where}" if where else "", f" GROUP BY {by}" if by else ""
    return f"SELECT COUNT(*) FROM {table}{condition}{groups}"  # noqa: S608 - of this file


def of_run(*tables: str) -> str:
    """The numbers of rows of a run's tables."""
    return " UNION ALL ".join(count(f"landscape_{each}", "run_id = 'run-1'") for each in tables)


def of_runs(table: str) -> str:
    return count(f"landscape_{table}", by="run_id")


def of_states(*states: str) -> str:
    named = " OR ".join(f"state = '{each}'" for each in states)
    return count("binding_pairs", named)


def of_nodes(*statuses: str) -> str:
    named = " OR ".join(f"status = '{each}'" for each in statuses)
    return count("landscape_node_states", f"run_id = 'run-1' AND ({named})", "node_id")


STRIKES = """CAST(event_bytes AS TEXT) LIKE '%"verb":"ELIMINATE"%'"""
LAST = "SELECT MAX(ec_sequence_number) FROM kernel_event_log"
DEAD = count("dead_letters", "NOT settled")
SESSIONS = "SELECT {} FROM belief_sessions"
WIDE = "SELECT {} FROM belief_sessions WHERE n_universe > 2"
LEFT = SESSIONS.format("n_survivors"), SESSIONS.format("n_universe")
MORE = WIDE.format("n_survivors - 12")
UNRESOLVED = "receipt_id NOT IN (SELECT receipt_id FROM adjudications)"
REVIEWS = " UNION ALL ".join(
    [
        count("filing_relationships", "is_open"),
        count("court_disposition_observations", "is_open"),
        count("outcomes_to_review"),
        count("corpus_membership_records", "is_open"),
        *(
            count("receipts", f"receipt_kind = '{kind}' AND {UNRESOLVED}")
            for kind in ("envelope_conflict_user_review_required", "needs_migration_review")
        ),
        count("receipts", "receipt_kind = 'kernel_event_log_integrity_violation'"),
    ]
)
RUN_ERRORS = (
    "(SELECT run_id FROM landscape_validation_errors"
    " UNION ALL SELECT run_id FROM landscape_transform_errors)"
)
BULK = "SELECT json_extract(CAST(record AS TEXT), '$.{}') FROM bulk_operations"
FAILED = "request_failures WHERE error_signature IS NOT NULL"
OPEN_FAILED = (
    "SELECT COUNT(*) FROM request_failures JOIN outbox USING (request_id)"
    " WHERE open AND error_signature IS NOT NULL GROUP BY error_signature"
)

HELD: Final = (
    Held("/", "cell: q_open", count("outbox", "open", "queue")),
    Held("/", "cell: q_dead", count("dead_letters", "NOT settled", "queue")),
    Held("/", "cell: sum_dead", DEAD),
    Held("/", "cell: sum_sessions", count("belief_sessions")),
    Held("/", "cell: sum_operations", LAST),
    Held("/", "cell: sum_eliminations", count("belief_events", STRIKES)),
    Held("/", "cell: requests_open", count("outbox", "open")),
    Held("/", "cell: requests_closed", count("outbox_outcomes")),
    Held("/", "cell: outcomes.count", count("outbox_outcomes", by="outcome")),
    Held("/", "cell: gateways.count", count("shard_epochs", by="owner")),
    Held("/", "cell: rejections.count", count("receipts", "reason_code != ''", "reason_code")),
    Held("/", "cell: sequence", LAST),
    Held("/", "cell: sessions_shown", count("belief_sessions")),
    Held("/", "cell: left", " UNION ALL ".join(LEFT)),
    Held("/record", "record: head.ec_sequence_number", LAST),
    Held("/record", "record: head.receipt_sequence", count("receipts")),
    Held("/record", "record: head.request_sequence", count("outbox")),
    Held("/queues", "queues: number", count("outbox", "open", "queue"), slice(0, None, 7)),
    Held(
        "/queues",
        "queues: number",
        count("dead_letters", "NOT settled", "queue"),
        slice(6, None, 7),
    ),
    Held(
        "/queues/{jobs}",
        "queue: number",
        count("outbox", "open AND queue = 'pictures'"),
        slice(1),
    ),
    Held("/requests", "requests: fitting.count", count("outbox")),
    Held("/requests?state=open", "requests: fitting.count", count("outbox", "open")),
    Held("/requests?state=standing", "requests: fitting.count", DEAD),
    Held(
        "/requests?tag=customer%3Dacme",
        "requests: fitting.count",
        count("request_tags", "tag = 'customer=acme'"),
    ),
    Held("/bulk-operations/preview?verb=dismiss", "bulk_preview: counted.count", DEAD),
    Held(
        "/bulk-operations/preview?verb=cancel&tag=customer%3Dacme",
        "bulk_preview: counted.count",
        count(
            "request_tags JOIN outbox USING (request_sequence)", "open AND tag = 'customer=acme'"
        ),
    ),
    *(
        Held("/bulk-operations/{bulk}", f"bulk_operation: operation.{each}", BULK.format(each))
        for each in ("counted", "done", "refused")
    ),
    Held(
        "/bulk-operations/{bulk}",
        "bulk_operation: '–' if operation.ended_meanwhile is none else operation.ended_meanwhile",
        BULK.format("counted"),
    ),
    *(
        Held("/bulk-operations", f"bulk_operations: row.operation.{each}", BULK.format(each))
        for each in ("counted", "done")
    ),
    Held(
        "/failures",
        "failures: group.count",
        count("dead_letters", "NOT settled", "queue, error_signature"),
    ),
    Held("/failures", "failures: each.requests", count(FAILED, by="queue, error_signature")),
    Held("/failures", "failures: each.open", OPEN_FAILED),
    Held("/fleet", "fleet: owned", count("shard_epochs", "owner <> ''", by="owner")),
    Held("/fleet", "fleet: unowned", count("shard_epochs", "owner = ''") + " HAVING COUNT(*)"),
    Held("/fleet", "fleet: shards", count("shard_epochs") + " HAVING SUM(owner = '')"),
    Held("/bindings/{binding}", "binding: count", count("binding_pairs", by="state")),
    Held(
        "/bindings/{binding}",
        "binding: picture.manifests_looked_at",
        count("binding_evaluation_manifests"),
    ),
    Held("/bindings", "bindings: pairs.fired", of_states("fired")),
    Held(
        "/bindings",
        "bindings: pairs.matched_no_fire+pairs.no_match",
        of_states("matched_no_fire", "no_match"),
    ),
    Held(
        "/bindings",
        "bindings: pairs.pending_intake+pairs.ready_to_evaluate",
        of_states("pending_intake", "ready_to_evaluate"),
    ),
    Held("/reviews", "reviews: number", REVIEWS),
    Held("/reviews", "reviews: at(count)", REVIEWS),
    Held("/sessions", "sessions: row.n_survivors", LEFT[0]),
    Held("/sessions", "sessions: row.n_universe", LEFT[1]),
    Held("/sessions", "sessions: row.n_survivors-row.survivors_shown|length", MORE),
    Held("/search?q={hostile}", "search: row.n_survivors", WIDE.format("n_survivors")),
    Held("/search?q={hostile}", "search: row.n_universe", WIDE.format("n_universe")),
    Held("/sessions/{session}", "session: summary.n_survivors", WIDE.format("n_survivors")),
    Held("/sessions/{session}", "session: summary.n_universe", WIDE.format("n_universe")),
    Held("/sessions/{session}", "session: summary.n_events", WIDE.format("n_events")),
    Held(
        "/sessions/{session}",
        "session: summary.n_survivors-summary.survivors_shown|length",
        MORE,
    ),
    Held("/sessions/{session}", "session: course.left_count", WIDE.format("n_survivors")),
    Held("/sessions/{session}", "session: course.declared_count", WIDE.format("n_universe")),
    Held("/sessions/{session}", "session: course.last", WIDE.format("n_events - 1")),
    Held(
        "/runs/{run}",
        "run: summary.counts[name]",
        of_run("rows", "tokens", "node_states", "calls", "artifacts"),
    ),
    Held("/runs/{run}", "run: summary.errors.total", count(RUN_ERRORS, "run_id = 'run-1'")),
    Held(
        "/runs/{run}",
        "run: count",
        count("landscape_token_outcomes", "run_id = 'run-1'", "outcome"),
    ),
    Held("/runs/{run}", "run: node.states.completed", of_nodes("completed")),
    Held("/runs/{run}", "run: node.states.failed", of_nodes("failed")),
    Held("/runs/{run}", "run: node.states.open+node.states.pending", of_nodes("open", "pending")),
    Held("/runs", "runs: run.rows", of_runs("rows")),
    Held("/runs", "runs: run.tokens", of_runs("tokens")),
    Held(
        "/runs", "runs: run.validation_errors+run.transform_errors", count(RUN_ERRORS, by="run_id")
    ),
    Held(
        "/queues/{jobs}/requests/{dead}",
        "request: failures.failures",
        "SELECT failures FROM request_failures JOIN dead_letters USING (request_sequence) LIMIT 1",
    ),
)

DRAWN = "places and sizes of a drawing"
NUMBERED = "a row's, a step's or an attempt's own number, or its place on the page"
STATED = "a version, a setting, a limit, or what somebody wrote"
OF_REDIS = "what Redis or a worker says: no table has it"
OF_PAGE = "how many rows of this page there are, or what was looked at for it"
OF_PAST = "the record as it stood, which a table is not: `test_past_pages.py`"
OF_STEP = "folded from a trail at a step: `test_timeline.py`"
OF_LIST = "what needs somebody, by rules: `test_attention.py`"


def places(template: str, *expressions: str) -> Iterator[str]:
    return (f"{template}: {each}" for each in expressions)


NO_COUNTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *places("charts", "about.HEIGHT", "about.HEIGHT-6", "about.LEFT", "about.LEFT-6"),
            *places("charts", "about.RIGHT", "about.WIDTH", "column.at", "row.at", "row.at+4"),
            *places("charts", "row.text", "loop.index0", "column.text"),
            *places("operation", "graph.height", "graph.width", "node.x", "node.x+8"),
            *places("operation", "node.y", "node.y+18", "node.y+35"),
            *places("request", "20 if part.kind in('tried','done') else8", "part.width", "part.x"),
            *places("request", "4 if part.kind in('tried','done') else10", "way.ends-4"),
            *places("bulk_operation", "most", "through"),
        ),
        DRAWN,
    ),
    **dict.fromkeys(
        (
            "cell: no",
            "bulk_operations: row.operation.bulk_number",
            "docs: loop.index",
            *places("bulk_operation", "operation.upper_sequence", "operation.asked_to_stop"),
            "bulk_preview: counted.upper_sequence",
            *places("explain", "each.place", "step.place"),
            *places("lists", "row.ec_sequence_number", "row.request_sequence"),
            *places("moment", "moment.head", "moment.sequence"),
            *places("moment", "moment.sequence+1", "moment.sequence-1"),
            "node: node.version",
            *places("operation", "loop.index0", "node.ec_sequence_number"),
            *places("operation", "row.ec_sequence_number"),
            "request: attempt.attempt_number",
            *places("reviews", "item.number", "item.number+1"),
            *places("session", "course.at", "course.at-1", "steps[-1].number"),
            *places("session", "steps[0].number", "each.number", "loop.index0"),
            *places("session", "first", "numbers[name]"),
            *places("token", "call.call_index", "lineage.source_row.row_index", "state.step_index"),
            "verification: value",
        ),
        NUMBERED,
    ),
    **dict.fromkeys(
        (
            "binding: binding.binding_generation_id or'none'",
            "docs_route: status",
            "explain: value",
            *places("fleet", "defaults|length", "row.value", "unowned_ranges", "which or'–'"),
            *places("fleet", "versions.protocol", "versions.rules"),
            "operation: row.rules_version",
            *places("worker", "beat.pid", "beat.protocol"),
        ),
        STATED,
    ),
    **dict.fromkeys(
        (
            *places("cell", "busy", "completed", "failed", "slots", "used", "aside_ends"),
            # Of this process, which may have dropped values for another test.
            "cell: dropped.count",
            *places("cell", "p_ready", "q_delayed", "q_held", "q_in_flight", "q_ready"),
            *places("cell", "q_suspended", "sum_in_flight", "sum_ready", "sum_workers"),
            "fleet: count",
            *places("worker", "beat.completed", "beat.failed", "beat.in_flight", "beat.slots"),
            *places("workers", "beat.completed", "beat.failed", "beat.in_flight", "beat.slots"),
            *places("workers", "use.slots", "use.used"),
        ),
        OF_REDIS,
    ),
    **dict.fromkeys(places("cell", "rows_per_s", "sum_rate", "q_rate"), "a rate between two looks"),
    **dict.fromkeys(
        (
            "bulk_preview: counted.samples|length",
            *places("explain", "step.further", "steps|length"),
            "lists: row.effect_kinds|length-4",
        ),
        OF_PAGE,
    ),
    **dict.fromkeys(
        places(
            "past_session",
            "summary.n_events",
            "summary.n_survivors",
            "summary.n_survivors-summary.survivors_shown|length",
            "summary.n_universe",
        ),
        OF_PAST,
    ),
    **dict.fromkeys(places("session", "each.left_count", "fell"), OF_STEP),
    "frame: needs.urgent": OF_LIST,
}


COUNTED_ELSEWHERE = (OF_REDIS, OF_PAGE, OF_PAST, OF_STEP)
"""What counts that are not SQL's of this moment are of; their thousands are set apart too."""


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    with shown_numbers() as numbers:
        yield numbers


def test_every_number_is_held_against_sql_or_is_no_count(troubled: ServedGateway, shown: Shown):
    known = NO_COUNTS.keys() | {held.place for held in HELD}
    strange = dict[str, str]()
    with client_of(troubled) as http:
        for example in examples(troubled.names):
            shown.clear()
            html = http.get(example.path).text if example.is_page else ""
            cells = numbers_of_cells(html) if example.path == OVERVIEW else {}
            strange |= dict.fromkeys((shown.keys() | cells.keys()) - known, example.path)
    assert not strange, "\n".join(f"{place}: {path}" for place, path in sorted(strange.items()))
    of_moments = {place for place, why in NO_COUNTS.items() if why in COUNTED_ELSEWHERE}
    assert set() == shown.plain & (of_moments | {held.place for held in HELD})


def test_each_count_is_that_of_sql_at_the_same_moment(troubled: ServedGateway, shown: Shown):
    in_urls = {name: quote(value, safe="") for name, value in troubled.names.items()}
    problems = []
    with client_of(troubled) as http:
        for held in HELD:
            path = held.path.format(**in_urls)
            for _ in range(TRIES):
                shown.clear()
                html = http.get(path).text
                cells = numbers_of_cells(html) if path == OVERVIEW else {}
                numbers = {**shown, **cells}.get(held.place, [])[held.part]
                rows = [number for (number,) in troubled.sql(held.query)]
                if are_alike(numbers, rows):
                    break
                troubled.call(anyio.sleep, 0.1)
            else:
                problems.append(f"{held.path}: {held.place}: {numbers}, by SQL {rows}")
    assert not problems, "\n".join(problems)


def are_alike(numbers: list[int], rows: list[int]) -> bool:
    """Tell whether a page shows what SQL says, one number perhaps at several places."""
    if not numbers or not rows:
        return not any(numbers) and not rows
    is_repeated = {*numbers} == {*rows} and len(rows) == 1
    return is_repeated or Counter(filter(None, numbers)) == Counter(filter(None, rows))
