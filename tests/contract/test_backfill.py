"""A ledger of an earlier schema has, once migrated, all that its rows say in later columns."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from actors.commit.review_units import AdjudicateUnit, DismissOutcomeUnit
from actors.orchestrator.intents import Adjudicate
from kernel.audit.open_reviews import open_reviews
from kernel.ledger import schema
from kernel.ledger.ledger import Document, Ledger
from kernel.ledger.migrations import revisions_after
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from kernel.work.requests import WorkRequest, enqueue
from tests.actors.harness import bench_on
from tests.evidence import candidate, observation, with_filings
from tests.kernel.build import FakeHost, accept, findings
from workers.environment.ledger_access import LedgerPlace, migrate_ledger, open_store

EARLIER = 26
"""The schema in which nothing said what is open, but the records themselves."""

KINDS: tuple[Any, ...] = ("relationship", "observation", "outcome")
DERIVED = (
    schema.filing_relationships,
    schema.court_disposition_observations,
    schema.outcomes_to_review,
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LedgerPlace, ...]]:
    """Two empty ones: for a ledger of today, and for one of the earlier schema."""
    if request.param == "sqlite":
        yield tmp_path / "ledger.db", tmp_path / "earlier.db"
        return
    postgres = request.getfixturevalue("postgres")
    urls = [postgres.new_database() for _ in range(2)]
    yield tuple(map(SecretStr, urls))
    for url in urls:
        postgres.drop(url)


def copy_to_earlier(place: LedgerPlace, earlier: LedgerPlace) -> None:
    """Make the tables of the earlier schema, and give them the rows that they have place for."""
    database = "sqlite" if isinstance(place, Path) else "postgresql"
    statements = [
        statement
        for revision in revisions_after(0, database)
        if revision.version <= EARLIER
        for statement in revision.statements
    ]
    with connected(place) as now, connected(earlier) as then:
        for statement in statements:
            then.execute(statement)
        for table, columns in tables_of(then).items():
            names = ", ".join(columns)
            for row in now.execute(f"SELECT {names} FROM {table}").fetchall():  # noqa: S608 - ours
                marks = ", ".join("?" if database == "sqlite" else "%s" for _ in row)
                then.execute(
                    f"INSERT INTO {table} ({names}) VALUES ({marks})",  # noqa: S608 - ours
                    row,
                )
        if database == "sqlite":
            then.execute(f"PRAGMA user_version = {EARLIER}")
        else:
            [(stated,)] = now.execute(COMMENT).fetchall()
            version = stated.replace(str(schema.SCHEMA_VERSION), str(EARLIER))
            then.execute(f"COMMENT ON TABLE chain_head IS '{version}'")


COMMENT = "SELECT obj_description('chain_head'::regclass)"


@contextmanager
def connected(place: LedgerPlace) -> Iterator[Any]:
    if isinstance(place, Path):
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            yield connection
        return
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(place.get_secret_value(), autocommit=True) as connection:
        yield connection


def tables_of(connection: Any) -> dict[str, list[str]]:
    """The columns of every table."""
    of_sqlite = isinstance(connection, sqlite3.Connection)
    query = (
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
        if of_sqlite
        else "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'public'"
    )
    tables: dict[str, list[str]] = {}
    for table, column in connection.execute(query).fetchall():
        tables.setdefault(table, []).append(column)
    return tables


def write_reviews(ledger: Ledger) -> None:
    """Evidence and outcomes of every sort: open, decided on, settled, and none to look at."""
    with_filings(ledger)
    for name in ("r-open", "r-confirmed"):
        accept(ledger, candidate(ledger, name))
    for name in ("o-open", "o-withdrawn"):
        accept(ledger, observation(ledger, name))
    for kind, name, decision in (
        ("relationship", "r-confirmed", "confirm"),
        ("observation", "o-withdrawn", "reject"),
    ):
        stated = {"kind": kind, "record_id": name, "decision": decision, "grounds": "g"}
        whose = {"intent_key": name, "adjudicated_by": "A.", "normalized_label": "granted"}
        with bench_on(ledger) as context:
            AdjudicateUnit(Adjudicate.model_validate(stated | whose)).run(context)
    for name, state in (
        ("a", "user_review_required"),
        ("b", "succeeded"),
        ("c", "user_review_required"),
    ):
        content = {"binding_id": "b", "source_event_id": name}
        with ledger.transaction() as transaction:
            [recorded] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, name, content)])
            result = {"outcome_state": state, "outcome_reason_code": "binding_case_unknown"}
            close(transaction, recorded.request_id, "completed", result=result)
    with ledger.view() as view:
        settled = open_reviews(view, "outcome").items[0]["record_id"]
    with bench_on(ledger) as context:
        DismissOutcomeUnit(settled, "looked at").run(context)


def shown(ledger: Ledger) -> Document:
    with ledger.view() as view:
        queues: Document = {kind: open_reviews(view, kind).document() for kind in KINDS}
        return queues | {table.name: view.tables.select(table) for table in DERIVED}


@pytest.mark.spec("§13.5", "§13.6")
def test_what_waited_for_a_person_before_a_migration_waits_after_it(
    places: tuple[LedgerPlace, LedgerPlace],
) -> None:
    place, earlier = places
    ledger = Ledger.create(open_store(place), FakeHost().host)
    write_reviews(ledger)
    before = shown(ledger)
    assert [len(before[kind]["items"]) for kind in KINDS] == [1, 1, 1]
    ledger.close()
    copy_to_earlier(place, earlier)
    assert migrate_ledger(earlier).found_version == EARLIER
    ledger = Ledger(open_store(earlier), FakeHost().host)
    try:
        assert shown(ledger) == before
        assert findings(ledger) == ()
    finally:
        ledger.close()
