"""A ledger of an earlier schema has, once migrated, all that its rows say in later columns."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from actors.commit.review_units import AdjudicateUnit, DismissOutcomeUnit
from actors.orchestrator.intents import Adjudicate
from kernel.audit.open_reviews import open_reviews
from kernel.ledger import schema
from kernel.ledger.ledger import Document, Ledger
from kernel.work.contents import BINDING_QUEUE
from kernel.work.outcomes import close
from kernel.work.requests import WorkRequest, enqueue
from tests.actors.harness import bench_on
from tests.evidence import candidate, observation, with_filings
from tests.kernel.build import FakeHost, accept, findings
from workers.environment.ledger_access import LedgerPlace, migrate_ledger, open_store

EARLIER = 26
"""The schema in which nothing said what is open, but the records themselves."""

SINCE = (
    "DROP TABLE running_extractions",
    "DROP TABLE outcomes_to_review",
    "DROP INDEX filing_relationships_open",
    "DROP INDEX court_disposition_observations_open",
    "ALTER TABLE filing_relationships DROP COLUMN is_open",
    "ALTER TABLE court_disposition_observations DROP COLUMN is_open",
)
"""What was added since, taken away again."""

KINDS: tuple[Any, ...] = ("relationship", "observation", "outcome")
DERIVED = (
    schema.filing_relationships,
    schema.court_disposition_observations,
    schema.outcomes_to_review,
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> LedgerPlace:
    if request.param == "sqlite":
        return tmp_path / "ledger.db"
    return SecretStr(request.getfixturevalue("postgres_empty_url"))


def make_earlier(place: LedgerPlace) -> None:
    if isinstance(place, Path):
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            for statement in (*SINCE, f"PRAGMA user_version = {EARLIER}"):
                connection.execute(statement)
        return
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(place.get_secret_value(), autocommit=True) as connection:
        [(stated,)] = connection.execute(
            "SELECT obj_description('chain_head'::regclass)"
        ).fetchall()
        earlier = stated.replace(str(schema.SCHEMA_VERSION), str(EARLIER))
        for statement in (*SINCE, f"COMMENT ON TABLE chain_head IS '{earlier}'"):
            connection.execute(statement)


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
            [asked] = enqueue(transaction, [WorkRequest(BINDING_QUEUE, name, content)])
            result = {"outcome_state": state, "outcome_reason_code": "binding_case_unknown"}
            close(transaction, asked.request_id, "completed", result=result)
    with ledger.view() as view:
        settled = open_reviews(view, "outcome").items[0]["record_id"]
    with bench_on(ledger) as context:
        DismissOutcomeUnit(settled, "looked at").run(context)


def shown(ledger: Ledger) -> Document:
    with ledger.view() as view:
        queues: Document = {kind: open_reviews(view, kind).document() for kind in KINDS}
        return queues | {table.name: view.tables.select(table) for table in DERIVED}


@pytest.mark.spec("§13.5", "§13.6")
def test_what_waited_for_a_person_before_a_migration_waits_after_it(place: LedgerPlace) -> None:
    ledger = Ledger.create(open_store(place), FakeHost().host)
    write_reviews(ledger)
    before = shown(ledger)
    assert [len(before[kind]["items"]) for kind in KINDS] == [1, 1, 1]
    ledger.close()
    make_earlier(place)
    assert migrate_ledger(place).found_version == EARLIER
    ledger = Ledger(open_store(place), FakeHost().host)
    try:
        assert shown(ledger) == before
        assert findings(ledger) == ()
    finally:
        ledger.close()
