"""Runs `rotulus enqueue`: ask a queue for work, and wait for it if wanted.

It reads everything before it sends anything, so a line that is no request leaves nothing behind.
When the gateway refuses a later request, the error says how many are on the record. With `--wait`
it ends with 1 unless everything was completed.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from difflib import get_close_matches
from types import MappingProxyType
from typing import IO, Any, BinaryIO
from urllib.parse import quote

import click

from kernel.values.json_lines import (
    JsonLine,
    LineRefused,
    json_lines,
    printable_json,
    raise_refused,
)
from kernel.work.requests import CONTENT_BYTES_MAX, DELAY_S_MAX, KEY_CHARS_MAX, OPEN_MAX
from kernel.work.tags import TAGS_MAX
from workers.cli.common import (
    Seconds,
    as_json,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import announcing_sleep
from workers.cli.input_file import InputFile, line_error, place_in
from workers.client import GatewayError, Job, JobOutcome, NewRequest, Rotulus
from workers.client.gateway_http import GIVE_UP_AFTER_S
from workers.environment.terminal_progress import Progress

LINE_BYTES_MAX = 64 * 1024
LINES_MAX = OPEN_MAX
"""More could not be open at once."""


def _is_content(stated: object) -> bool:
    return isinstance(stated, dict)


def _is_key(stated: object) -> bool:
    return isinstance(stated, str) and 0 < len(stated) <= KEY_CHARS_MAX


def _is_priority(stated: object) -> bool:
    return isinstance(stated, str)


def _is_delay(stated: object) -> bool:
    return type(stated) is int and 0 <= stated <= DELAY_S_MAX


def _is_time(stated: object) -> bool:
    try:
        return isinstance(stated, str) and datetime.fromisoformat(stated).tzinfo is not None
    except ValueError:
        return False


def _are_tags(stated: object) -> bool:
    return (
        isinstance(stated, dict)
        and len(stated) <= TAGS_MAX
        and all(isinstance(value, str) for value in stated.values())
    )


FIELDS: Mapping[str, tuple[Callable[[object], bool], str]] = MappingProxyType(
    {
        "content": (_is_content, f"an object of at most {CONTENT_BYTES_MAX >> 10} KiB"),
        "request_key": (_is_key, f"text of 1 to {KEY_CHARS_MAX} characters"),
        "priority": (_is_priority, "the name of a priority of the queue"),
        "delay_s": (_is_delay, f"whole seconds from 0 to {DELAY_S_MAX}"),
        "tags": (_are_tags, f"an object of at most {TAGS_MAX} texts"),
        "run_at": (_is_time, "a time with its zone, such as 2026-01-31T12:00:00Z"),
    }
)
"""The fields of a line: what is taken, and what is said of it."""

_NOUNS = {
    "request_key": "key",
    "priority": "name",
    "delay_s": "delay",
    "run_at": "time",
    "tags": "tags",
}

LIMITS = f"""\b
A line has at most {LINE_BYTES_MAX >> 10} KiB, a file {LINES_MAX:,} lines.
""" + "\n".join(f"{name}: {allowed}" for name, (_, allowed) in FIELDS.items())
"""The end of the command's help."""


class _Tag(click.ParamType[tuple[str, str]]):
    """A key and its value."""

    name = "key=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return both."""
        key, sign, text = value.partition("=")
        if not key or not sign:
            self.fail(f"{value!r} is no tag such as customer=acme", param, ctx)
        return key, text


@click.command(epilog=LIMITS)
@click.argument("queue")
@click.argument("file", type=InputFile(), default="-")
@click.option("--wait", is_flag=True, help="Wait for the outcomes; 1 unless all are completed.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(0, 86_400),
    default=300.0,
    show_default=True,
    help="Seconds to wait at most.",
)
@click.option("--tag", "tags", type=_Tag(), multiple=True, help="A tag of each, as customer=acme.")
@as_json
def enqueue(
    queue: str,
    file: BinaryIO,
    timeout_s: float,
    tags: tuple[tuple[str, str], ...],
    *,
    wait: bool,
    as_json: bool,
) -> None:
    """Ask QUEUE for the work in FILE (JSON Lines, - for standard input).

    A line holds an object with a "content", and if need be a "request_key", a "priority", "tags"
    and a "delay_s" or a "run_at". A line with a key may be sent again in another run: it is the
    same request.
    """
    settings = read_settings()
    requests, numbers = _read(file, queue, dict(tags))

    async def ask() -> tuple[list[Job[Any]], list[JobOutcome[Any]]]:
        total = len(requests)
        url = gateway_url(settings)
        async with Rotulus(url, sleep=announcing_sleep(url, GIVE_UP_AFTER_S)) as rotulus:
            if not requests:
                await _check_queue(rotulus, queue)
            with Progress("enqueue") as progress:
                try:
                    jobs = await rotulus.enqueue_many(
                        requests, progress=lambda done: progress.count(done, total, "requests")
                    )
                except GatewayError as error:
                    text = _refusal_text(error, file, numbers)
                    raise GatewayError(error.code, text, error.status, error.details) from None
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


def _read(
    file: BinaryIO, queue: str, tags: Mapping[str, str]
) -> tuple[list[NewRequest], list[int]]:
    """Return the requests and their lines.

    Everything is read before anything is sent, so that a bad line changes nothing.
    """
    requests: list[NewRequest] = []
    numbers: list[int] = []
    try:
        for line in raise_refused(json_lines(file, LINE_BYTES_MAX, lines_max=LINES_MAX)):
            _check(line)
            requests.append(_request(line.value, queue, tags))
            numbers.append(line.number)
    except LineRefused as refused:
        raise line_error(file, refused) from None
    return requests, numbers


def _check(line: JsonLine) -> None:
    """Refuse a line that asks for nothing.

    Raises:
        LineRefused: naming the field, what was read and what is allowed.
    """
    stated = line.value
    if not isinstance(stated.get("content"), dict):
        problem = 'not an object with a "content" that is an object'
        raise LineRefused("json_line_not_object", line.number, problem, FIELDS["content"][1])
    if unknown := sorted(set(stated) - FIELDS.keys()):
        near = get_close_matches(unknown[0], FIELDS, 1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        problem = f"unknown field {unknown[0]!r}{hint}"
        raise LineRefused("json_line_not_object", line.number, problem, ", ".join(FIELDS))
    for name, (is_allowed, allowed) in FIELDS.items():
        if stated.get(name) is not None and not is_allowed(stated[name]):
            problem = f'"{name}" is no {_NOUNS[name]}: {printable_json(stated[name])}'
            raise LineRefused("json_line_not_object", line.number, problem, allowed, field=name)


def _request(stated: dict[str, Any], queue: str, tags: Mapping[str, str]) -> NewRequest:
    run_at = stated.get("run_at")
    return NewRequest(
        stated["content"],
        queue=queue,
        key=stated.get("request_key"),
        priority=stated.get("priority"),
        delay_s=stated.get("delay_s") or 0,
        run_at=None if run_at is None else datetime.fromisoformat(run_at),
        tags={**tags, **(stated.get("tags") or {})},
    )


def _refusal_text(error: GatewayError, file: IO[bytes], numbers: Sequence[int]) -> str:
    """Return what was refused and why, and the part of the file that is on the record."""
    place = ""
    if error.index is not None:
        place = f"request {error.index + 1}: {place_in(file, numbers[error.index])}: "
    recorded = f" ({len(error.jobs)} before it are on the record)" if error.jobs else ""
    return f"{place}{error.message}{recorded}"


def _document(
    jobs: Sequence[Job[Any]], outcomes: Sequence[JobOutcome[Any]], *, whole: bool
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
