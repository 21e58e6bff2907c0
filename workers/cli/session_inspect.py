"""Runs `rotulus session show, audit, watch, replay`: a session's state, trail, replay.

Watching polls the audit twice a second: the stream at `/events` is the dashboard's picture of the
whole process and names no entries.
"""

from dataclasses import replace
from typing import Any, BinaryIO
from uuid import UUID

import click

from kernel.belief.limits import decode_json
from workers.cli.common import as_json, print_document
from workers.cli.input_file import InputFile, input_invalid, read_whole
from workers.cli.session_options import (
    SessionAddress,
    pass_address,
    print_answer,
    print_line,
    session_id,
    survivors,
)
from workers.client.typed.belief_session import SessionClient
from workers.environment.output import echo, echo_json_line
from workers.environment.system_host import system_host
from workers.use_cases.session_replay import Replayed, replay_audit
from workers.views.belief_sessions import AuditEntry, Ontology

NAMES_SHOWN_MAX = 5
TRAIL_BYTES_MAX = 1 << 30


@click.command()
@session_id
@survivors
@as_json
@pass_address
def show(place: SessionAddress, session_id: UUID, survivors: int, *, as_json: bool) -> None:
    """Show the state of the session."""
    print_answer(
        place.run(session_id, lambda client: client.snapshot(), survivors=survivors),
        as_json=as_json,
    )


@click.command()
@session_id
@click.option("--since", metavar="EVENT_ID", help="Only what came after this entry.")
@as_json
@pass_address
def audit(place: SessionAddress, session_id: UUID, since: str | None, *, as_json: bool) -> None:
    """The audit trail; with --json what `replay FILE` reads."""

    async def read(client: SessionClient) -> list[dict[str, Any]]:
        documents = []
        async for entry in client.audit(since):
            if as_json:
                documents.append(entry.model_dump())
            else:
                _tell(entry)
        return documents

    events = place.run(session_id, read)
    if as_json:
        print_document({"events": events}, as_json=True)


@click.command()
@session_id
@click.option("--since", metavar="EVENT_ID", help="Only what comes after this entry.")
@as_json
@pass_address
def watch(place: SessionAddress, session_id: UUID, since: str | None, *, as_json: bool) -> None:
    """The audit trail as it grows, until the session ends; with --json an entry a line."""

    async def follow(client: SessionClient) -> None:
        async for entry in client.watch(since):
            if as_json:
                echo_json_line(entry.model_dump())
            else:
                _tell(entry)

    place.run(session_id, follow)


@click.command()
@click.argument("file", required=False, type=InputFile())
@click.option("--session", "known_as", type=click.UUID, help="Replay this session of the gateway.")
@as_json
@pass_address
def replay(
    place: SessionAddress, file: BinaryIO | None, known_as: UUID | None, *, as_json: bool
) -> None:
    """Replay an audit trail, to the byte; ends with 1 on any difference.

    FILE is what `audit --json` printed. Without FILE and --session it is the whole way: a session
    is declared, two eliminations are submitted, snapshot and audit are fetched, and what the audit
    gives when it is replayed is compared with the snapshot.
    """
    if file is not None and known_as is not None:
        raise click.UsageError("FILE or --session, not both")
    if file is not None:
        replayed = replay_audit(_events(file))
    elif known_as is not None:
        replayed = place.run(known_as, _fetch_replay)
    else:
        replayed = place.run(system_host().new_id(), _replay_with_differences)
    if as_json:
        print_document(replayed.document(), as_json=True)
    else:
        _print_replay(replayed)
    if replayed.differences:
        raise click.exceptions.Exit(1)


async def _replay_with_differences(client: SessionClient) -> Replayed:
    ontology = Ontology(
        hypothesis_space_id="replay",
        hypothesis_version="1",
        causal_graph_ref="none",
        causal_graph_version="0",
    )
    await client.declare(ontology, ["amber", "blue", "cyan", "dun"])
    await client.eliminate("cli://replay", "observation-1", ["amber", "blue"])
    await client.eliminate("cli://replay", "observation-2", ["blue", "cyan"])
    replayed = await _fetch_replay(client)
    survivors = (replayed.snapshot or {}).get("survivors")
    if survivors == ["dun"]:
        return replayed
    problem = f"survivors: {survivors!r} are left of what was declared, and not ['dun']"
    return replace(replayed, differences=(*replayed.differences, problem))


async def _fetch_replay(client: SessionClient) -> Replayed:
    """Read the snapshot, then the trail up to its head, and replay."""
    snapshot = (await client.snapshot()).model_dump()
    events = []
    async for entry in client.audit():
        events.append(entry.model_dump())
        if entry.event_id == snapshot["audit_head_event_id"]:
            break
    return replay_audit(events, snapshot)


def _events(file: BinaryIO) -> list[Any]:
    try:
        document = decode_json(read_whole(file, TRAIL_BYTES_MAX))
        events = document["events"] if isinstance(document, dict) else document
    except (ValueError, KeyError, RecursionError) as error:
        raise input_invalid(file, f"no audit trail: {error!r}") from None
    if not isinstance(events, list):
        raise input_invalid(file, "no list of events")
    return events


def _tell(entry: AuditEntry) -> None:
    struck = entry.delta.eliminated
    shown = " ".join(f"-{hypothesis_id}" for hypothesis_id in struck[:NAMES_SHOWN_MAX])
    beyond = f" and {len(struck) - NAMES_SHOWN_MAX} more" if len(struck) > NAMES_SHOWN_MAX else ""
    about = next(
        (
            str(entry.payload[name])
            for name in ("observation_id", "obligation_id", "conclusion_id")
            if name in entry.payload
        ),
        "",
    )
    reason = str(entry.payload.get("reason", ""))
    cells = (entry.ts, entry.event_id, f"{entry.verb:<19}", about, shown + beyond, reason)
    echo("  ".join(cell for cell in cells if cell).rstrip())


def _print_replay(replayed: Replayed) -> None:
    for difference in replayed.differences:
        echo(f"DIFFERS  {difference}")
    if replayed.snapshot is not None:
        print_line("session_id", replayed.snapshot["session_id"])
        print_line("n_survivors", replayed.snapshot["n_survivors"])
        print_line("head_event_hash", str(replayed.head_event_hash))
    verdict = "does NOT replay" if replayed.differences else "replays"
    echo(f"{replayed.events} audit entries: the trail {verdict}")
