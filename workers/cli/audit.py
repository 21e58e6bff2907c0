"""`rotulus audit`: what happened and why; reads the ledger, so nothing else needs to run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, get_args

import click

from kernel.audit.adjudications import AdjudicationState, adjudications
from kernel.audit.costs import CostTotal, CostTotals, cost_entries, cost_totals, joined_totals
from kernel.audit.lineage import authority_grounds, causal_ancestors
from kernel.audit.manifests import (
    ManifestPage,
    manifest_of_cycle,
    manifests_of,
    replay_differences,
)
from kernel.audit.newest_operations import newest_operations
from kernel.audit.operations import AuditFilter, OperationEntry, Page, find_operations
from kernel.audit.preview import preview_rollback
from kernel.ledger.ledger import LedgerView
from kernel.model.numbers import SEQUENCE_MAX
from kernel.model.receipt import MIGRATION_KIND
from kernel.model.replay import AuditReplayStrategy
from kernel.replay.judgement import replay_all, replay_one
from kernel.values.host import parse_time_us
from kernel.values.model_registry import ActiveModels
from kernel.verify.undoings import undoings_that_differ
from workers.cli.common import (
    ROW,
    SEQUENCE,
    as_json,
    clean_errors,
    coded,
    limit,
    print_document,
    print_table,
    read_settings,
    say_quarantined,
)
from workers.cli.reading import read_record
from workers.environment.output import echo
from workers.environment.system_host import system_host
from workers.views.audit import (
    adjudications_document,
    ancestry_document,
    costs_document,
    grounds_document,
    inverse_refused_by,
    manifests_document,
    page_document,
    preview_document,
    totals_document,
    undoing_document,
)
from workers.views.replays import reason_of, tally_document, tally_of

T = TypeVar("T")

NAMES_SHOWN_MAX = 5

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400}

_OPERATION_COLUMNS = ("sequence", "committed", "intent", "actor", "effects", "operation")


class Moment(click.ParamType[int]):
    """A time with its offset, or how long ago it was."""

    name = "time"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return microseconds since 1970."""
        if isinstance(value, int):
            return value
        ago = re.fullmatch(r"(\d{1,5})([mhd])", value)
        if ago:
            return system_host().now_us() - int(ago[1]) * _UNITS_S[ago[2]] * 1_000_000
        try:
            return parse_time_us(value)
        except ValueError:
            message = f"{value} is neither like 90m, 24h, 7d nor like 2026-02-09T10:00:00Z"
            self.fail(message, param, ctx)


after = click.option(
    "--after",
    type=SEQUENCE,
    default=0,
    help="Go on after this sequence.",
)


review_state = click.option(
    "--state",
    type=click.Choice(["open", "resolved"]),
    default="open",
    show_default=True,
    help="What waits for a person, or what was settled.",
)


@click.group()
def audit() -> None:
    """Ask which operations did what, what caused them, what undoing would take."""


@audit.command()
@click.option("--entity", help="Operations that wrote this record: a node, an edge, any key.")
@click.option("--declared", is_flag=True, help="Also those whose scope names it; reads envelopes.")
@click.option("--intent", "semantic_intent", help="Semantic verb, such as create.")
@click.option("--effect", "effect_kind", help="Effect kind, as given or canonical.")
@click.option("--reversibility", help="Of one effect, such as irreversible_external_effect.")
@click.option("--actor", help="One of user, system, agent, migration.")
@click.option("--session", "session_id", help="Operations of this session.")
@click.option("--since", "from_us", type=Moment(), help="From this time on: 24h, 7d or ISO 8601.")
@click.option("--until", "before_us", type=Moment(), help="Before this time.")
@click.option("--from", "from_sequence", type=ROW, help="First sequence.")
@click.option("--to", "to_sequence", type=ROW, help="Last sequence.")
@click.option("--newest", is_flag=True, help="The newest first; --after then goes on before it.")
@after
@limit
@as_json
def operations(after: int, limit: int, *, newest: bool, as_json: bool, **conditions: Any) -> None:
    """Operations by either layer, in sequence or the newest first; conditions add up."""
    chosen = AuditFilter(**conditions)
    page = read_record(lambda view: _filled(view, chosen, after, limit, is_newest=newest))
    if as_json:
        print_document(page_document(page), as_json=True)
        return
    _print_page(page)


@audit.command()
@click.argument("operation_id")
@after
@limit
@as_json
def ancestors(operation_id: str, after: int, limit: int, *, as_json: bool) -> None:
    """Show what caused an operation, back to the beginning of the chain, in sequence."""
    ancestry = read_record(
        lambda view: causal_ancestors(view, operation_id, after=after, limit=limit)
    )
    known = _known(ancestry, "operation", operation_id)
    if as_json:
        print_document(ancestry_document(known), as_json=True)
        return
    _print_page(known.page)
    _print_some("roots", known.roots)
    _print_some("not on the log", known.missing)
    if not known.complete:
        echo("there are more ancestors than one walk visits")


@audit.command()
@click.argument("operation_id")
@as_json
def preview(operation_id: str, *, as_json: bool) -> None:
    """Show what undoing an operation would take; `rotulus rollback` does it."""
    previewed, refused_by = read_record(
        lambda view: (
            preview_rollback(view, operation_id),
            inverse_refused_by(view, operation_id),
        ),
    )
    known = _known(previewed, "operation", operation_id)
    if as_json:
        print_document(preview_document(known, refused_by), as_json=True)
        return
    print_table(
        ("effect", "store", "record", "reversibility", "undone by", "superseded by"),
        [
            (
                effect.effect_kind,
                effect.store,
                effect.record_key,
                effect.reversibility,
                effect.undone_by or "-",
                " ".join(effect.superseded_by) or "-",
            )
            for effect in known.effects
        ],
    )
    echo(f"lowest tier: {known.lowest_tier}")
    for lasting in known.not_automatic:
        what = f"{lasting.effect_kind} {lasting.record_key} {lasting.persists or ''}"
        echo(f"not undone by itself: {what}".rstrip())
    if known.superseded:
        echo("later operations wrote the same records")
    echo(f"its inverse: {f'refused, {refused_by}' if refused_by else 'admitted'}")


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
@click.argument("node_id")
@as_json
def authority(node_id: str, *, as_json: bool) -> None:
    """Show what informed an understanding's authority, the core inputs first."""
    known = _known(read_record(lambda view: authority_grounds(view, node_id)), "node", node_id)
    document = grounds_document(known)
    if as_json:
        print_document(document, as_json=True)
        return
    echo(f"authority: {known.cu_authority}  computed: {known.computed_at or '-'}")
    if known.stale_since is not None:
        echo(f"stale since: {known.stale_since}")
    columns = ("edge_essentiality", "captured_at_authority", "parent_version", "parent_node_id")
    print_table(
        ("essentiality", "authority", "version", "parent"),
        [tuple(str(row[name]) for name in columns) for row in known.inputs],
    )
    if known.operation is not None:
        echo(f"recorded by: {known.operation.operation_id}")
    for request_id in known.request_ids:
        echo(f"answers: {request_id}")


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

    def read(view: LedgerView) -> tuple[ManifestPage, dict[int, list[str]]]:
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


@audit.command("adjudications")
@review_state
@after
@limit
@as_json
def review_queue(state: AdjudicationState, after: int, limit: int, *, as_json: bool) -> None:
    """Conflicts that wait for a person to settle them, and who settled which."""
    page = read_record(lambda view: adjudications(view, state, after=after, limit=limit))
    if as_json:
        print_document(adjudications_document(page), as_json=True)
        return
    print_table(
        ("queued", "class", "operation", "conflicts with", "resolved by", "item"),
        [
            (
                str(item.receipt["emitted_at"]),
                str(item.receipt["conflict_class"]),
                str(item.receipt["operation_id"]),
                " ".join(item.receipt["existing_operation_ids"][:NAMES_SHOWN_MAX]),
                item.resolved_by_operation_id or "-",
                str(item.receipt["receipt_id"]),
            )
            for item in page.items
        ],
        page.next_after,
    )


@audit.command("migration-reviews")
@review_state
@after
@limit
@as_json
def migration_reviews(state: AdjudicationState, after: int, limit: int, *, as_json: bool) -> None:
    """Lite operations that could not be migrated, why, and who settled which."""
    page = read_record(
        lambda view: adjudications(view, state, kind=MIGRATION_KIND, after=after, limit=limit),
    )
    if as_json:
        print_document(adjudications_document(page), as_json=True)
        return
    print_table(
        ("sequence", "reason", "field", "operation", "resolved by", "item"),
        [
            (
                *(str(item.receipt[name]) for name in ("ec_sequence_number", "reason_code")),
                *(str(item.receipt[name]) or "-" for name in ("field", "operation_id")),
                item.resolved_by_operation_id or "-",
                str(item.receipt["receipt_id"]),
            )
            for item in page.items
        ],
        page.next_after,
    )


@audit.command()
@click.option("--totals", is_flag=True, help="Sums by intent and actor, over the whole time.")
@click.option("--since", "from_us", type=Moment(), help="From this time on: 24h, 7d or ISO 8601.")
@click.option("--until", "before_us", type=Moment(), help="Before this time.")
@after
@limit
@as_json
def costs(
    after: int,
    limit: int,
    from_us: int | None,
    before_us: int | None,
    *,
    totals: bool,
    as_json: bool,
) -> None:
    """Show the estimated and the measured cost of operations, and to whom it is attributed."""
    if totals:
        pages = read_record(lambda view: [*_all_totals(view, after, from_us, before_us)])
        summed, left_out = joined_totals(pages), sum(page.left_out for page in pages)
        if as_json:
            print_document(totals_document(summed, None, left_out), as_json=True)
            return
        rows = [
            (
                total.semantic_intent,
                total.actor,
                str(total.operations),
                _estimate(total),
                _amount(total.actual_cost),
            )
            for total in summed
        ]
        print_table(("intent", "actor", "operations", "estimated", "actual"), rows)
        if left_out:
            echo(f"{left_out} operations of quarantined rows are in no sum")
        return
    page = read_record(
        lambda view: cost_entries(
            view, after=after, limit=limit, from_us=from_us, before_us=before_us
        ),
    )
    if as_json:
        print_document(costs_document(page), as_json=True)
        return
    print_table(
        ("recorded", "intent", "actor", "estimated", "actual", "lease", "operation"),
        [
            (
                entry.recorded_at,
                entry.semantic_intent,
                entry.actor,
                _amount(entry.estimated_cost),
                _amount(entry.actual_cost),
                entry.ec_capacity_lease_id or "-",
                entry.operation_id,
            )
            for entry in page.entries
        ],
        page.next_after,
    )


def _all_totals(
    view: LedgerView, after: int, from_us: int | None, before_us: int | None
) -> Iterator[CostTotals]:
    following: int | None = after
    while following is not None:
        page = cost_totals(view, after=following, from_us=from_us, before_us=before_us)
        yield page
        following = page.next_after


def _estimate(total: CostTotal) -> str:
    over = total.operations_over_limit
    return _amount(total.estimated_cost) + ("" if over is None else f" ({over} over the limit)")


def _amount(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:g}"


def _filled(
    view: LedgerView, criteria: AuditFilter, after: int, limit: int, *, is_newest: bool
) -> Page:
    """Join pages until there are enough entries: at a terminal, an empty page says nothing."""
    entries: tuple[OperationEntry, ...] = ()
    while True:
        left = limit - len(entries)
        if is_newest:
            page = newest_operations(view, criteria, before=after or None, limit=left)
        else:
            page = find_operations(view, criteria, after=after, limit=left)
        entries += page.entries
        if page.next_after is None or len(entries) >= limit:
            return Page(entries, page.next_after)
        after = page.next_after


def _known(record: T | None, kind: str, name: str) -> T:
    if record is None:
        raise coded("not_found", f"no {kind} {name}")
    return record


def _print_page(page: Page) -> None:
    rows = [
        (
            str(entry.ec_sequence_number),
            entry.committed_at,
            entry.semantic_intent,
            entry.actor,
            ",".join(entry.effect_kinds),
            entry.operation_id,
        )
        for entry in page.entries
    ]
    print_table(_OPERATION_COLUMNS, rows, page.next_after)
    say_quarantined(entry.ec_sequence_number for entry in page.entries if entry.quarantined)


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


def _print_some(title: str, names: Sequence[str]) -> None:
    if not names:
        return
    beyond = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    echo(f"{title}: {' '.join(names[:NAMES_SHOWN_MAX])}{beyond}")
