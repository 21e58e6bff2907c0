"""Grants and keys: who decided, what stands now, and what stood at a sequence."""

import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import TableQuery
from kernel.records.access import records
from kernel.records.access.actions import (
    ACTIONS,
    EVERYTHING,
    PUBLIC,
    ROLES,
    Grant,
    clearance_for,
    is_allowed,
)
from kernel.records.access.errors import AccessRefused
from kernel.records.access.keys import is_secret, new_key, read_key
from kernel.records.access.principals import principal_of
from kernel.records.access.records import (
    AccessDecision,
    access_at,
    access_mark,
    access_record,
    create_key,
    grant,
    grants_of,
    revoke_key,
    withdraw,
)
from tests.kernel.build import findings, memory_ledger, receipts_of_kind
from tests.kernel.deciding import deciding

ADA = Grant("person:ada", "reviewer", "*", "sealed")
OWNER = Grant("person:eve", "owner", "*", "everything")
BY_EVE = AccessDecision("person:eve", "the team has grown")
FAR_US = 1 << 60


def change(ledger: Ledger, verb, *arguments, **options):
    with ledger.transaction() as transaction:
        return verb(transaction, *arguments, BY_EVE, deciding(transaction), **options)


def add_key(ledger: Ledger, key_id: str, expires_at_us: int = FAR_US, **options) -> int:
    return change(ledger, create_key, (key_id, "0" * 64), "person:ada", expires_at_us, **options)


def test_a_grant_says_who_decided_it_and_why_and_stands_until_it_is_withdrawn():
    ledger = memory_ledger()
    assert [change(ledger, grant, ADA), change(ledger, grant, ADA)] == [True, False]
    assert ledger.read(access_record).grants == (ADA,)
    [receipt] = receipts_of_kind(ledger, "access_granted")
    assert (receipt["decided_by"], receipt["reason"]) == ("person:eve", "the team has grown")
    assert ledger.read(lambda view: view.log_row_of(receipt["decided_by_operation_id"]))
    change(ledger, withdraw, ADA)
    assert ledger.read(access_record).grants == ()
    assert findings(ledger) == ()


@pytest.mark.parametrize(
    ("granted", "code"),
    [
        (Grant("ada", "reviewer"), "principal_invalid"),
        (Grant("person:", "reviewer"), "principal_invalid"),
        (Grant("person:a b", "reviewer"), "principal_invalid"),
        (Grant("person:" + "a" * 200, "reviewer"), "principal_invalid"),
        (Grant("person:ada|owner", "reviewer"), "principal_invalid"),
        (Grant("person:ada", "root"), "access_role_unknown"),
        (Grant("person:ada", "producer", "resize"), "access_scope_invalid"),
        (Grant("person:ada", "producer", "queue:"), "access_scope_invalid"),
        (Grant("person:ada", "producer", "queue:a\nb"), "access_scope_invalid"),
        (Grant("person:ada", "producer", "*", "secret"), "access_clearance_unknown"),
    ],
)
def test_what_is_no_grant_is_refused_and_nothing_is_recorded(granted, code):
    ledger = memory_ledger()
    with pytest.raises(AccessRefused) as refused:
        change(ledger, grant, granted)
    assert refused.value.code == code
    assert ledger.read(lambda view: view.head().ec_sequence_number) == 0


def test_another_clearance_takes_the_place_of_the_one_that_stood():
    ledger = memory_ledger()
    change(ledger, grant, Grant("person:ada", "reviewer"))
    assert [each.clearance for each in ledger.read(grants_of)] == ["work_product_internal"]
    first = ledger.read(lambda view: view.head().ec_sequence_number)
    assert change(ledger, grant, ADA) is True
    assert change(ledger, grant, ADA) is False
    assert ledger.read(grants_of) == (ADA,)
    then = ledger.read(lambda view: access_at(view, first))
    assert [each.clearance for each in then.grants] == ["work_product_internal"]
    assert findings(ledger) == ()


def test_what_is_read_by_an_action_is_as_wide_as_the_widest_grant_that_allows_it():
    grants = [Grant("person:a", "reviewer"), Grant("person:a", "producer", "queue:q", "sealed")]
    assert clearance_for(grants, "read.records", {}) == "work_product_internal"
    assert clearance_for(grants, "read.requests", {"queue": "q"}) == "sealed"
    assert clearance_for(grants, "read.requests", {"queue": "other"}) == "work_product_internal"
    assert clearance_for(grants, "read.access", {}) == "public_open"
    assert clearance_for([OWNER], "read.access", {}) == "everything"


def test_the_last_owner_stays():
    ledger = memory_ledger()
    change(ledger, grant, OWNER)
    with pytest.raises(AccessRefused) as refused:
        change(ledger, withdraw, OWNER)
    assert refused.value.code == "access_owner_needed"
    change(ledger, grant, Grant("person:zoe", "owner"))
    change(ledger, withdraw, OWNER)
    with pytest.raises(AccessRefused) as refused:
        change(ledger, withdraw, OWNER)
    assert refused.value.code == "access_grant_unknown"


def test_with_a_key_end_the_sessions_that_were_opened_by_it():
    ledger = memory_ledger()
    add_key(ledger, "k")
    add_key(ledger, "s", opened_by="k")
    add_key(ledger, "other")
    assert change(ledger, revoke_key, "k") == ("k", "s")
    assert [key.key_id for key in ledger.read(access_record).keys] == ["other"]
    with pytest.raises(AccessRefused) as refused:
        change(ledger, revoke_key, "k")
    assert refused.value.code == "access_key_unknown"
    assert findings(ledger) == ()


def test_expired_keys_make_room_for_new_ones(monkeypatch):
    monkeypatch.setattr(records, "KEYS_MAX", 2)
    ledger = memory_ledger()
    add_key(ledger, "old", 1)
    add_key(ledger, "a")
    add_key(ledger, "b")
    assert {key.key_id for key in ledger.read(access_record).keys} == {"a", "b"}
    with pytest.raises(AccessRefused) as refused:
        add_key(ledger, "c")
    assert refused.value.code == "access_keys_too_many"
    assert findings(ledger) == ()


def test_the_mark_changes_with_each_change_and_with_nothing_else():
    ledger = memory_ledger()
    marks = [ledger.read(access_mark)]
    steps = [
        lambda: change(ledger, grant, ADA),
        lambda: change(ledger, grant, OWNER),
        lambda: change(ledger, withdraw, ADA),
        lambda: add_key(ledger, "a"),
        lambda: add_key(ledger, "b"),
        lambda: change(ledger, revoke_key, "b"),
        lambda: change(ledger, revoke_key, "a"),
    ]
    for step in steps:
        step()
        marks.append(ledger.read(access_mark))
        assert ledger.read(access_mark) == marks[-1]
    assert all(before != after for before, after in pairwise(marks))


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grant"), NAMES),
        st.tuples(st.just("withdraw"), NAMES),
        st.tuples(st.just("create"), NAMES),
        st.tuples(st.just("revoke"), NAMES),
    ),
    max_size=12,
)


@given(STEPS)
def test_what_stood_at_each_sequence_is_told_by_the_receipts(steps):
    ledger = memory_ledger()
    stood: list[tuple[int, set[str], set[str]]] = [(0, set(), set())]
    grants, keys, made = set[str](), set[str](), 0
    for verb, name in steps:
        principal = Grant(f"person:{name}", "auditor")
        if verb == "grant" and name not in grants:
            change(ledger, grant, principal)
            grants.add(name)
        elif verb == "withdraw" and name in grants:
            change(ledger, withdraw, principal)
            grants.discard(name)
        elif verb == "create" and name not in keys:
            made += 1
            add_key(ledger, name)
            keys.add(name)
        elif verb == "revoke" and name in keys:
            change(ledger, revoke_key, name)
            keys.discard(name)
        stood.append(
            (ledger.read(lambda view: view.head().ec_sequence_number), set(grants), set(keys))
        )
    for sequence, granted, created in stood:
        then = ledger.read(lambda view, at=sequence: access_at(view, at))
        assert {each.principal for each in then.grants} == {f"person:{name}" for name in granted}
        assert {each.key_id for each in then.keys} == created
    assert findings(ledger) == ()


DAMAGE = {
    "a role raised": (
        "access_grants",
        lambda tables: tables.update(
            schema.access_grants, ("person:ada|reviewer|*",), {"role": "owner"}
        ),
    ),
    "a clearance raised": (
        "access_grants",
        lambda tables: tables.update(
            schema.access_grants, ("person:ada|reviewer|*",), {"clearance": "everything"}
        ),
    ),
    "a grant put there": (
        "access_grants",
        lambda tables: tables.insert(
            schema.access_grants,
            {
                "grant_key": "person:m|owner|*",
                "principal": "person:m",
                "role": "owner",
                "scope": "*",
                "clearance": "everything",
                "granted_at_us": 1,
            },
        ),
    ),
    "a key changed": (
        "access_keys",
        lambda tables: tables.update(schema.access_keys, ("k",), {"secret_hash": "1" * 64}),
    ),
    "a revoked key put back": (
        "access_keys",
        lambda tables: tables.insert(
            schema.access_keys,
            {**tables.get(schema.access_keys, "k"), "key_id": "revoked"},
        ),
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_row_that_no_receipt_gives_is_a_finding(name):
    table, damage = DAMAGE[name]
    ledger = memory_ledger()
    change(ledger, grant, ADA)
    add_key(ledger, "k")
    add_key(ledger, "revoked")
    change(ledger, revoke_key, "revoked")
    with ledger.transaction() as transaction:
        assert list(transaction.tables.scan(TableQuery(schema.access_keys)))
        damage(transaction.tables)
    assert {finding.table for finding in findings(ledger)} == {table}


def test_a_key_is_read_as_it_was_made_and_nothing_else_is_one():
    key = new_key(os.urandom)
    read = read_key(str(key))
    assert read == key
    assert key.secret not in repr(key)
    assert is_secret(key, key.secret_hash)
    assert not is_secret(key, new_key(os.urandom).secret_hash)
    for text in ("", "rot_", str(key) + "x", str(key)[1:], str(key).upper(), f" {key}"):
        assert read_key(text) is None


def test_a_principal_is_read_as_it_is_written():
    assert str(principal_of("service:ci.runner-7")) == "service:ci.runner-7"


def test_each_action_names_known_roles_and_an_owner_may_do_everything():
    for name, action in ACTIONS.items():
        assert action.roles <= {*ROLES}
        assert is_allowed([OWNER], name, {})
        assert is_allowed([], name, {}) == (name == PUBLIC)


def test_a_narrow_grant_allows_what_its_path_names_and_no_more():
    narrow = [Grant("service:s", "producer", "queue:resize")]
    assert is_allowed(narrow, "write.work", {"queue": "resize"})
    assert not is_allowed(narrow, "write.work", {"queue": "other"})
    assert not is_allowed(narrow, "write.work", {})
    assert not is_allowed(narrow, "write.sessions", {"session_id": "resize"})
    assert not is_allowed(narrow, "report.source", {"queue": "resize"})
    assert is_allowed([Grant("service:s", "producer", EVERYTHING)], "write.sessions", {})
