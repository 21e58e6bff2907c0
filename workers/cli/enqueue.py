"""`rotulus enqueue`: ask a queue for work, and wait for it if wanted.

It reads everything before it sends anything, so a line that is no request leaves nothing behind.
When the gateway refuses a later request, the error says how many are on the record. With `--wait`
it ends with 1 unless everything was completed.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from difflib import get_close_matches
from math import isnan
from typing import IO, Any
from urllib.parse import quote

import click
import orjson

from kernel.json_text import RepeatedKey
from kernel.work.requests import OPEN_MAX
from queues.client import GatewayError, Job, JobOutcome, NewRequest, Rotulus
from queues.client.gateway_http import GIVE_UP_AFTER_S
from workers.cli.common import (
    as_json,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import said_sleep
from workers.cli.input_file import INVALID, InputFile, input_invalid, parse_json
from workers.environment.terminal_progress import Progress

LINE_BYTES_MAX = 64 * 1024
LINES_MAX = OPEN_MAX
"""More could not be open at once."""

FIELDS = frozenset({"content", "request_key", "priority", "delay_s", "run_at"})


class _Seconds(click.FloatRange):
    """A number of seconds; the library's range lets pass what is no number."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        seconds: float = super().convert(value, param, ctx)
        if isnan(seconds):
            self.fail(f"{value} is no number", param, ctx)
        return seconds


@click.command()
@click.argument("queue")
@click.argument("file", type=InputFile(), default="-")
@click.option("--wait", is_flag=True, help="Wait for the outcomes; 1 unless all are completed.")
@click.option(
    "--timeout",
    "timeout_s",
    type=_Seconds(0, 86_400),
    default=300.0,
    show_default=True,
    help="Seconds to wait at most.",
)
@as_json
def enqueue(
    queue: str,
    file: IO[bytes],
    timeout_s: float,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    """Ask QUEUE for the work in FILE (JSON Lines, - for standard input).

    A line holds an object with a "content", and if need be a "request_key", a "priority" and a
    "delay_s" or a "run_at". A line with a key may be sent again in another run: it is the same
    request.
    """
    settings = read_settings()
    requests = _read(file, queue)

    async def ask() -> tuple[list[Job], list[JobOutcome]]:
        total = len(requests)
        url = gateway_url(settings)
        async with Rotulus(url, sleep=said_sleep(url, GIVE_UP_AFTER_S)) as rotulus:
            if not requests:
                await _check_queue(rotulus, queue)
            with Progress("enqueue") as progress:
                try:
                    jobs = await rotulus.enqueue_many(
                        requests, progress=lambda done: progress.count(done, total, "requests")
                    )
                except GatewayError as error:
                    raise GatewayError(error.code, _refusal_text(error)) from None
            if not wait:
                return jobs, []
            with Progress("wait") as progress:
                outcomes = await rotulus.outcomes(
                    jobs, timeout_s, progress=lambda done: progress.count(done, total, "requests")
                )
        return jobs, outcomes

    jobs, outcomes = run(ask)
    print_document(_document(jobs, outcomes, whole=as_json), as_json=as_json)
    sys.exit(1 if any(outcome.state != "completed" for outcome in outcomes) else 0)


async def _check_queue(rotulus: Rotulus, queue: str) -> None:
    """Raise what the gateway says of a queue that there is not, where nothing is asked of it."""
    await rotulus.gateway.ask("GET", f"/v1/queues/{quote(queue, safe='')}/requests?limit=1")


class _BadLine(Exception):
    """What is wrong with a line."""

    def __init__(self, problem: str, code: str = INVALID) -> None:
        super().__init__(problem)
        self.code = code


def _read(file: IO[bytes], queue: str) -> list[NewRequest]:
    """Read everything before anything is sent, so that a bad line changes nothing."""
    requests: list[NewRequest] = []
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise input_invalid(file, f"longer than {LINE_BYTES_MAX} bytes", number)
        if len(requests) == LINES_MAX:
            raise input_invalid(file, f"more than {LINES_MAX} requests", number)
        if line.strip():
            try:
                requests.append(_read_line(line, queue))
            except _BadLine as error:
                raise input_invalid(file, str(error), number, error.code) from None
    return requests


def _read_line(line: bytes, queue: str) -> NewRequest:
    """Return what a line asks for.

    Raises:
        _BadLine: it asks for nothing.
    """
    try:
        stated = parse_json(line)
    except RepeatedKey as error:
        raise _BadLine(str(error), error.code) from None
    except orjson.JSONDecodeError as error:
        raise _BadLine(f"not JSON: {error}") from None
    if not isinstance(stated, dict) or not isinstance(stated.get("content"), dict):
        raise _BadLine('not an object with a "content" that is an object')
    if unknown := sorted(set(stated) - FIELDS):
        near = get_close_matches(unknown[0], FIELDS, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise _BadLine(f"unknown field {unknown[0]!r}{hint}")
    return NewRequest(
        stated["content"],
        queue=queue,
        key=stated.get("request_key"),
        priority=stated.get("priority"),
        delay_s=stated.get("delay_s", 0),
        run_at=_time(stated.get("run_at")),
    )


def _time(stated: object) -> datetime | None:
    if stated is None:
        return None
    try:
        moment = datetime.fromisoformat(str(stated))
    except ValueError:
        raise _BadLine('"run_at" is no time such as 2026-01-31T12:00:00Z') from None
    return moment


def _refusal_text(error: GatewayError) -> str:
    """Return what was refused and why, and the part of the file that is on the record."""
    place = "" if error.index is None else f"request {error.index + 1}: "
    recorded = f" ({len(error.jobs)} before it are on the record)" if error.jobs else ""
    return f"{place}{error.message}{recorded}"


def _document(
    jobs: Sequence[Job], outcomes: Sequence[JobOutcome], *, whole: bool
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "requests": len(jobs),
        "duplicates": sum(job.is_duplicate for job in jobs),
    }
    if outcomes:
        document["outcomes"] = dict(Counter(outcome.state for outcome in outcomes))
    if whole:
        document["asked"] = [
            {"request_id": job.request_id, "duplicate": job.is_duplicate} for job in jobs
        ]
        document["ended"] = [asdict(outcome) for outcome in outcomes]
    return document
