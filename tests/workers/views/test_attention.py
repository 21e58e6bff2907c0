"""What needs somebody, as one list: every rule, its order, and where its links lead."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import pytest

from kernel.ledger.quarantine import Quarantines
from kernel.work.dead_letters import DeadGroup
from kernel.work.pauses import Pause
from queues.fleet.cron_claims import CronFiring
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.queue.items import QueueDepth
from tests.workers.dashboard.fake_source import NOON, make_snapshot
from workers.dashboard.page_addresses import PATHS, address_of
from workers.dashboard.page_model import page
from workers.dashboard.pages import ROUTES
from workers.dashboard.sanitize import tidy
from workers.dashboard.snapshot import SnapshotPart
from workers.views.attention_facts import (
    AttentionFacts,
    ClosedItems,
    CountsLook,
    FleetFacts,
    RecordFacts,
    SeldomFacts,
)
from workers.views.attention_items import ITEMS_OF_KIND_MAX, Link, PageName
from workers.views.attention_rules import attention_items, line_of

QUEUE = "binding-evaluation"
PAUSED_AT = "2026-03-14T12:00:00.000000Z"
AT_MS = int(datetime(2026, 3, 14, 12, 0, 30, tzinfo=UTC).timestamp() * 1000)
PRIORITIES = ("critical", "user_initiated", "background")


def depth(**ages_ms: int) -> QueueDepth:
    nothing = dict.fromkeys(PRIORITIES, 0)
    return QueueDepth(nothing, nothing, 0, 0, 0, 0, nothing | ages_ms, False, frozenset())


def record(*pauses: Pause, open_requests: int = 0, **seldom: Any) -> RecordFacts:
    requests = {
        "recorded": open_requests,
        "open": open_requests,
        "open_by_queue": {QUEUE: open_requests},
        "oldest_open_at": {QUEUE: PAUSED_AT} if open_requests else {},
        "outcomes": {},
    }
    return RecordFacts(requests, pauses, Quarantines(), seldom=SeldomFacts(**seldom))


def fleet(*queues: str, seen_ms: int = 0, **ages_ms: int) -> FleetFacts:
    beat = WorkerBeat("w-1", 7, queues, 2, 0, 0, 0, 0, seen_at_ms=AT_MS - seen_ms)
    return FleetFacts({QUEUE: depth(**ages_ms)}, [beat] if queues else [], [], AT_MS)


def lines(facts: AttentionFacts) -> list[str]:
    return [line_of(item) for item in attention_items(facts)]


def test_nothing_needs_somebody_where_all_is_well():
    assert lines(AttentionFacts(record(), fleet(QUEUE))) == []


def kinds(facts: AttentionFacts) -> list[tuple[str, str]]:
    return [(item.severity, item.kind) for item in attention_items(facts)]


def test_a_worker_that_went_is_a_warning_until_others_serve_its_queues():
    gone = WorkerBeat("w-2", 7, (QUEUE,), 2, 0, 0, 0, 3, host="h-1", seen_at_ms=AT_MS - 90_000)
    [line] = lines(AttentionFacts(record(), replace(fleet(QUEUE), gone=[gone])))
    assert line == (
        "w-2 on h-1 ended without a good-bye with 3 items in hand, which others take over,"
        " since 2026-03-14 11:59:00 UTC"
    )
    assert kinds(AttentionFacts(record(), replace(fleet(QUEUE), gone=[gone]))) == [
        ("notice", "worker_gone")
    ]
    assert kinds(AttentionFacts(record(), replace(fleet(), gone=[gone]))) == [
        ("warning", "worker_gone"),
        ("notice", "workers_missing"),
    ]


def test_what_is_away_or_wrong_is_named_by_its_kind():
    facts = AttentionFacts(
        problems={"redis": "ConnectionError", "session s-1": "does not verify", "commits": "none"},
        shards=4,
        unowned={1: "gateway-b", 3: ""},
        deaths=[{"name": "worker-1", "times": 3, "reason": "exit code 1", "at": PAUSED_AT}],
        at_ms=AT_MS,
        not_read={"published log": "checkpoint_unreadable"},
    )
    assert [item.kind for item in attention_items(facts)] == [
        "dependency_away",
        "part_not_read",
        "commits_stalled",
        "session_corrupt",
        "shards_unowned",
        "process_dies",
    ]
    [unowned] = [line for line in lines(facts) if "shards" in line]
    assert "owns 2 of 4 shards of gateway-b (1, 3)" in unowned


@pytest.mark.parametrize(
    ("hours", "shown"),
    [(0, [("critical", "process_dies")]), (1, [("notice", "process_dies")]), (25, [])],
)
def test_what_died_again_and_again_is_urgent_while_it_is_new(hours, shown):
    death = {"name": "worker-1", "times": 3, "reason": "exit code 1", "at": PAUSED_AT}
    at_ms = AT_MS + hours * 3_600_000
    assert kinds(AttentionFacts(deaths=[death], at_ms=at_ms)) == shown


def test_the_most_urgent_is_first_and_every_line_says_what_to_do():
    pause = Pause(QUEUE, "critical", PAUSED_AT, "A. B.", "the model is replaced")
    dead = (DeadGroup(QUEUE, "model_timeout", 2, PAUSED_AT),)
    facts = AttentionFacts(record(pause, open_requests=3, dead=dead), fleet(critical=9_000))
    assert lines(facts) == [
        (
            "no worker serves binding-evaluation, and 3 requests wait, since 2026-03-14 12:00:00"
            " UTC: `rotulus worker --queues binding-evaluation`"
        ),
        (
            "binding-evaluation critical is paused by A. B. (the model is replaced), since"
            " 2026-03-14 12:00:00 UTC: `rotulus queues resume binding-evaluation --priority"
            " critical`"
        ),
        (
            "binding-evaluation critical is late: its oldest waits for longer than its target of"
            " 5 s, since 2026-03-14 12:00:21 UTC: `rotulus queues list binding-evaluation`"
        ),
        (
            "2 of binding-evaluation were given up: model_timeout, since 2026-03-14 12:00:00 UTC:"
            " `rotulus queues dead binding-evaluation`"
        ),
    ]


def test_of_a_kind_the_list_takes_so_many_and_counts_the_rest():
    dead = [DeadGroup(QUEUE, f"error-{n}", 100 - n, PAUSED_AT) for n in range(15)]
    shown = attention_items(AttentionFacts(record(dead=dead), fleet(QUEUE)))
    assert len(shown) == ITEMS_OF_KIND_MAX + 1
    assert "100 of" in shown[0].sentence
    assert shown[-1].sentence == "and 3 more: requests given up"
    assert len({item.key for item in shown}) == len(shown)


def test_what_was_due_and_has_not_run_is_told_while_anybody_could_run_it():
    due = AT_MS // 1000 - 600
    archival, away = CronFiring("log-archival", 3600, due), CronFiring("plugin-queue/daily", 0, due)
    firings = [archival, away, replace(archival, name="reap", next_s=due + 590)]
    [item] = attention_items(AttentionFacts(record(), replace(fleet(QUEUE), firings=firings)))
    assert (item.subject.name, item.since) == ("log-archival", "2026-03-14T11:50:30Z")
    nobody = AttentionFacts(record(), replace(fleet(), firings=firings))
    assert [item.kind for item in attention_items(nobody)] == ["workers_missing"]


def test_every_page_of_a_link_is_a_page_of_the_dashboard():
    paths = {
        re.sub(r"{\w+(:path)?}", "{}", route.path) for route in ROUTES if route.method == "GET"
    }
    assert {f"/{path}" for path in PATHS.values()} <= paths | {"/"}
    assert PATHS.keys() == {*get_args(PageName)}
    link = Link("requests", query=(("queue", QUEUE), ("error_signature", "a&b=<c>")))
    assert address_of(link) == f"requests?queue={QUEUE}&error_signature=a%26b%3D%3Cc%3E"
    assert address_of(Link("session", ("a/b?",))) == "sessions/a%2Fb%3F"


def test_counts_that_do_not_add_up_are_told_where_nothing_that_was_asked_for_explains_it():
    def holding(items: int, at_ms: int) -> FleetFacts:
        ready = dict.fromkeys(PRIORITIES, 0) | {"critical": items}
        return replace(fleet(QUEUE), depths={QUEUE: replace(depth(), ready=ready)}, at_ms=at_ms)

    counts = CountsLook()
    looks = [counts.look(record(open_requests=2), holding(5, 1000 * s)) for s in (0, 5, 11)]
    assert looks == [{}, {}, {QUEUE: ClosedItems(3, 0)}]
    facts = AttentionFacts(record(), fleet(QUEUE), closed_items=looks[-1])
    assert kinds(facts) == [("notice", "counts_differ")]
    # While as much is asked for between two looks, it may be that.
    busy = CountsLook()
    for second in range(0, 60, 5):
        facts_now = record(open_requests=2)
        facts_now.requests["recorded"] = 10 * second
        assert busy.look(facts_now, holding(5, 1000 * second)) == {}


def test_a_link_has_the_very_texts_and_names_that_became_alike_have_rows_of_their_own():
    hostile, long = "\x1b[2J\u202e<b>", "x" * 200
    assert tidy(Link("session", ("\ud800",))).ids == ("?",)
    dead = [DeadGroup(QUEUE, name, 1, PAUSED_AT) for name in (hostile, f"{long}a", f"{long}b")]
    items = tuple(attention_items(AttentionFacts(record(dead=dead), fleet(QUEUE))))
    part = SnapshotPart("ledger", NOON, items)
    shown = page(tidy(replace(make_snapshot(), attention=part)))["attention"]
    assert len(shown.order) == len({*shown.order}) == 3
    rows = [shown.rows[key] for key in shown.order]
    searched = [parse_qs(urlsplit(row["a_link"]).query)["error_signature"][0] for row in rows]
    assert searched == [hostile, f"{long}a", f"{long}b"]
    assert "\x1b" not in rows[0]["a_sentence"] + rows[0]["a_link"]
