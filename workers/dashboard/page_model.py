"""Turns a snapshot into the words and numbers of the page.

The page is a row, and a row is a table of fields: text for a cell, a number for a meter, a list
of words for chips, or more rows for a list. The template renders this tree, the stream sends it,
and the script patches by the same names; so the three can never disagree about a word.

A part that was never read leaves out its fields. One that could not be read again shows its last
value under its error; only the summary at the top says "–" at once, because it stands far from
the error.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

from workers.dashboard import formatting as words
from workers.dashboard.page_addresses import address_of
from workers.dashboard.snapshot import (
    PARTS,
    Count,
    DashboardSnapshot,
    Death,
    Fleet,
    Hold,
    LeaseView,
    LedgerPicture,
    LedgerRow,
    NewestSessions,
    PriorityBacklog,
    PublishedCheckpoint,
    Queue,
    Requests,
    Session,
    SetAsideRequest,
    SnapshotPart,
    Worker,
)
from workers.views.attention_items import AttentionItem

_WORDS_OF_CODES: Final[Mapping[str, str]] = {
    "queue_unavailable": "Redis does not answer",
    "queue_refused": "Redis refuses what the gateway needs",
    "redis_of_another_ledger": "The keys in this Redis are another ledger's",
    "ledger_unavailable": "The database does not answer",
    "ledger_went_back": "The ledger lost rows that it had before",
    "ConnectionError": "Nothing answers at its address",
    "TimeoutError": "No answer came in time",
}
"""What a code says that kept a part of a page from being read."""


T = TypeVar("T")
Row: TypeAlias = dict[str, Any]
"""Field name to str, int, float, list[str] or Rows."""

NEWEST_SHOWN = 8
"""Rows of the roll, and sessions; the pages of each have the others."""

SURVIVORS_SHOWN = 6

CLOSE_TO_TARGET = 0.8
"""Share of its service target from which a priority is shown as close to it."""

_METER_MAX = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of the page: its keys in order, and a row for each key."""

    order: list[str]
    rows: dict[str, Row]


class PartNote(TypedDict):
    """How fresh one part is, where it came from, and what went wrong."""

    origin: str
    age_ms: int
    error: str | None


def notes(snapshot: DashboardSnapshot, now: datetime) -> dict[str, PartNote]:
    """Return the note of each part; ages are never negative."""
    return {name: _note(getattr(snapshot, name), now) for name in PARTS}


def page(snapshot: DashboardSnapshot) -> Row:
    """Return the whole page as one row."""
    row: Row = {"time": words.clock_time(snapshot.time, snapshot.time)}
    for name, section in _SECTIONS:
        part: SnapshotPart[Any] = getattr(snapshot, name)
        if part.value is not None:
            row |= section(part.value, snapshot)
    return row | _summary(snapshot) | _unknown_attention(snapshot)


def _unknown_attention(snapshot: DashboardSnapshot) -> Row:
    """A list that cannot be read is no list of nothing; before the first picture it is none."""
    if snapshot.version == 0 or not snapshot.attention.error:
        return {}
    return {"a_urgent": "?", "a_words": "What needs somebody is not known"}


def _note(part: SnapshotPart[Any], now: datetime) -> PartNote:
    age_ms = int((now - part.read_at).total_seconds() * 1_000)
    return {
        "origin": part.origin,
        "age_ms": max(age_ms, 0),
        "error": None if part.error is None else _in_words(part.error),
    }


def _summary(snapshot: DashboardSnapshot) -> Row:
    queues, counters = snapshot.queues, snapshot.counters
    return {
        "sum_ready": _text_of_part(queues, lambda qs: words.number(sum(map(_ready, qs)))),
        "sum_in_flight": _text_of_part(
            queues, lambda qs: words.number(sum(q.in_flight for q in qs))
        ),
        "sum_dead": _text_of_part(queues, lambda qs: words.number(sum(q.dead for q in qs))),
        "sum_workers": _text_of_part(snapshot.workers, _alive),
        "sum_sessions": _text_of_part(snapshot.sessions, lambda s: words.number(s.total)),
        "sum_operations": _text_of_part(counters, lambda c: words.number(c.operations)),
        "sum_eliminations": _text_of_part(counters, lambda c: words.number(c.eliminations)),
        "sum_rate": _text_of_part(snapshot.ledger, lambda x: words.rate(x.rows_per_s)),
    }


def _text_of_part(part: SnapshotPart[T], say: Callable[[T], str]) -> str:
    return words.NONE if part.value is None or part.error else say(part.value)


def _alive(fleet: Fleet) -> str:
    troubled = sum(w.state != "alive" for w in fleet.workers)
    return f"{words.number(fleet.total - troubled)} of {words.number(fleet.total)}"


def _number(count: int | None) -> str:
    return words.NONE if count is None else words.number(count)


def _ready(queue: Queue) -> int:
    return sum(p.ready for p in queue.priorities)


def _rows(items: Iterable[tuple[str, Row]]) -> Rows:
    rows = dict(items)
    return Rows(list(rows), rows)


def _meter(name: str, value: int, most: int) -> Row:
    return {name: min(max(value, 0), _METER_MAX), f"{name}_max": min(max(most, 1), _METER_MAX)}


def _attention(items: tuple[AttentionItem, ...], snapshot: DashboardSnapshot) -> Row:
    return {
        "attention": _rows((key, _item(item, snapshot.time)) for key, item in _items_by_key(items)),
        "a_urgent": str(sum(item.severity != "notice" for item in items)),
        "a_words": f"{len(items)} need{'' if len(items) > 1 else 's'} somebody" if items else "",
    }


def _items_by_key(items: tuple[AttentionItem, ...]) -> Iterator[tuple[str, AttentionItem]]:
    """Yield each item with a key of its own, also where bounded names have become alike."""
    alike = Counter[str]()
    for item in items:
        alike[item.key] += 1
        again = f" {alike[item.key]}" if alike[item.key] > 1 else ""
        yield f"{item.key}{again}", item


def _item(item: AttentionItem, now: datetime) -> Row:
    action = item.action
    form = None if action is None else action.link
    return {
        "a_kind": item.kind,
        "state": item.severity,
        "a_sentence": item.sentence,
        **_time("a_since", None if item.since is None else datetime.fromisoformat(item.since), now),
        "a_link": address_of(item.link),
        "a_action": "" if action is None else action.label,
        "a_command": "" if action is None else action.command,
        "a_form": "" if form is None else address_of(form),
    }


def _time(name: str, moment: datetime | None, now: datetime) -> Row:
    """Return a time as an element has it; how long ago it is says the page's script."""
    if moment is None:
        return dict.fromkeys((name, f"{name}_iso", f"{name}_exact"), "")
    return {
        name: words.clock_time(moment, now),
        f"{name}_iso": words.iso(moment),
        f"{name}_exact": words.exact_time(moment),
    }


def _queues(queues: tuple[Queue, ...], _: DashboardSnapshot) -> Row:
    """Return the queues, those in trouble first."""
    rows = [(queue.name, _queue(queue)) for queue in queues]
    rows.sort(key=lambda row: QUEUE_STATES.index(row[1]["state"]))
    return {"queues": _rows(rows)}


QUEUE_STATES = ("late", "paused", "dead", "well")
"""How a queue stands in a word, the worst first."""


def _queue(queue: Queue) -> Row:
    items = _ready(queue) + queue.suspended + queue.delayed + queue.in_flight + (queue.held or 0)
    closing = 0 if queue.open is None else max(0, items - queue.open)
    late = [p for p in queue.priorities if _against_target(p.oldest_ms, p.target_ms) == OVER]
    trouble = [
        f"{p.name}: {words.duration(p.oldest_ms)} old, target {words.duration(p.target_ms)}"
        for p in late
    ]
    trouble += queue.pauses
    if queue.dead:
        trouble.append(f"{words.number(queue.dead)} dead letters")
    return {
        "name": queue.name,
        "q_open": _number(queue.open),
        # Redis is read after the record: items whose requests were closed meanwhile.
        "q_closing": f"and {words.number(closing)} just closed" if closing else "",
        "q_oldest": words.duration(queue.oldest_open_ms),
        "q_trouble": trouble,
        "q_held": _number(queue.held),
        "q_suspended": words.number(queue.suspended),
        "q_ready": words.number(_ready(queue)),
        "q_delayed": words.number(queue.delayed),
        "q_in_flight": words.number(queue.in_flight),
        "q_dead": words.number(queue.dead),
        "q_rate": words.rate(queue.completed_per_s),
        "state": "late" if late else "paused" if queue.pauses else "dead" if queue.dead else "well",
        "priorities": _rows((p.name, _priority(p)) for p in queue.priorities if p.ready),
    }


def _priority(priority: PriorityBacklog) -> Row:
    target_ms, oldest_ms = priority.target_ms, priority.oldest_ms
    return {
        "p_name": priority.name,
        "target": "best effort" if target_ms is None else f"within {words.duration(target_ms)}",
        "p_ready": words.number(priority.ready),
        "oldest": words.duration(oldest_ms),
        "state": _against_target(oldest_ms, target_ms),
        **_meter("age", oldest_ms or 0 if target_ms else 0, target_ms or 1),
    }


OVER = "over target"


def _against_target(oldest_ms: int | None, target_ms: int | None) -> str:
    if oldest_ms is None:
        return "empty"
    if target_ms is None:
        return "no target"
    if oldest_ms > target_ms:
        return OVER
    return "close" if oldest_ms >= CLOSE_TO_TARGET * target_ms else "on time"


def _lease(lease: LeaseView) -> Row:
    return {
        "resource": lease.resource,
        "used": f"{words.number(lease.used)} of {words.number(lease.slots)}",
        "state": "full" if lease.used >= lease.slots else "free slots",
        "held": _rows((hold.token, _hold(hold)) for hold in lease.held),
        **_meter("use", lease.used, lease.slots),
    }


def _hold(hold: Hold) -> Row:
    lapsed = hold.expires_ms <= 0
    time_left = "expired" if lapsed else f"{words.duration(hold.expires_ms)} left"
    return {"holder": hold.holder, "token": f"token {hold.token}", "left": time_left}


def _workers(fleet: Fleet, _: DashboardSnapshot) -> Row:
    hidden = fleet.total - len(fleet.workers)
    return {
        "workers": _rows((w.worker_id, _worker(w)) for w in fleet.workers),
        "workers_hidden": f"and {words.number(hidden)} more" if hidden > 0 else "",
    }


def _worker(worker: Worker) -> Row:
    return {
        "worker": worker.worker_id,
        "pid": f"pid {worker.pid}",
        "serves": ", ".join(worker.queues),
        "state": worker.state,
        "seen": f"{words.duration(worker.seen_ms)} ago",
        "busy": f"{words.number(worker.in_flight)} items",
        "slots": f"{words.number(worker.slots)} slots",
        "completed": words.number(worker.completed),
        "failed": words.number(worker.failed),
    }


def _sessions(sessions: NewestSessions, snapshot: DashboardSnapshot) -> Row:
    newest, total = sessions.newest[:NEWEST_SHOWN], words.number(sessions.total)
    return {
        "sessions": _rows((s.session_id, _session(s, snapshot.time)) for s in newest),
        "sessions_shown": f"{words.number(len(newest))} of {total}",
    }


def _session(session: Session, now: datetime) -> Row:
    survivors = session.survivors[:SURVIVORS_SHOWN]
    unnamed = session.n_survivors - len(survivors)
    beyond = [f"+{words.number(unnamed)}"] if unnamed > 0 else []
    return {
        "title": session.title,
        "session": session.session_id,
        "state": session.state,
        "left": f"{words.number(session.n_survivors)} of {words.number(session.n_universe)}",
        "survivors": [*survivors, *beyond],
        **_time("active", session.last_activity, now),
        **_meter("remain", session.n_survivors, session.n_universe),
    }


def _ledger(ledger: LedgerPicture, snapshot: DashboardSnapshot) -> Row:
    return {
        "sequence": words.number(int(ledger.sequence)) if ledger.sequence.isdecimal() else "–",
        "head_hash": ledger.head_hash,
        "rows_per_s": words.rate(ledger.rows_per_s),
        "tail": _rows(
            (row.sequence, _ledger_row(row, snapshot.time)) for row in ledger.tail[:NEWEST_SHOWN]
        ),
    }


def _ledger_row(row: LedgerRow, now: datetime) -> Row:
    return {
        "no": row.sequence,
        "intent": row.semantic_intent,
        "effects": " · ".join(row.effect_kinds),
        "by": row.session_id,
        "operation": row.operation_id,
        **_time("at", row.committed_at, now),
        "seal": row.row_hash,
    }


def _checkpoint(checkpoint: PublishedCheckpoint, _: DashboardSnapshot) -> Row:
    return {
        "checkpoint_verdict": checkpoint.message,
        "checkpoint_head": checkpoint.tree_head or words.NONE,
        "checkpoint_origin": checkpoint.origin or words.NONE,
        "checkpoint_problem": checkpoint.problem or "none",
    }


def _requests(requests: Requests, _: DashboardSnapshot) -> Row:
    return {
        "requests_open": words.number(requests.open),
        "requests_closed": words.number(requests.closed),
        "outcomes": _counts(requests.by_outcome, _plain),
    }


def _set_aside(requests: tuple[SetAsideRequest, ...], snapshot: DashboardSnapshot) -> Row:
    return {
        "set_aside": _rows(
            (
                f"{request.shard}/{request.offset}",
                {
                    "aside_session": request.session_id or "–",
                    "aside_place": f"{request.shard} {request.offset}",
                    "aside_ends": request.ends,
                    **_time("aside_at", request.at, snapshot.time),
                },
            )
            for request in requests
        )
    }


def _deaths(deaths: tuple[Death, ...], snapshot: DashboardSnapshot) -> Row:
    return {
        "deaths": _rows(
            (
                death.name,
                {
                    "death_name": death.name,
                    "death_times": words.number(death.times),
                    "death_reason": death.reason,
                    "death_line": death.last_line,
                    **_time("death_at", death.at, snapshot.time),
                },
            )
            for death in deaths
        )
    }


def _plain(code: str) -> str:
    return code.replace("_", " ")


def _counts(counts: tuple[Count, ...], say: Callable[[str], str] = str) -> Rows:
    most = max((c.count for c in counts), default=0)
    return _rows(
        (
            c.name,
            {"c_name": say(c.name), "count": words.number(c.count), **_meter("of", c.count, most)},
        )
        for c in counts
    )


_SECTIONS: tuple[tuple[str, Callable[[Any, DashboardSnapshot], Row]], ...] = (
    ("attention", _attention),
    ("queues", _queues),
    ("leases", lambda leases, _: {"leases": _rows((x.resource, _lease(x)) for x in leases)}),
    ("workers", _workers),
    ("sessions", _sessions),
    ("ledger", _ledger),
    ("checkpoint", _checkpoint),
    ("gateways", lambda counts, _: {"gateways": _counts(counts)}),
    ("rejections", lambda counts, _: {"rejections": _counts(counts, _plain)}),
    ("requests", _requests),
    ("dropped", lambda counts, _: {"dropped": _counts(counts, _plain)}),
    ("set_aside", _set_aside),
    ("deaths", _deaths),
)


def _in_words(code: str) -> str:
    """Return what a code means, with the code; what is no known code stays as it is."""
    words = _WORDS_OF_CODES.get(code)
    return code if words is None else f"{words} ({code})."
