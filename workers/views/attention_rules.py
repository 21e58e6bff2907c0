"""Makes the list of what needs somebody of facts: a rule for each part, and one order for all."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final, NamedTuple

from kernel.ledger.head_watch import LedgerWentBack
from kernel.ledger.quarantine import merge_ranges
from queues.fleet.cron_claims import CronFiring
from queues.fleet.worker_heartbeats import WorkerBeat
from queues.queue.items import QueueDepth
from queues.queue.priorities import Priority, priorities_of
from workers.environment.output import command_line
from workers.views.attention_facts import AttentionFacts, FleetFacts, RecordFacts, SeldomFacts
from workers.views.attention_items import (
    ITEMS_OF_KIND_MAX,
    KINDS,
    SENTENCE_CHARS_MAX,
    SEVERITIES,
    AttentionAction,
    AttentionItem,
    AttentionSubject,
    Link,
    Severity,
    SubjectKind,
)
from workers.views.late_workers import is_late
from workers.views.quarantines import damage_sentences, quarantine_sentence

OVERDUE_MS: Final = 5 * 60 * 1000
"""How long after its time a schedule may run: who runs one often says so once a minute."""

DEATHS_FRESH_MS: Final = 10 * 60 * 1000
"""A process that has not died alike for so long may have been mended."""

DEATHS_KNOWN_MS: Final = 24 * 3600 * 1000

SHARDS_NAMED_MAX: Final = 8
WORDS_CHARS_MAX: Final = 120
"""Of a text that somebody else wrote: a reason, an error."""

_TAKEN_WITH_IT: Final = ("queue_unavailable", "queue_refused", "ledger_unavailable")
"""Codes of answers that a dependency keeps a gateway from giving."""

_SESSION: Final = "session "
_CHECKPOINT_HELP: Final = (
    "`rotulus doctor` looks at keys and tiles; ROTULUS_CHECKPOINT_KEY, or the policy of"
    " ROTULUS_WITNESS_POLICY, says which key counts"
)


def _command(*words: str, operands: Sequence[str] = (), options: Sequence[str] = ()) -> str:
    return command_line("rotulus", *words, operands=operands, options=options)


class _Rule(NamedTuple):
    """What an item says of a problem of readiness."""

    kind: str
    severity: Severity
    subject: SubjectKind
    words: str
    """What stands before the problem."""

    action: AttentionAction


_LIST_DAMAGE: Final = AttentionAction("List what is damaged", _command("quarantine", "list"))
_DOCTOR: Final = AttentionAction("Look at the settings", _command("doctor"))
_NOT_READY: Final = "the gateway is not ready: {}: "
_DAMAGED: Final = _Rule("record_damaged", "critical", "record", "damaged: ", _LIST_DAMAGE)
_RULES: Final[Mapping[str, _Rule]] = {
    "ledger_went_back": _Rule(
        *("ledger_went_back", "critical", "ledger", "the ledger went back: "),
        AttentionAction("List what is lost", _command("ledger", "lost")),
    ),
    "chain": _DAMAGED,
    "record": _DAMAGED,
    "quarantine": _Rule("log_quarantined", "warning", "log", "quarantined: ", _LIST_DAMAGE),
    "commits": _Rule("commits_stalled", "critical", "gateway", _NOT_READY, _DOCTOR),
    "clock": _Rule("clocks_differ", "critical", "gateway", _NOT_READY, _DOCTOR),
    "gateway": _Rule("gateway_not_ready", "critical", "gateway", _NOT_READY, _DOCTOR),
    "shards": _Rule("gateway_not_ready", "warning", "gateway", _NOT_READY, _DOCTOR),
}
"""By the component of readiness; the others are sessions, or dependencies."""

_DEPENDENCY: Final = _Rule(
    *("dependency_away", "critical", "dependency", ""),
    AttentionAction("See whether it can be reached", _command("doctor")),
)
_REFUSED: Final = "refused: "
_REFUSES: Final = "Redis refuses what the gateway needs, so nothing that waits is begun"
_AWAY: Final[Mapping[str, str]] = {
    "redis": "Redis does not answer, so nothing that waits is begun; what is asked for stays on the"
    " record, and goes on once Redis is back",
    "ledger": "the database does not answer, so nothing is read and nothing recorded",
}
"""What it means that a dependency is away, by its component of readiness."""

_CORRUPT: Final = _Rule(
    *("session_corrupt", "critical", "session", "session {}: "),
    AttentionAction("Verify the record", _command("verify")),
)
_REVIEWS: Final[dict[str, str]] = {
    "relationship": _command("review", "queue", "relationship"),
    "observation": _command("review", "queue", "observation"),
    "outcome": _command("review", "queue", "outcome"),
    "conflict": _command("audit", "adjudications"),
    "migration": _command("audit", "migration-reviews"),
}
"""By the kind of what waits for a person, the command that lists it."""


def attention_items(facts: AttentionFacts) -> list[AttentionItem]:
    """Return what needs somebody, the most urgent first."""
    record = facts.record
    problems = dict(facts.problems)
    if record is not None and record.seldom.went_back:
        problems.setdefault("ledger_went_back", str(LedgerWentBack("finding_stands")))
    if "ledger_went_back" in problems:
        # Nothing else is answered until that is decided.
        return [*_problem_items({"ledger_went_back": problems["ledger_went_back"]}, {})]
    items = [
        *_problem_items(problems, facts.away_since_ms),
        *_damage_items(facts),
        *_unread_items(facts.not_read),
    ]
    items += _gateway_items(facts)
    if facts.fleet is not None:
        items += _fleet_items(facts.fleet, record)
    if facts.checkpoint is not None:
        items += _checkpoint_items(facts)
    if record is not None:
        items += _pause_items(record)
        items += _seldom_items(record.seldom)
    return ordered_items(items)


def attention_of_state(
    problems: Mapping[str, str],
    items: Sequence[AttentionItem] | None,
    not_answered: Mapping[str, str],
) -> list[AttentionItem]:
    """Return what needs somebody by what a gateway answers, the most urgent first.

    Args:
        problems: why it is not ready, by component.
        items: what it says that needs somebody; None where it does not say.
        not_answered: what else it does not answer, by path, with why.
    """
    if "ledger_went_back" in problems:
        return attention_items(AttentionFacts(problems=problems))
    if items is None:
        return attention_items(AttentionFacts(problems=problems, not_read=not_answered))
    # Of what a dependency takes with it nobody has to be told twice.
    is_known = any(item.kind == "dependency_away" for item in items)
    further = {
        path: why
        for path, why in not_answered.items()
        if not (is_known and why.startswith(_TAKEN_WITH_IT))
    }
    return [*_unread_items(further), *items]


def ordered_items(items: Sequence[AttentionItem]) -> list[AttentionItem]:
    """Return items in the order of the list, of each kind no more than the list takes."""
    kinds = list(KINDS)
    ordered = sorted(
        items, key=lambda item: (SEVERITIES.index(item.severity), kinds.index(item.kind))
    )
    shown: list[AttentionItem] = []
    for _, alike in groupby(ordered, key=lambda item: (item.severity, item.kind)):
        each = list(alike)
        shown += each[:ITEMS_OF_KIND_MAX]
        if len(each) > ITEMS_OF_KIND_MAX:
            shown.append(_beyond(each))
    return shown


def line_of(item: AttentionItem) -> str:
    """Return an item as a line of text, with what to do about it."""
    since = "" if item.since is None else f", since {item.since[:19].replace('T', ' ')} UTC"
    command = "" if item.action is None else f"`{item.action.command}`"
    action = f": {command}" if command and command not in item.sentence else ""
    return f"{item.sentence}{since}{action}"


def _beyond(alike: Sequence[AttentionItem]) -> AttentionItem:
    first, rest = alike[0], len(alike) - ITEMS_OF_KIND_MAX
    subject = AttentionSubject(first.subject.kind, first.kind)
    return AttentionItem(
        "more", first.severity, subject, f"and {rest} more: {first.kind.replace('_', ' ')}"
    )


def _short(text: str, chars_max: int = WORDS_CHARS_MAX) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def _time_of(at_ms: int) -> str:
    """Return a time in whole seconds, so that a list does not change with each look."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _problem_items(
    problems: Mapping[str, str], since_ms: Mapping[str, int]
) -> Iterator[AttentionItem]:
    for component, problem in problems.items():
        name, link = component, Link("fleet")
        rule = _RULES.get(component, _DEPENDENCY)
        if component.startswith(_SESSION):
            rule, name = _CORRUPT, component.removeprefix(_SESSION)
            link = Link("session", (name,))
        sentence = f"{rule.words.format(_short(name))}{problem}"
        if rule is _DEPENDENCY:
            sentence = _away_sentence(name, problem)
        since = _time_of(since_ms[name]) if name in since_ms else None
        subject = AttentionSubject(rule.subject, name)
        sentence = _short(sentence, SENTENCE_CHARS_MAX)
        yield AttentionItem(
            rule.kind, rule.severity, subject, sentence, since, link, action=rule.action
        )


def _away_sentence(name: str, problem: str) -> str:
    """Return what is away, what that means, and last the code of it."""
    if problem.startswith(_REFUSED):
        code, _, what = problem.removeprefix(_REFUSED).partition(": ")
        return f"{_REFUSES}: {what} ({code})"
    meaning = _REFUSES if problem == "queue_refused" else _AWAY.get(name, f"{name} is away")
    return f"{meaning} ({problem})"


def _damage_items(facts: AttentionFacts) -> Iterator[AttentionItem]:
    standing = () if facts.record is None else facts.record.quarantines.standing
    records = {*facts.damaged, *(key for each in standing for key in each.records)}
    times = [each.found_at for each in standing if each.records]
    for component, sentence in damage_sentences(records).items():
        yield AttentionItem(
            "record_damaged",
            "critical",
            AttentionSubject("record", component),
            _short(sentence, SENTENCE_CHARS_MAX),
            min(times, default=None),
            Link("record"),
            action=_LIST_DAMAGE,
        )
    if ranges := merge_ranges(rows for each in standing for rows in each.ranges):
        yield AttentionItem(
            "log_quarantined",
            "warning",
            AttentionSubject("log", "quarantine"),
            _short(f"quarantined: {quarantine_sentence(ranges)}", SENTENCE_CHARS_MAX),
            min(each.found_at for each in standing if each.ranges),
            Link("record"),
            action=_LIST_DAMAGE,
        )


def _unread_items(not_read: Mapping[str, str]) -> Iterator[AttentionItem]:
    for name, why in not_read.items():
        sentence = f"the gateway does not answer {name}: {why}"
        if not name.startswith("/"):
            what = f"the gateway cannot read its {name}"
            sentence = f"{what}, so what of it needs somebody is not known ({why})"
        sentence = _short(sentence, SENTENCE_CHARS_MAX)
        yield AttentionItem(
            "part_not_read", "critical", AttentionSubject("gateway", name), sentence
        )


def _gateway_items(facts: AttentionFacts) -> Iterator[AttentionItem]:
    if facts.unowned:
        shards = ", ".join(map(str, sorted(facts.unowned)[:SHARDS_NAMED_MAX]))
        others = ", …" if len(facts.unowned) > SHARDS_NAMED_MAX else ""
        owners = sorted({owner for owner in facts.unowned.values() if owner})
        whose = f" of {', '.join(map(_short, owners[:SHARDS_NAMED_MAX]))}" if owners else ""
        yield AttentionItem(
            "shards_unowned",
            "critical",
            AttentionSubject("shards", "unowned"),
            f"no living gateway owns {len(facts.unowned)} of {facts.shards} shards{whose}"
            f" ({shards}{others}), so their sessions are not served: start it, or another one",
            link=Link("fleet"),
        )
    for queue, closed in facts.closed_items.items():
        yield AttentionItem(
            "counts_differ",
            "notice",
            AttentionSubject("queue", queue),
            f"{queue} holds {closed.count} items of requests that are closed: they leave it when"
            " they are claimed",
            _time_of(closed.since_ms),
            Link("queue", (queue,)),
        )
    for death in facts.deaths:
        age_ms = facts.at_ms - datetime.fromisoformat(death["at"]).timestamp() * 1000
        if age_ms <= DEATHS_KNOWN_MS:
            yield AttentionItem(
                "process_dies",
                "critical" if age_ms <= DEATHS_FRESH_MS else "notice",
                AttentionSubject("process", death["name"]),
                f"{_short(death['name'])} died {death['times']} times in the same way, each soon"
                f" after its start: {_short(death['reason'])}",
                death["at"],
                Link("fleet"),
            )


def _fleet_items(fleet: FleetFacts, record: RecordFacts | None) -> Iterator[AttentionItem]:
    beats, set_aside = fleet.beats, len(fleet.set_aside)
    if set_aside:
        are = "request is" if set_aside == 1 else "requests are"
        yield AttentionItem(
            "requests_set_aside",
            "warning",
            AttentionSubject("shards", "set_aside"),
            f"{set_aside} {are} set aside, because whoever took them ended",
            link=Link("fleet"),
            action=AttentionAction("List what is set aside", _command("queues", "set-aside")),
        )
    served = {queue for beat in beats for queue in beat.queues}
    for beat in beats:
        if is_late(beat, fleet.at_ms):
            yield _late_worker(beat)
    for firing in fleet.firings:
        queue, is_plugins, _ = firing.name.partition("/")
        due_ms = 1000 * firing.next_s
        # Without workers nothing is run, and that is said of their queues.
        if beats and (not is_plugins or queue in served) and fleet.at_ms - due_ms > OVERDUE_MS:
            yield _overdue_schedule(firing, _time_of(due_ms))
    yield from (_gone_worker(beat, served) for beat in fleet.gone)
    for name, depth in fleet.depths.items():
        if name not in served:
            yield _without_workers(name, record)
        for priority in priorities_of(name):
            age_ms = depth.oldest_eligible_age_ms.get(priority.name, 0)
            if age_ms > priority.service_target_ms:
                yield _late_priority(fleet, name, priority, depth)


def _overdue_schedule(firing: CronFiring, due_at: str) -> AttentionItem:
    return AttentionItem(
        "schedule_overdue",
        "warning",
        AttentionSubject("schedule", firing.name),
        f"{_short(firing.name)} was due and has not run: the workers' log says why",
        due_at,
        Link("schedules"),
    )


def _late_worker(beat: WorkerBeat) -> AttentionItem:
    return AttentionItem(
        "worker_late",
        "warning",
        AttentionSubject("worker", beat.worker_id),
        f"{beat.worker_id} missed a beat: if it is dead, others take over its work",
        _time_of(beat.seen_at_ms),
        Link("worker", (beat.worker_id,)),
    )


def _gone_worker(beat: WorkerBeat, served: Collection[str]) -> AttentionItem:
    """Where others serve its queues, somebody should know of it and nothing waits."""
    where = f" on {_short(beat.host)}" if beat.host else ""
    items = {0: "", 1: " with 1 item in hand, which others take over"}.get(
        beat.in_flight, f" with {beat.in_flight} items in hand, which others take over"
    )
    return AttentionItem(
        "worker_gone",
        "notice" if {*beat.queues} <= {*served} else "warning",
        AttentionSubject("worker", beat.worker_id),
        f"{beat.worker_id}{where} ended without a good-bye{items}",
        _time_of(beat.seen_at_ms),
        Link("workers"),
    )


def _without_workers(queue: str, record: RecordFacts | None) -> AttentionItem:
    open_requests = 0 if record is None else record.requests["open_by_queue"].get(queue, 0)
    since = None if record is None else record.requests["oldest_open_at"].get(queue)
    waits = {0: "", 1: ", and 1 request waits"}.get(
        open_requests, f", and {open_requests} requests wait"
    )
    return AttentionItem(
        "workers_missing",
        "critical" if open_requests else "notice",
        AttentionSubject("queue", queue),
        f"no worker serves {queue}{waits}",
        since,
        Link("queue", (queue,)),
        AttentionAction("Start a worker", _command("worker", "--queues", queue)),
    )


def _late_priority(
    fleet: FleetFacts, queue: str, priority: Priority, depth: QueueDepth
) -> AttentionItem:
    age_ms = depth.oldest_eligible_age_ms[priority.name]
    return AttentionItem(
        "priority_late",
        "warning",
        AttentionSubject("priority", f"{queue} {priority.name}"),
        f"{queue} {priority.name} is late: its oldest waits for longer than its target of"
        f" {priority.service_target_ms / 1000:.0f} s",
        _time_of(fleet.at_ms - age_ms),
        Link("queue", (queue,)),
        AttentionAction("See what waits", _command("queues", "list", operands=[queue])),
    )


def _pause_items(record: RecordFacts) -> Iterator[AttentionItem]:
    for pause in record.pauses:
        place = " ".join(filter(None, (pause.queue, pause.priority)))
        by = f" by {_short(pause.decided_by)}" if pause.decided_by else ""
        why = f" ({_short(pause.reason)})" if pause.reason else ""
        of_priority = ("--priority", pause.priority) if pause.priority else ()
        resume = _command("queues", "resume", operands=[pause.queue], options=of_priority)
        link = Link("queue", (pause.queue,))
        yield AttentionItem(
            "queue_paused",
            "warning",
            AttentionSubject("priority" if pause.priority else "queue", place),
            f"{place} is paused{by}{why}",
            pause.paused_at,
            link,
            AttentionAction("Resume it", resume, link),
        )


def _checkpoint_items(facts: AttentionFacts) -> Iterator[AttentionItem]:
    status = facts.checkpoint
    if status is None:
        return
    problem, checkpoint = status["problem"], status["checkpoint"]
    log, kind, severity, said = AttentionSubject("log", "published"), "", SEVERITIES[1], ""
    action: AttentionAction | None = AttentionAction("Look at keys and tiles", _command("doctor"))
    if problem is not None:
        is_diverged = problem["code"] == "checkpoint_diverged"
        kind = "log_diverged" if is_diverged else "log_not_published"
        severity = "critical" if is_diverged else "warning"
        said = f"the log is not published: {problem['message']} ({problem['code']})"
    elif checkpoint is not None and checkpoint["verdict"] == "diverged":
        kind, severity = "log_diverged", "critical"
        said = f"the published checkpoint is {checkpoint['message']}"
    elif checkpoint is not None and checkpoint["verdict"] == "invalid":
        kind, severity = "checkpoint_refused", "critical"
        said = f"the published checkpoint is {checkpoint['message']}: {_CHECKPOINT_HELP}"
        action = None
    elif checkpoint is not None and not checkpoint["quorum_met"]:
        kind = "witnesses_missing"
        said = f"the published checkpoint is {checkpoint['message']}: its witnesses do not answer"
    if kind:
        sentence = _short(said, SENTENCE_CHARS_MAX)
        yield AttentionItem(kind, severity, log, sentence, link=Link("record"), action=action)


def _seldom_items(facts: SeldomFacts) -> Iterator[AttentionItem]:
    for group in sorted(facts.dead, key=lambda group: -group.count):
        signature = _short(group.error_signature)
        query = (
            ("queue", group.queue),
            ("state", "standing"),
            ("error_signature", group.error_signature),
        )
        were = "was" if group.count == 1 else "were"
        yield AttentionItem(
            "requests_given_up",
            "warning",
            AttentionSubject("queue", f"{group.queue} {group.error_signature}"),
            f"{group.count} of {group.queue} {were} given up: {signature}",
            group.first_closed_at,
            Link("requests", query=query),
            AttentionAction("See what failed", _command("queues", "dead", operands=[group.queue])),
        )
    for halt in facts.halts:
        what = halt.operation_kind or f"detector {halt.detector}"
        yield AttentionItem(
            "implications_halted",
            "warning",
            AttentionSubject("halt", halt.halt_id),
            f"{_short(what)} is halted: {halt.reason_code.replace('_', ' ')}",
            halt.halted_at,
            action=AttentionAction(
                "Resume it", _command("implications", "resume", operands=[halt.halt_id])
            ),
        )
    yield from _run_items(facts)
    yield from _review_items(facts)


def _run_items(facts: SeldomFacts) -> Iterator[AttentionItem]:
    for problem in facts.runs:
        look = _command("landscape", "report", operands=[problem.run_id, "failure_context"])
        yield AttentionItem(
            problem.kind,
            "critical" if problem.kind == "run_failed" else "warning",
            AttentionSubject("run", f"{problem.run_id} {problem.message}"),
            f"run {_short(problem.run_id)} {problem.message}",
            problem.since,
            Link("run", (problem.run_id,)),
            AttentionAction("See what failed", look),
        )


def _review_items(facts: SeldomFacts) -> Iterator[AttentionItem]:
    counts = facts.reviews
    if counts is None:
        return
    by_kind = {
        "relationship": counts["relationship"],
        "observation": counts["observation"],
        "outcome": counts["outcome"],
        "conflict": counts["conflict"],
        "migration": counts["migration"],
    }
    for kind, command in _REVIEWS.items():
        if count := by_kind[kind]:
            what = f"{kind} waits" if count == 1 else f"{kind}s wait"
            number = f"{count} or more" if count >= counts["counted_max"] else str(count)
            yield AttentionItem(
                "reviews_waiting",
                "notice",
                AttentionSubject("reviews", kind),
                f"{number} {what} for a person's review",
                link=Link("reviews", query=(("kind", kind),)),
                action=AttentionAction("Review them", command),
            )
