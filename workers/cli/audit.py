"""Runs `rotulus audit`: what happened and why; reads the ledger, so nothing else needs to run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, get_args

import click

from kernel.audit.costs import CostTotals, join_totals
from kernel.audit.manifests import (
    ManifestPage,
    manifest_of_cycle,
    manifests_of,
    replay_differences,
)
from kernel.model.numbers import SEQUENCE_MAX
from kernel.model.replay import AuditReplayStrategy
from kernel.records.access.readable_view import ReadableView
from kernel.replay.judgement import replay_all, replay_one
from kernel.values.model_registry import ActiveModels
from kernel.verify.undoings import undoings_that_differ
from workers.cli.common import (
    ROW,
    SEQUENCE,
    as_json,
    clean_errors,
    limit,
    print_document,
    print_table,
    read_settings,
    say_quarantined,
)
from workers.cli.question_commands import Ask, Columns, as_rows, plain, question_command
from workers.cli.reading import read_record, read_view
from workers.environment.output import echo
from workers.questions.costs import ListCosts, SumCosts
from workers.questions.nodes import ExplainAuthority
from workers.questions.operations import FindOperations, GetAncestors, PreviewRollback
from workers.questions.operators import ListOperatorDecisions
from workers.questions.reviews import ListAdjudications, ListMigrationReviews
from workers.views.audit import manifests_document, totals_document, undoing_document
from workers.views.replays import reason_of, tally_document, tally_of

after = click.option("--after", type=SEQUENCE, default=0, help="Go on after this sequence.")

NAMES_SHOWN_MAX = 5


@click.group()
def audit() -> None:
    """Ask which operations did what, what caused them, what undoing would take."""


def _say_quarantined(document: Any) -> None:
    rows = document["operations"]
    say_quarantined(row["ec_sequence_number"] for row in rows if row.get("quarantined"))


def _print_grounds(document: Any) -> None:
    echo(f"authority: {document['cu_authority']}  computed: {document['computed_at'] or '-'}")
    if document["stale_since"] is not None:
        echo(f"stale since: {document['stale_since']}")
    _print_inputs(document)
    if document["operation"] is not None:
        echo(f"recorded by: {document['operation']['operation_id']}")
    for request_id in document["request_ids"]:
        echo(f"answers: {request_id}")


def _print_roots(document: Any) -> None:
    _say_quarantined(document)
    for title, names in (("roots", document["roots"]), ("not on the log", document["missing"])):
        beyond = len(names) - NAMES_SHOWN_MAX
        rest = f" and {beyond} more" if beyond > 0 else ""
        if names:
            echo(f"{title}: {' '.join(names[:NAMES_SHOWN_MAX])}{rest}")
    if not document["complete"]:
        echo("there are more ancestors than one walk visits")


def _print_inverse(document: Any) -> None:
    echo(f"lowest tier: {document['lowest_tier']}")
    effects = {effect["effect_id"]: effect for effect in document["effects"]}
    for lasting in map(effects.__getitem__, document["not_automatic"]):
        what = f"{lasting['effect_kind']} {lasting['record_key']} {lasting['persists'] or ''}"
        echo(f"not undone by itself: {what}".rstrip())
    if document["superseded"]:
        echo("later operations wrote the same records")
    refused_by = document["refused_by"]
    echo(f"its inverse: {f'refused, {refused_by}' if refused_by else 'admitted'}")


def _print_left_out(document: Any) -> None:
    if document.get("left_out"):
        echo(f"{document['left_out']} operations of quarantined rows are in no sum")


def _estimate(total: Any) -> str:
    over = total.get("operations_over_limit")
    return _amount(total["estimated_cost"]) + ("" if over is None else f" ({over} over the limit)")


def _amount(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:g}"


@contextmanager
def _sum_pages() -> Iterator[Ask]:
    """Answer with the sums of all pages."""

    def pages(view: ReadableView, question: Any) -> Iterator[CostTotals]:
        following: int | None = question.after
        while following is not None:
            page = question.page(view, following)
            yield page
            following = page.next_after

    with read_view() as view:
        yield lambda question: _join_pages([*pages(view, question)])


def _join_pages(pages: Sequence[CostTotals]) -> Any:
    left_out = sum(page.left_out for page in pages)
    return plain(totals_document(join_totals(pages), None, left_out))


_OPERATIONS: Columns = {
    "sequence": "ec_sequence_number",
    "committed": "committed_at",
    "intent": "semantic_intent",
    "actor": "actor",
    "effects": lambda row: ",".join(row["effect_kinds"]),
    "operation": "operation_id",
}
_EFFECTS: Columns = {
    "effect": "effect_kind",
    "store": "store",
    "record": "record_key",
    "reversibility": "reversibility",
    "undone by": "undone_by",
    "superseded by": "superseded_by",
}
_INPUTS: Columns = {
    "essentiality": "edge_essentiality",
    "authority": lambda row: str(row["captured_at_authority"]),
    "version": lambda row: str(row["parent_version"]),
    "parent": "parent_node_id",
}
_CONFLICTS: Columns = {
    "queued": lambda item: item["receipt"]["emitted_at"],
    "class": lambda item: item["receipt"]["conflict_class"],
    "operation": lambda item: item["receipt"]["operation_id"],
    "conflicts with": lambda item: item["receipt"]["existing_operation_ids"][:NAMES_SHOWN_MAX],
    "resolved by": "resolved_by_operation_id",
    "item": lambda item: item["receipt"]["receipt_id"],
}
_MIGRATIONS: Columns = {
    "sequence": lambda item: item["receipt"]["ec_sequence_number"],
    "reason": lambda item: item["receipt"]["reason_code"],
    "field": lambda item: item["receipt"]["field"],
    "operation": lambda item: item["receipt"]["operation_id"],
    "resolved by": "resolved_by_operation_id",
    "item": lambda item: item["receipt"]["receipt_id"],
}
_DECISIONS: Columns = {
    "row": "ec_sequence_number",
    "decided": "committed_at",
    "what": "verb",
    "by": "decided_by",
    "why": "reason",
    "about": lambda row: " ".join(row["targets"]),
}
_COSTS: Columns = {
    "recorded": "recorded_at",
    "intent": "semantic_intent",
    "actor": "actor",
    "estimated": lambda entry: _amount(entry["estimated_cost"]),
    "actual": lambda entry: _amount(entry.get("actual_cost")),
    "lease": "ec_capacity_lease_id",
    "operation": "operation_id",
}
_TOTALS: Columns = {
    "intent": "semantic_intent",
    "actor": "actor",
    "operations": lambda total: str(total["operations"]),
    "estimated": _estimate,
    "actual": lambda total: _amount(total.get("actual_cost")),
}


_print_inputs = as_rows("inputs", _INPUTS)

for _command in (
    question_command(
        FindOperations, "operations", as_rows("operations", _OPERATIONS, _say_quarantined)
    ),
    question_command(GetAncestors, "ancestors", as_rows("operations", _OPERATIONS, _print_roots)),
    question_command(PreviewRollback, "preview", as_rows("effects", _EFFECTS, _print_inverse)),
    question_command(ExplainAuthority, "authority", _print_grounds),
    question_command(ListAdjudications, "adjudications", as_rows("items", _CONFLICTS)),
    question_command(ListMigrationReviews, "migration-reviews", as_rows("items", _MIGRATIONS)),
    question_command(ListOperatorDecisions, "operators", as_rows("entries", _DECISIONS)),
    question_command(ListCosts, "costs", as_rows("entries", _COSTS)),
    question_command(SumCosts, "totals", as_rows("totals", _TOTALS, _print_left_out), _sum_pages),
):
    audit.add_command(_command)


@audit.command()
@after
@limit
@as_json
def undoings(after: int, limit: int, *, as_json: bool) -> None:
    """Show records that an undoing left otherwise than the operations in effect come to.

    Version 1 of the rules could lose a write, or bring one back that is undone, where an undoing
    was undone. Each row names the undoing, the record, and whose writes it lost or brought back:
    write those fields anew. Ends with 1 where there are any.
    """
    different = read_record(
        lambda view: [*islice(undoings_that_differ(view, after=after), limit)],
    )
    if as_json:
        print_document({"undoings": [*map(undoing_document, different)]}, as_json=True)
    else:
        print_table(
            ("sequence", "store", "record", "lost", "brought back", "undoing"),
            [
                (
                    str(undoing.ec_sequence_number),
                    undoing.store,
                    undoing.record_key,
                    " ".join(undoing.lost) or "-",
                    " ".join(undoing.brought_back) or "-",
                    undoing.operation_id,
                )
                for undoing in different
            ],
        )
    if different:
        raise click.exceptions.Exit(1)


@audit.command()
@click.argument("operation_id", required=False)
@click.option("--from", "first", type=ROW, help="First sequence of a range.")
@click.option("--to", "last", type=ROW, help="Last sequence of a range.")
@click.option(
    "--strategy",
    type=click.Choice(get_args(AuditReplayStrategy)),
    default="record_only",
    show_default=True,
    help="Go on where the model is another one, or stop.",
)
@as_json
def replay(
    operation_id: str | None,
    first: int | None,
    last: int | None,
    strategy: AuditReplayStrategy,
    *,
    as_json: bool,
) -> None:
    """Do it again from the record and compare every byte; no model is asked, nothing is written.

    One operation, or those from --from to --to; a bound that is left out is the end of the log.
    Ends with 1 when something was not reproduced.
    """
    if (operation_id is None) == (first is None and last is None):
        raise click.UsageError("name an operation, or a range by --from and --to")
    with clean_errors():
        registry = ActiveModels(read_settings().current_model_versions)
    tally = read_record(
        lambda view: tally_of(
            [replay_one(view, operation_id, strategy, registry)]
            if operation_id is not None
            else replay_all(view, first or 1, last or SEQUENCE_MAX, strategy, registry)
        ),
    )
    if as_json:
        print_document(tally_document(tally), as_json=True)
    else:
        for verdict in tally.not_reproduced:
            echo(
                f"{verdict.ec_sequence_number or '-'}  {verdict.operation_id}  {reason_of(verdict)}"
            )
        hidden = tally.blocked - len(tally.not_reproduced)
        if hidden:
            echo(f"and {hidden} more")
        echo(f"reproduced: {tally.reproduced}  not reproduced: {tally.blocked}")
    if tally.blocked:
        raise click.exceptions.Exit(1)


@audit.command()
@click.argument("source_event_id")
@click.option("--cycle", type=ROW, help="The manifest of one cycle alone.")
@click.option("--replay", is_flag=True, help="Evaluate again and compare every outcome.")
@after
@limit
@as_json
def manifest(
    source_event_id: str,
    after: int,
    limit: int,
    cycle: int | None,
    *,
    replay: bool,
    as_json: bool,
) -> None:
    """Show what bindings made of a source event, one manifest for each evaluation cycle.

    With --replay every outcome is computed again from the manifest and the snapshots that it
    names, and compared byte for byte; ends with 1 where one comes out otherwise.
    """

    def read(view: ReadableView) -> tuple[ManifestPage, dict[int, list[str]]]:
        if cycle is None:
            page = manifests_of(view, source_event_id, after=after, limit=limit)
        else:
            page = ManifestPage([manifest_of_cycle(view, source_event_id, cycle)], None)
        different = {
            shown.cycle: replay_differences(view, shown) for shown in page.manifests if replay
        }
        return page, different

    page, different = read_record(read)
    if as_json:
        document: dict[str, Any] = {**manifests_document(page)}
        if replay:
            document["differences"] = {
                str(number): differences for number, differences in different.items()
            }
        print_document(document, as_json=True)
    else:
        _print_manifests(page, different)
    if any(different.values()):
        raise click.exceptions.Exit(1)


def _print_manifests(page: ManifestPage, different: Mapping[int, Sequence[str]]) -> None:
    for shown in page.manifests:
        body = shown.body
        if body is None:
            echo(f"cycle {shown.cycle}: erased  operation: {shown.operation_id}")
            continue
        echo(f"cycle {shown.cycle}: {body['manifest_id']}  evaluated at: {body['evaluated_at']}")
        names = ("evaluated", "deferred", "suspended")
        counts = "  ".join(f"{name}: {body[f'bindings_{name}_count']}" for name in names)
        echo(f"{counts}  fan-out cap: {body['fan_out_cap']}")
        print_table(
            ("binding", "target kind", "outcome", "reason", "target"),
            [
                (
                    outcome["binding_id"],
                    outcome["target_kind"],
                    outcome["outcome_state"],
                    outcome["outcome_reason_code"],
                    outcome.get("outcome_target_ref", "-"),
                )
                for outcome in body["binding_outcomes"]
            ],
        )
        if shown.cycle in different:
            for difference in different[shown.cycle]:
                echo(f"differs: {difference}")
            reproduced = "no" if different[shown.cycle] else "yes"
            echo(f"every outcome reproduced byte for byte: {reproduced}")
    if page.next_after is not None:
        echo(f"more: --after {page.next_after}")
