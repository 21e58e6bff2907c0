"""Checks the rules that a run's records keep together, where `record_rules` has those of each one.

Lineage: a token and its parents are of one row, but for the token that a batch became; a fork goes
into each branch once; what has a group has parents, and each child that a parent's outcome expects
is there. Completeness: of a run that is completed every row has a token, every token an end, and no
state, operation or batch is unfinished.

Two of them read otherwise in the runtime's own runs (decision kernel/0620): a recompute answers
requests of several rows, so its join crosses rows, and a fork goes to a stage as often as there are
children at it.

The writer holds what it writes against the first rules, the end of a run is held against the last,
and an import, `resume` and verification hold a whole run against all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import orjson

from kernel.landscape.digest import records_of
from kernel.landscape.errors import RecordDamaged
from kernel.landscape.record_rules import TABLES, check_stored, key_text
from kernel.landscape.runtime.stretches import is_runtime
from kernel.ledger.store.tables import Row, TableQuery, TablesView

ROWS_NAMED_MAX = 5
_IDS_AT_ONCE = 500

_TOKENS = TABLES["tokens"]
_ENDS = ("token_id", "parent_token_id")
_GROUPS = ("fork_group_id", "join_group_id", "expand_group_id")
_UNFINISHED: Sequence[tuple[str, tuple[str, ...]]] = (
    ("node_states", ("open", "pending")),
    ("operations", ("open", "pending")),
    ("batches", ("draft", "executing")),
)
"""What may be unfinished, and its statuses then."""


@dataclass(frozen=True, slots=True)
class RunProblem:
    """A rule that records of a run break together."""

    table: str
    key: str
    rule: str

    def __str__(self) -> str:
        return f"{self.table} {self.key}: {self.rule}"


def lineage_problems(
    tables: TablesView, tokens: Sequence[Row], links: Sequence[Row], outputs: Sequence[Row]
) -> Iterator[RunProblem]:
    """Yield the rules of lineage that tokens break, with all their links.

    Of batches' outputs those are stated that are not stored yet.
    """
    linked = {_place(link) for link in links}
    branches: set[tuple[str, str, str]] = set()
    for token in tokens:
        if any(token[name] is not None for name in _GROUPS) and _place(token) not in linked:
            yield _of_token(token, "it is of a group, and no parent is recorded with it")
        if token["fork_group_id"] is not None:
            branch = (token["run_id"], token["fork_group_id"], str(token["branch_name"]))
            if branch in branches and not is_runtime(token["run_id"]):
                yield _of_token(token, f"its fork goes into {token['branch_name']} twice")
            branches.add(branch)
    if not links:
        return
    by_place = {_place(token): token for token in tokens}
    ends = {_place(link, name) for link in links for name in _ENDS}
    by_place |= _stored_tokens(tables, ends - by_place.keys())
    crossing: dict[tuple[str, str], tuple[Row, Row]] = {}
    for link in links:
        child, parent = (by_place.get(_place(link, name)) for name in _ENDS)
        if child is not None and parent is not None and _crosses_rows(child, parent):
            crossing.setdefault(_place(child), (child, parent))
    made = {_place(output, "output_id") for output in outputs}
    made |= _stored_outputs(tables, crossing.keys() - made)
    for place, (child, parent) in crossing.items():
        if place not in made:
            other = f"its parent {parent['token_id']} of {parent['row_id']}"
            yield _of_token(child, f"it is of the row {child['row_id']}, and {other}")


def _crosses_rows(child: Row, parent: Row) -> bool:
    """Tell whether a parent is of another row, and the child no recompute of the runtime.

    Nothing else joins in a run of the runtime.
    """
    is_recompute = child["join_group_id"] is not None and is_runtime(child["run_id"])
    return child["row_id"] != parent["row_id"] and not is_recompute


def _any(tables: TablesView, name: str, column: str, ids: Sequence[str], run_id: str) -> list[Row]:
    rows = (
        tables.scan(TableQuery(TABLES[name], {"run_id": run_id}, any_of=(column, ids)))
        if ids
        else []
    )
    return [check_stored(TABLES[name], row) for row in rows]


def _place(record: Row, column: str = "token_id") -> tuple[str, str]:
    return record["run_id"], record[column]


def _of_token(token: Row, rule: str) -> RunProblem:
    return RunProblem("landscape_tokens", key_text(_TOKENS, token), rule)


def ids_by_run(places: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the ids of records by their runs, of which each place names both."""
    ids: dict[str, list[str]] = {}
    for run_id, record_id in places:
        ids.setdefault(run_id, []).append(record_id)
    return ids


def _stored_tokens(
    tables: TablesView, places: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Row]:
    return {
        _place(row): row
        for run_id, ids in ids_by_run(places).items()
        for row in _any(tables, "tokens", "token_id", ids, run_id)
    }


def _stored_outputs(tables: TablesView, places: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return which of the tokens are what a batch became."""
    return {
        _place(row, "output_id")
        for run_id, ids in ids_by_run(places).items()
        for row in _any(tables, "batch_outputs", "output_id", ids, run_id)
        if row["output_type"] == "token"
    }


def stored_lineage_problems(tables: TablesView, run_id: str) -> Iterator[RunProblem]:
    """Yield the rules of lineage that the stored records of a run break; linear in them."""
    tokens = (check_stored(_TOKENS, row) for row in records_of(tables, run_id, "tokens"))
    while page := [*islice(tokens, _IDS_AT_ONCE)]:
        ids = [token["token_id"] for token in page]
        links = _any(tables, "token_parents", "token_id", ids, run_id)
        yield from lineage_problems(tables, page, links, ())
        yield from _missing_children(tables, run_id, ids)


def token_problems(tables: TablesView, token: Row) -> Iterator[RunProblem]:
    """Yield the rules of lineage that a stored token breaks."""
    run_id, ids = token["run_id"], [token["token_id"]]
    links = _any(tables, "token_parents", "token_id", ids, run_id)
    yield from lineage_problems(tables, [token], links, ())
    yield from _missing_children(tables, run_id, ids)


def _missing_children(tables: TablesView, run_id: str, ids: list[str]) -> Iterator[RunProblem]:
    """Yield the outcomes of tokens whose children are not those that they expect."""
    outcomes = _any(tables, "token_outcomes", "token_id", ids, run_id)
    delegating = [row for row in outcomes if row["expected_branches_json"] is not None]
    parents = [row["token_id"] for row in delegating]
    links = _any(tables, "token_parents", "parent_token_id", parents, run_id)
    tokens = _stored_tokens(tables, {_place(link) for link in links})
    children: dict[str, list[Row]] = {}
    for link in links:
        child = tokens.get(_place(link))
        if child is not None:
            children.setdefault(link["parent_token_id"], []).append(child)
    for outcome in delegating:
        problem = _count_problem(outcome, children.get(outcome["token_id"], []))
        if problem is not None:
            key = key_text(TABLES["token_outcomes"], outcome)
            yield RunProblem("landscape_token_outcomes", key, problem)


def _count_problem(outcome: Row, children: Sequence[Row]) -> str | None:
    group = next((name for name in _GROUPS if outcome[name] is not None), None)
    if group is not None:
        children = [child for child in children if child[group] == outcome[group]]
    expected = orjson.loads(outcome["expected_branches_json"])
    if isinstance(expected, list):
        there = {str(child["branch_name"]) for child in children}
        missing = {str(each) for each in expected} - there
        if missing:
            return f"its child on the branch {min(missing)} is not there"
    count = len(expected) if isinstance(expected, list) else expected["count"]
    return None if count == len(children) else f"{count} children are expected of {len(children)}"


def hold_together(problems: Iterator[RunProblem]) -> None:
    """Refuse records that were read and break a rule together.

    Raises:
        RecordDamaged: the first of the problems.
    """
    problem = next(problems, None)
    if problem is not None:
        raise RecordDamaged(problem.table, problem.key, problem.rule)


def incompleteness(tables: TablesView, run_id: str) -> str | None:
    """Return what hinders a run from being completed, if anything does; counted by the database."""
    of_run = {"run_id": run_id}
    rows = tables.count(TableQuery(TABLES["rows"], of_run))
    begun = tables.count(TableQuery(TABLES["tokens"], of_run, columns=("row_id",), grouped=True))
    if rows != begun:
        names = ", ".join(islice(_rows_without_token(tables, run_id), ROWS_NAMED_MAX))
        return f"{rows - begun} of {rows} rows have no token: {names}"
    tokens = tables.count(TableQuery(TABLES["tokens"], of_run))
    ended = tables.count(TableQuery(TABLES["token_outcomes"], of_run | {"is_terminal": 1}))
    if tokens != ended:
        return f"{tokens} tokens and {ended} terminal outcomes: {tokens - ended} are on their way"
    for name, statuses in _UNFINISHED:
        for status in statuses:
            count = tables.count(TableQuery(TABLES[name], of_run | {"status": status}))
            if count:
                return f"{count} of its {name} {'is' if count == 1 else 'are'} {status}"
    return None


def _rows_without_token(tables: TablesView, run_id: str) -> Iterator[str]:
    rows = records_of(tables, run_id, "rows")
    while page := [*islice(rows, _IDS_AT_ONCE)]:
        ids = [row["row_id"] for row in page]
        tokens = tables.scan(
            TableQuery(TABLES["tokens"], {"run_id": run_id}, any_of=("row_id", ids))
        )
        begun = {token["row_id"] for token in tokens}
        yield from (each for each in ids if each not in begun)


def run_problems(tables: TablesView, run: Row) -> Iterator[RunProblem]:
    """Yield the rules that the stored records of a run break together; linear in them."""
    yield from stored_lineage_problems(tables, run["run_id"])
    if run["status"] == "completed":
        rule = incompleteness(tables, run["run_id"])
        if rule is not None:
            yield RunProblem("landscape_runs", run["run_id"], f"it is completed, and {rule}")
