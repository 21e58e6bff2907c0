"""Runs `rotulus review`: what a person decides about what waits (§13.6, §14.4).

A batch ends with 1 unless every item succeeded.
"""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from io import BytesIO
from typing import IO, Any, BinaryIO

import click
import orjson
from pydantic import ValidationError

from kernel.model.problems import first_problem
from kernel.model.stated_receipts import BATCH_ITEMS_MAX
from kernel.records.reviews.batch import BatchReview
from kernel.values.canonical import CanonicalizationError, digest
from kernel.values.json_lines import LineRefused, json_lines, raise_refused
from kernel.values.json_text import RepeatedKey
from workers.cli.common import (
    as_json,
    gateway_url,
    print_document,
    read_settings,
    run,
)
from workers.cli.gateway_call import patient_client
from workers.cli.input_file import (
    InputFile,
    input_invalid,
    line_error,
    parse_json,
    read_whole,
)
from workers.cli.question_commands import Columns, as_document, as_rows, question_command
from workers.client.typed.reviews import ReviewClient, batch_of
from workers.environment.output import echo
from workers.questions.reviews import (
    CountReviews,
    GetReviewedBatch,
    ListReviewDecisions,
    ListReviews,
)
from workers.views.reviews import caption_of, facts_of, pieces_of, reader_text, reason_of

FILE_BYTES_MAX = 2 << 20


@click.group()
def review() -> None:
    """Review batches of memberships, look at them, and retry what failed."""


@review.command("batch")
@click.argument("file", type=InputFile(), default="-")
@click.option("--source", "source_batch_id", help="The batch that was ingested, for lines.")
@click.option("--id", "batch_review_id", help="The batch's own id.  [from its items]")
@click.option("--prior", "prior_batch_review_ref", help="The batch of which this is a retry.")
@as_json
def review_batch(
    file: BinaryIO,
    source_batch_id: str | None,
    batch_review_id: str | None,
    prior_batch_review_ref: str | None,
    *,
    as_json: bool,
) -> None:
    """Dispose of the memberships in FILE (- for standard input).

    FILE holds a whole batch as JSON, or an item in each line: {"item_membership_id":
    "corpus|node", "disposition": "confirm"}, and for split and merge_with a
    "target_disposition_ref". The same file sent again is the same batch.
    """
    stated = _read(file)
    options = {
        "source_batch_id": source_batch_id,
        "batch_review_id": batch_review_id,
        "prior_batch_review_ref": prior_batch_review_ref,
    }
    batch = _batch(
        file, stated, {name: value for name, value in options.items() if value is not None}
    )
    answer = _ask(lambda client: client.review_batch(batch))
    _finish(answer, as_json=as_json)


@review.command("retry")
@click.argument("batch_review_id")
@click.option(
    "--remediated",
    is_flag=True,
    help="What kept items from succeeding is put right: retry them too.",
)
@as_json
def retry_batch(batch_review_id: str, *, remediated: bool, as_json: bool) -> None:
    """Review again the items of a batch that failed and may succeed now."""
    answer = _ask(lambda client: client.retry(batch_review_id, remediated=remediated))
    if answer is None:
        echo("nothing to retry")
        return
    _finish(answer, as_json=as_json)


def _print_queue(document: Any) -> None:
    """Print each item with what was read, and the words that it was read from, marked."""
    for item in document["items"]:
        echo(f"{item['kind']}  {item['record_id']}")
        echo(f"  waits since {item['waits_since']}, because {reason_of(item)}")
        echo(f"  read by {reader_text(item['read_by'])}")
        for name, value in facts_of(item):
            echo(f"  {name}: {value}")
        for passage in item["passages"]:
            echo(f"  {caption_of(passage)}")
            words = "".join(
                f"[[{piece.text}]]" if piece.is_marked else piece.text
                for piece in pieces_of(passage)
            )
            withheld = f"the words are withheld: {passage['withheld']}"
            for line in (words if passage["withheld"] is None else withheld).splitlines():
                echo(f"    | {line}")
        echo("")
    next_after = document["next_after"]
    if not document["items"] and next_after is None:
        echo("nothing waits")
    if next_after is not None:
        echo(f"more: --after {next_after}")


_DECIDED: Columns = {
    "decided at": "decided_at",
    "by": "decided_by",
    "decision": "decision",
    "kind": "kind",
    "record": "record_id",
    "grounds": "grounds",
}

review.add_command(question_command(GetReviewedBatch, "show", as_document))
review.add_command(question_command(ListReviews, "queue", _print_queue))
review.add_command(question_command(CountReviews, "counts", as_document))
review.add_command(question_command(ListReviewDecisions, "decided", as_rows("decisions", _DECIDED)))


@review.command("decide")
@click.argument("kind", type=click.Choice(["relationship", "observation"]))
@click.argument("record_id")
@click.argument("decision", type=click.Choice(["confirm", "reject"]))
@click.option("--by", "adjudicated_by", required=True, help="Who decides.")
@click.option("--grounds", required=True, help="On what grounds.")
@click.option("--label", "normalized_label", help="What is decided; a confirmation has one.")
@click.option("--scope", "scope_targets", multiple=True, help="What a ruling is about.")
@as_json
def decide(*, as_json: bool, **stated: Any) -> None:
    """Confirm or reject evidence that waits; with --scope an observation becomes a ruling."""
    body = {name: value for name, value in stated.items() if value is not None}
    body["scope_targets"] = list(body["scope_targets"])
    key = digest(body)
    answer = _ask(lambda client: client.decide(key, **body))
    print_document(answer, as_json=as_json)


@review.command("dismiss")
@click.argument("receipt_id")
@click.option("--reason", required=True, help="Why nothing is done about it.")
@as_json
def dismiss(receipt_id: str, reason: str, *, as_json: bool) -> None:
    """Settle an outcome that a person has looked at."""
    answer = _ask(lambda client: client.dismiss(receipt_id, reason))
    print_document(answer, as_json=as_json)


@review.command("take")
@click.argument("receipt_ids", metavar="RECEIPT...", nargs=-1, required=True)
@click.option("--by", "decided_by", required=True, help="Who takes it.")
@click.option("--grounds", required=True, help="Why.")
@click.option(
    "--supplied", type=InputFile(), help="What an operation that migration holds lacks, as JSON."
)
@as_json
def take(
    receipt_ids: tuple[str, ...],
    decided_by: str,
    grounds: str,
    supplied: BinaryIO | None,
    *,
    as_json: bool,
) -> None:
    """Submit anew what conflicts or migration hold back: each an operation that settles its item.

    RECEIPT is the item, from `review queue conflict` or `review queue migration`.
    """
    stated = {} if supplied is None else _read_supplied(supplied, receipt_ids)
    for receipt_id in receipt_ids:
        item = (receipt_id, decided_by, grounds, stated)
        print_document(_ask(partial(_take_item, item)), as_json=as_json)


async def _take_item(item: tuple[str, str, str, dict[str, Any]], client: ReviewClient) -> Any:
    return await client.take(*item)


def _read_supplied(file: BinaryIO, receipt_ids: tuple[str, ...]) -> dict[str, Any]:
    if len(receipt_ids) > 1:
        raise click.UsageError("--supplied is of one operation: name one receipt")
    try:
        stated = parse_json(read_whole(file, FILE_BYTES_MAX))
    except ValueError as error:
        raise input_invalid(file, str(error)) from None
    if not isinstance(stated, dict):
        raise input_invalid(file, "it is no object")
    return stated


def _ask(question: Callable[[ReviewClient], Awaitable[Any]]) -> Any:
    url = gateway_url(read_settings())

    async def ask() -> Any:
        async with patient_client(url) as gateway:
            return await question(ReviewClient(gateway))

    return run(ask)


def _finish(answer: dict[str, Any], *, as_json: bool) -> None:
    shown = dict(answer)
    if not as_json:
        del shown["item_operations"]
    print_document(shown, as_json=as_json)
    sys.exit(1 if answer["failure_count"] else 0)


def _batch(file: IO[bytes], stated: Any, options: dict[str, str]) -> BatchReview:
    try:
        if isinstance(stated, dict):
            return BatchReview.model_validate(stated | options)
        if "source_batch_id" not in options:
            raise click.UsageError("--source names the batch that the lines are of")
        return batch_of(stated, **options)
    except ValidationError as error:
        field, message = first_problem(error)
        raise input_invalid(file, f"{field}: {message}") from None
    except CanonicalizationError as error:
        raise input_invalid(file, str(error)) from None


def _read(file: BinaryIO) -> Any:
    """Return a whole batch, or the items of lines; read before anything is sent."""
    content = read_whole(file, FILE_BYTES_MAX)
    try:
        whole = parse_json(content)
    except RepeatedKey as error:
        raise input_invalid(file, str(error), code=error.code) from None
    except orjson.JSONDecodeError:
        whole = None
    if isinstance(whole, dict) and "item_operations" in whole:
        return whole
    items: list[Any] = []
    try:
        for line in raise_refused(json_lines(BytesIO(content), FILE_BYTES_MAX, are_objects=False)):
            if len(items) == BATCH_ITEMS_MAX:
                problem = f"a batch has at most {BATCH_ITEMS_MAX} items"
                raise input_invalid(file, problem, line.number)
            items.append(line.value)
    except LineRefused as refused:
        raise line_error(file, refused) from None
    return items
