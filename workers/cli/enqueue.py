"""`rotulus enqueue`: ask a queue for work, and wait for it if wanted.

It reads everything before it sends anything, so a line that is no request leaves nothing behind.
When the gateway refuses a later request, the error says how many are on the record. With `--wait`
it ends with 1 unless everything was completed.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import click
import orjson

from kernel.json_text import RepeatedKey, check_unique_keys
from kernel.work.requests import OPEN_MAX, RequestOutcome, WorkReceipt
from queues import NewRequest, Producer, ProducerError
from workers.cli.common import (
    as_json,
    data_dir,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.environment.terminal_progress import Progress, bar

LINE_BYTES_MAX = 64 * 1024
LINES_MAX = OPEN_MAX
"""More could not be open at once."""

FIELDS = frozenset({"content", "request_key", "priority", "delay_s"})


@click.command()
@click.argument("queue")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--wait", is_flag=True, help="Wait for the outcomes; 1 unless all are completed.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, 86_400),
    default=300.0,
    show_default=True,
    help="Seconds to wait at most.",
)
@as_json
@data_dir
def enqueue(
    queue: str,
    file: IO[bytes],
    timeout_s: float,
    data_dir: Path | None,
    *,
    wait: bool,
    as_json: bool,
) -> None:
    """Ask QUEUE for the work in FILE (JSON Lines, - for standard input).

    A line holds an object with a "content", and if need be a "request_key", a "priority" and a
    "delay_s". A line with a key may be sent again in another run: it is the same request.
    """
    settings = read_settings(data_dir)
    requests = _read(file)

    async def ask() -> tuple[list[WorkReceipt], list[RequestOutcome]]:
        total = len(requests)
        async with Producer(queue, gateway_url(settings)) as producer:
            with Progress("enqueue") as progress:
                try:
                    receipts = await producer.enqueue_many(
                        requests, progress=lambda done: progress.show(bar(done, total))
                    )
                except ProducerError as error:
                    raise click.ClickException(_refusal_text(error)) from None
            if not wait:
                return receipts, []
            with Progress("wait") as progress:
                outcomes = await producer.wait_many(
                    [receipt.request_id for receipt in receipts],
                    timeout_s,
                    progress=lambda done: progress.show(bar(done, total)),
                )
        return receipts, outcomes

    receipts, outcomes = run(ask)
    print_document(_document(receipts, outcomes, whole=as_json), as_json=as_json)
    sys.exit(1 if any(outcome.state != "completed" for outcome in outcomes) else 0)


def _read(file: IO[bytes]) -> list[NewRequest]:
    """Read everything before anything is sent, so that a bad line changes nothing."""
    requests: list[NewRequest] = []
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise _invalid(number, f"longer than {LINE_BYTES_MAX} bytes")
        if len(requests) == LINES_MAX:
            raise _invalid(number, f"more than {LINES_MAX} requests")
        if line.strip():
            requests.append(_read_line(number, line))
    return requests


def _read_line(number: int, line: bytes) -> NewRequest:
    try:
        stated = orjson.loads(line)
        check_unique_keys(line)
    except RepeatedKey as error:
        raise _invalid(number, str(error), error.code) from None
    except orjson.JSONDecodeError as error:
        raise _invalid(number, f"not JSON: {error}") from None
    if not isinstance(stated, dict) or not isinstance(stated.get("content"), dict):
        raise _invalid(number, 'not an object with a "content" that is an object')
    if unknown := sorted(set(stated) - FIELDS):
        raise _invalid(number, f"unknown field {unknown[0]!r}")
    return NewRequest(**stated)


def _invalid(number: int, problem: str, code: str = "INVALID_REQUEST") -> click.ClickException:
    return click.ClickException(f"{code}: line {number}: {problem}")


def _refusal_text(error: ProducerError) -> str:
    """Return what was refused and why, and the part of the file that is on the record."""
    place = "" if error.index is None else f"request {error.index + 1}: "
    recorded = f" ({len(error.receipts)} before it are on the record)" if error.receipts else ""
    return f"{error.code}: {place}{error}{recorded}"


def _document(
    receipts: Sequence[WorkReceipt], outcomes: Sequence[RequestOutcome], *, whole: bool
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "requests": len(receipts),
        "duplicates": sum(receipt.duplicate for receipt in receipts),
    }
    if outcomes:
        document["outcomes"] = dict(Counter(outcome.state for outcome in outcomes))
    if whole:
        document["asked"] = [asdict(receipt) for receipt in receipts]
        document["ended"] = [asdict(outcome) for outcome in outcomes]
    return document
