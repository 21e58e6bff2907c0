"""A range of the log that was found damaged is quarantined, on every store (§17.5)."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Table

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.quarantine import RangeQuarantined
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.keys import key_names
from kernel.ledger.store.memory import MemoryStore
from kernel.records.legal_holds import Grounds
from kernel.records.quarantine_lifts import QuarantineRefused
from kernel.verify.recent import AuditMark, audit_since
from kernel.verify.violation import record_violation
from tests.kernel.build import FakeHost, create, submit
from tests.kernel.quarantining import audited, kinds_found, lift, ranges, row_of, standing

pytestmark = pytest.mark.spec("§17.5")

Row = dict[str, Any]


@dataclass
class World:
    """A ledger, and what changes its rows behind the kernel's back; None deletes one."""

    open: Callable[[], Any]
    tamper: Callable[[Table, tuple[Any, ...], Row | None], None]


def _statement(table: Table, values: Row | None, mark: str) -> str:
    where = " AND ".join(f"{name} = {mark}" for name in key_names(table))
    if values is None:
        return " ".join(("DELETE FROM", str(table.name), "WHERE", where))
    assigned = ", ".join(f"{name} = {mark}" for name in values)
    return " ".join(("UPDATE", str(table.name), "SET", assigned, "WHERE", where))


def _in_memory() -> World:
    store = MemoryStore()

    def tamper(table: Table, key: tuple[Any, ...], values: Row | None) -> None:
        with store.transaction() as tables:
            if values is None:
                tables.delete(table, *key)
            else:
                tables.update(table, key, values)

    return World(lambda: store, tamper)


def _in_a_file(path: Any) -> World:
    def tamper(table: Table, key: tuple[Any, ...], values: Row | None) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            triggers = db.execute(query).fetchall()
            for name, _ in triggers:
                db.execute(f"DROP TRIGGER {name}")
            db.execute(_statement(table, values, "?"), (*(values or {}).values(), *key))
            for _, sql in triggers:
                db.execute(sql)

    return World(lambda: SqliteStore(path), tamper)


def _on_a_server(url: str) -> World:
    import psycopg  # noqa: PLC0415 - likewise

    from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

    def tamper(table: Table, key: tuple[Any, ...], values: Row | None) -> None:
        with psycopg.connect(url) as connection:
            connection.execute("SET session_replication_role = replica")
            statement = _statement(table, values, "%s")
            connection.execute(statement, (*(values or {}).values(), *key))

    return World(lambda: PostgresStore(url), tamper)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def world(request, tmp_path) -> Iterator[World]:
    if request.param == "postgres":
        made = _on_a_server(request.getfixturevalue("postgres_url"))
    elif request.param == "sqlite":
        empty = request.getfixturevalue("empty_file")
        made = _in_a_file(shutil.copy(empty, tmp_path / "ledger.db"))
    else:
        made = _in_memory()
    opened: list[Any] = []

    def kept() -> Any:
        opened.append(made.open())
        return opened[-1]

    yield World(kept, made.tamper)
    for store in opened:
        store.close()


def written(world: World, count: int = 6) -> Ledger:
    ledger = Ledger.create(world.open(), FakeHost().host)
    for number in range(count):
        submit(ledger, create(f"n-{number}", "Note"))
    return ledger


def change(
    world: World, ledger: Ledger, sequence: int, old: bytes = b"create", new: bytes = b"change"
) -> None:
    """Change bytes of a row, as somebody at the database could."""
    content = row_of(ledger, sequence)["row_bytes"]
    assert old in content
    values = {"row_bytes": content.replace(old, new)}
    world.tamper(schema.kernel_event_log, (sequence,), values)


def test_a_row_that_was_changed_is_quarantined_and_new_work_goes_on(world):
    ledger = written(world)
    change(world, ledger, 3)
    mark = audited(ledger)
    assert ranges(ledger) == ((3, 3),)
    assert mark.ec_sequence_number == 6, "the audit goes on behind it"
    submit(ledger, create("n-6", "Note"))
    assert audited(ledger, mark).ec_sequence_number == 7
    # It survives the process, because it is on the record.
    again = Ledger.create(world.open(), FakeHost().host)
    assert ranges(again) == ((3, 3),)
    with again.view() as view, pytest.raises(RangeQuarantined) as refused:
        view.quarantines().expect_none_over(1, 4)
    assert refused.value.details["first_sequence"] == "3"
    assert kinds_found(again) == {("kernel_event_log", "3")}


def test_a_lift_is_an_operation_and_the_whole_verification_names_the_row_all_the_same(world):
    ledger = written(world)
    change(world, ledger, 3)
    audited(ledger)
    [quarantine_id] = standing(ledger)
    for reason in ("", " \t"):
        with pytest.raises(QuarantineRefused) as refused:
            lift(ledger, quarantine_id, Grounds(reason, "ada"))
        assert refused.value.code == "quarantine_reason_missing"
    with pytest.raises(QuarantineRefused) as refused:
        lift(ledger, "receipt:nobody")
    assert refused.value.code == "quarantine_unknown"
    assert ranges(ledger) == ((3, 3),)
    assert lift(ledger, quarantine_id)
    assert not lift(ledger, quarantine_id), "again changes nothing"
    assert ranges(ledger) == ()
    with ledger.view() as view:
        [row] = view.log_tail(1)
        assert row["semantic_intent"] == "quarantine_lift"
        view.quarantines().expect_none()
    assert kinds_found(ledger) == {("kernel_event_log", "3")}
    # Who lifted it has seen the row so, and is not asked again.
    audited(ledger)
    assert ranges(ledger) == ()
    change(world, ledger, 3, b"change", b"charge")
    audited(ledger)
    assert ranges(ledger) == ((3, 3),)


def test_a_row_that_was_mended_is_quarantined_again_where_it_is_changed_again(world):
    ledger = written(world)
    change(world, ledger, 3)
    audited(ledger)
    change(world, ledger, 3, b"change", b"create")
    [quarantine_id] = standing(ledger)
    assert lift(ledger, quarantine_id)
    assert kinds_found(ledger) == set(), "what placed and lifted it is sound"
    change(world, ledger, 3)
    audited(ledger)
    assert ranges(ledger) == ((3, 3),)
    assert standing(ledger) != [quarantine_id]


def damaged_blob(world: World, ledger: Ledger) -> None:
    blob_ref = row_of(ledger, 2)["envelope_payload_blob_ref"]
    world.tamper(schema.blobs, (blob_ref,), {"content": b"{}"})


def damaged_effect(world: World, _: Ledger) -> None:
    world.tamper(schema.applied_effects, (2, 0), {"record_key": "another"})


def removed_row(world: World, _: Ledger) -> None:
    world.tamper(schema.kernel_event_log, (2,), None)


@pytest.mark.parametrize("damage", [damaged_blob, damaged_effect, removed_row])
def test_what_a_row_commits_to_counts_as_the_row(world, damage):
    ledger = written(world)
    damage(world, ledger)
    audited(ledger)
    assert ranges(ledger) == ((2, 2),)


def test_rows_that_are_found_one_after_the_other_are_one_range_and_lifted_each_by_itself(world):
    ledger = written(world)
    change(world, ledger, 2)
    audited(ledger)
    change(world, ledger, 3)
    change(world, ledger, 5)
    audited(ledger)
    assert ranges(ledger) == ((2, 3), (5, 5))
    first, second = standing(ledger)
    assert lift(ledger, second)
    assert ranges(ledger) == ((2, 2),)
    assert lift(ledger, first)
    assert ranges(ledger) == ()


def test_what_is_about_no_row_is_recorded_once_and_quarantines_nothing(world):
    ledger = written(world)
    world.tamper(schema.chain_head, ("main",), {"row_hash": "1" * 64})
    with ledger.view() as view:
        verification = audit_since(view, AuditMark()).verification
    with ledger.transaction() as transaction:
        assert record_violation(transaction, verification, once=True)
        assert record_violation(transaction, verification, once=True) is None
    assert ranges(ledger) == ()
