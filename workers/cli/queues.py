"""Runs `rotulus queues`: what an operator sees of the queues and does to them."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import click

from actors.sharding import SHARDS_MAX
from workers.cli.common import (
    as_json,
    gateway_url,
    pass_settings,
    print_document,
    print_table,
)
from workers.cli.gateway_call import ask_gateway, decider
from workers.cli.places import named_gateway
from workers.cli.question_commands import (
    Columns,
    as_json_document,
    as_rows,
    of_gateway,
    question_command,
    question_of,
)
from workers.cli.queues_bulk import bulk
from workers.environment.data_folder import DataFolder
from workers.environment.output import echo
from workers.environment.settings import Settings
from workers.questions.gateway import GetQueues, GetRequest, GetWaiting, ListSetAside
from workers.questions.requests import ListDeadLetters, ListFailures, ListRequests

DEAD_AT_ONCE = 256

priority = click.option("--priority", help="One priority of the queue; without it all of them.")
decided_by = click.option(
    "--by", "decided_by", default="", help="Who decides; without it the account's name."
)
reason = click.option("--reason", default="", help="Why; it is put on the record.")
signature = click.option(
    "--error-signature",
    "signature",
    help="Why they were given up, or the signature of their newest attempt that failed.",
)


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def queues(context: click.Context, *, as_json: bool) -> None:
    """Show what each queue holds, by state and age; pause, resume, requeue, dismiss and cancel."""
    if context.invoked_subcommand is not None:
        return
    with of_gateway() as ask:
        state = ask(GetQueues())
    if as_json:
        print_document(state, as_json=True)
        return
    for pause in state["pauses"]:
        place = " ".join(filter(None, (pause["queue"], pause["priority"])))
        by = f" by {pause['decided_by']}" if pause["decided_by"] else ""
        why = f": {pause['reason']}" if pause["reason"] else ""
        echo(f"{place} paused at {pause['paused_at']}{by}{why}")
    for name, queue in state["queues"].items():
        echo(f"{name}{_pause_of(queue)}")
        echo(f"  {_backlog(queue)}")
        if oldest := state["requests"]["oldest_open_at"].get(name):
            echo(f"  the oldest was asked for at {oldest}")
        rows = [
            (
                priority,
                ready,
                queue["suspended"][priority],
                f"{queue['oldest_eligible_age_ms'][priority] / 1000:.1f} s",
            )
            for priority, ready in queue["ready"].items()
        ]
        print_table(("priority", "ready", "suspended", "oldest"), rows)


@queues.command()
@click.argument("queue")
@priority
@decided_by
@reason
@pass_settings
def pause(
    settings: Settings, queue: str, priority: str | None, decided_by: str, reason: str
) -> None:
    """Let workers begin with nothing more of QUEUE; asking for work goes on."""
    _switch(settings, queue, "pause", priority, decided_by, reason)


@queues.command()
@click.argument("queue")
@priority
@decided_by
@reason
@pass_settings
def resume(
    settings: Settings, queue: str, priority: str | None, decided_by: str, reason: str
) -> None:
    """End a pause of QUEUE."""
    _switch(settings, queue, "resume", priority, decided_by, reason)


def _print_dead(document: Any) -> None:
    for name, count in document["by_signature"].items():
        echo(f"{count:>8}  {name}")
    _print_letters(document)


def _print_why(document: Any) -> None:
    echo(document["why"] or f"it does not wait: it is {document['state']}")


_REQUESTS: Columns = {
    "asked for": "enqueued_at",
    "queue": "queue",
    "state": "state",
    "priority": "priority",
    "item": "item_key",
    "reason": "reason",
    "request": "request_id",
}
_DEAD: Columns = {
    "given up": "closed_at",
    "queue": "queue",
    "error signature": "error_signature",
    "request": "request_id",
}
_FAILURES: Columns = {
    "requests": "requests",
    "open": "open",
    "why": "signature",
    "queue": "newest_queue",
    "newest request": "newest_request_id",
}
_print_letters = as_rows("dead_letters", _DEAD)

queues.add_command(
    question_command(ListRequests, "list", as_rows("requests", _REQUESTS), of_gateway)
)
queues.add_command(bulk)
queues.add_command(question_command(ListDeadLetters, "dead", _print_dead, of_gateway))
queues.add_command(question_command(GetRequest, "request", as_json_document, of_gateway))
queues.add_command(question_command(GetWaiting, "why", _print_why, of_gateway))
queues.add_command(
    question_command(ListFailures, "failures", as_rows("signatures", _FAILURES), of_gateway)
)


@queues.command()
@click.argument("queue")
@click.argument("request_ids", nargs=-1)
@signature
@click.option("--all", "everything", is_flag=True, help="All that was given up of the queue.")
@decided_by
@as_json
@pass_settings
def requeue(
    settings: Settings,
    queue: str,
    request_ids: tuple[str, ...],
    signature: str | None,
    decided_by: str,
    *,
    everything: bool,
    as_json: bool,
) -> None:
    """Ask anew for dead letters of QUEUE: those named, those of a signature, or all of them."""
    said = {"decided_by": decider(decided_by)}
    receipts: list[Any] = []
    for ids in _pages_of_dead(queue, request_ids, signature, everything=everything):
        body = {"request_ids": ids, **said}
        receipts += _post(settings, f"{_path(queue)}/requeue", body)["requests"]
    print_document({"requeued": receipts if as_json else len(receipts)}, as_json=as_json)


@queues.command()
@click.argument("queue")
@click.argument("request_ids", nargs=-1)
@signature
@click.option("--all", "everything", is_flag=True, help="All that was given up of the queue.")
@click.option("--reason", required=True, help="Why; it is put on the record.")
@decided_by
@as_json
@pass_settings
def dismiss(
    settings: Settings,
    queue: str,
    request_ids: tuple[str, ...],
    signature: str | None,
    decided_by: str,
    reason: str,
    *,
    everything: bool,
    as_json: bool,
) -> None:
    """Settle dead letters of QUEUE without asking for them anew; they are listed no more."""
    said = {"reason": reason, "decided_by": decider(decided_by)}
    dismissed = 0
    for ids in _pages_of_dead(queue, request_ids, signature, everything=everything):
        body = {"request_ids": ids, **said}
        dismissed += _post(settings, f"{_path(queue)}/dismiss", body)["dismissed"]
    print_document({"dismissed": dismissed}, as_json=as_json)


@queues.command()
@click.argument("queue")
@click.argument("request_ids", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why; it is put on the record.")
@decided_by
@as_json
@pass_settings
def cancel(
    settings: Settings,
    queue: str,
    request_ids: tuple[str, ...],
    decided_by: str,
    reason: str,
    *,
    as_json: bool,
) -> None:
    """Take requests of QUEUE back, unless they have their outcome."""
    said = {"reason": reason, "decided_by": decider(decided_by)}
    answers = _post_of_each(settings, queue, request_ids, "cancel", said)
    cancelled = sum(answer["cancelled"] for answer in answers)
    print_document({"cancelled": answers if as_json else cancelled}, as_json=as_json)


@queues.command()
@click.argument("queue")
@click.argument("request_ids", nargs=-1, required=True)
@click.option("--to", "priority_to", required=True, help="The other priority of the queue.")
@reason
@decided_by
@as_json
@pass_settings
def prioritize(
    settings: Settings,
    queue: str,
    request_ids: tuple[str, ...],
    priority_to: str,
    decided_by: str,
    reason: str,
    *,
    as_json: bool,
) -> None:
    """Let open requests of QUEUE wait at another priority; what is in hand goes on."""
    said = {"priority": priority_to, "reason": reason, "decided_by": decider(decided_by)}
    answers = _post_of_each(settings, queue, request_ids, "prioritize", said)
    changed = sum(answer["changed"] for answer in answers)
    print_document({"changed": answers if as_json else changed}, as_json=as_json)


@queues.command("set-aside")
@as_json
@pass_settings
def set_aside(settings: Settings, *, as_json: bool) -> None:
    """List requests that ended each process that took them, and processes that die alike."""
    runtime = (not named_gateway() and DataFolder(settings.data_dir).read_runtime()) or {}
    with of_gateway() as ask:
        answer = ask(ListSetAside())
    answer["died_alike"] = runtime.get("died_alike", [])
    if as_json:
        print_document(answer, as_json=True)
        return
    places = {(str(entry["shard"]), entry["offset"]) for entry in answer["set_aside"]}
    rows = []
    for finding in answer["findings"]:
        place = (finding["shard"], finding["offset"])
        state = "set aside" if place in places else "gone"
        rows.append((finding["emitted_at"], *place, state, finding.get("session_id", "-")))
    print_table(("emitted", "shard", "offset", "state", "session"), rows)
    for deaths in answer["died_alike"]:
        died = f"{deaths['name']} died alike {deaths['times']} times"
        echo("  ".join((deaths["at"], died, deaths["reason"], deaths["last_line"])))


@queues.command("put-back")
@click.argument("shard", type=click.IntRange(0, SHARDS_MAX - 1))
@click.argument("offset")
@pass_settings
def put_back(settings: Settings, shard: int, offset: str) -> None:
    """Let the request that was set aside at OFFSET of SHARD be taken again."""
    answer = _post(settings, "/v1/shards/put-back", {"shard": shard, "offset": offset})
    print_document(answer, as_json=False)


def _switch(
    settings: Settings, queue: str, verb: str, priority: str | None, decided_by: str, reason: str
) -> None:
    body = {"priority": priority, "decided_by": decider(decided_by), "reason": reason}
    answer = _post(settings, f"{_path(queue)}/{verb}", body)
    print_document(answer, as_json=False)


def _pages_of_dead(
    queue: str,
    request_ids: tuple[str, ...],
    signature: str | None,
    *,
    everything: bool,
) -> Iterator[list[str]]:
    """Yield the ids of the dead letters that are meant, as many as a call takes at a time."""
    if bool(request_ids) + (signature is not None) + everything != 1:
        raise click.UsageError("name requests, or an --error-signature, or --all")
    for start in range(0, len(request_ids), DEAD_AT_ONCE):
        yield list(request_ids[start : start + DEAD_AT_ONCE])
    after: int | None = None
    is_last = bool(request_ids)
    with of_gateway() as ask:
        while not is_last:
            stated = {"queue": queue, "error_signature": signature, "after": after}
            page = ask(question_of(ListDeadLetters, {**stated, "limit": DEAD_AT_ONCE}))
            if ids := [letter["request_id"] for letter in page["dead_letters"]]:
                yield ids
            after = page["next_after"]
            is_last = after is None


def _backlog(queue: dict[str, Any]) -> str:
    """Return a sum that adds up: what is open, and where it stands."""
    counts = queue["backlog"]
    parts = ("ready", "held", "delayed", "suspended", "in_flight")
    stands = " + ".join(f"{counts[part]} {part.replace('_', ' ')}" for part in parts)
    stale = f"; {counts['stale']} items of closed requests" if counts["stale"] else ""
    return f"open {counts['open']} = {stands}{stale}; dead {queue['dead']}"


def _pause_of(queue: dict[str, Any]) -> str:
    if queue["paused"]:
        return "  paused"
    paused = ", ".join(queue["paused_priorities"])
    return f"  paused: {paused}" if paused else ""


def _path(queue: str) -> str:
    return f"/v1/queues/{quote(queue, safe='')}"


def _post_of_each(
    settings: Settings, queue: str, request_ids: Sequence[str], verb: str, said: Any
) -> list[Any]:
    """Do something to each of some requests; return the answers."""
    paths = (f"{_path(queue)}/requests/{quote(each, safe=':')}/{verb}" for each in request_ids)
    return [_post(settings, path, said) for path in paths]


def _post(settings: Settings, path: str, body: Any) -> Any:
    return ask_gateway(gateway_url(settings), path, body)
