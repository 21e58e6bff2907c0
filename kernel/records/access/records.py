"""Records who was granted what, and which keys there are.

Each change is an operation of the log with who decided it and why, and leaves a durable receipt.
`access_grants` and `access_keys` hold what stands; what stood at a sequence is told by the receipts
up to there. A key's row goes when it is revoked, and when it has expired and another one is made.
"""

import heapq
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Final

import orjson

from kernel.algebra.verbs import ACCESS_GRANT, ACCESS_KEY_CREATE, ACCESS_KEY_REVOKE, ACCESS_WITHDRAW
from kernel.ledger import schema
from kernel.ledger.ledger import Document, LedgerTransaction, LedgerView
from kernel.ledger.receipts import append_receipt
from kernel.ledger.receipts_of_kind import receipts_of_kind
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.receipt import Receipt
from kernel.records.access.actions import EVERYTHING, Grant, check_grant
from kernel.records.access.errors import AccessRefused
from kernel.records.access.keys import is_secret, read_key
from kernel.records.access.principals import GROUP, principal_of
from kernel.records.operator_decisions import Decide, OperatorDecision, record_decision
from kernel.values.host import parse_time_us

KEYS_MAX: Final = 10_000
"""Keys that stand, sessions of browsers included."""

GRANTS_MAX: Final = 10_000
REASON_CHARS_MAX: Final = 200
KEY_DAYS_MAX: Final = 3_650
GROUPS_MAX: Final = 16
"""Groups of which a session has the roles."""

PROVIDER: Final = "openid"
"""Stands, with groups behind it, where a session was not opened by a key."""

_REPLACED_MAX: Final = 16
"""Expired keys whose rows go with one new key."""

GRANTED: Final = "access_granted"
WITHDRAWN: Final = "access_withdrawn"
KEY_CREATED: Final = "access_key_created"
KEY_REVOKED: Final = "access_key_revoked"

_GRANTS: Final = TableQuery(schema.access_grants, order_by="granted_at_us")
_KEYS: Final = TableQuery(schema.access_keys, order_by="created_at_us")


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as it is on the record."""

    key_id: str
    principal: str
    secret_hash: str
    created_at_us: int
    expires_at_us: int
    opened_by: str | None = None
    """By what somebody logged in, where this is the key of their session: a key, or a provider."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups that had a role when somebody logged in by a provider."""
        provider, *groups = (self.opened_by or "").split(" ")
        return tuple(groups) if provider == PROVIDER else ()

    @property
    def grantees(self) -> tuple[str, ...]:
        """Return whose grants its holder has: their own, and those of the groups."""
        return (self.principal, *(f"{GROUP}:{group}" for group in self.groups))


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """All that stands."""

    grants: tuple[Grant, ...]
    keys: tuple[KeyRecord, ...]


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Who decides something about access, and why."""

    decided_by: str
    reason: str = ""


def grants_of(view: LedgerView) -> tuple[Grant, ...]:
    """Return the grants that stand, the oldest first."""
    return tuple(grant_in(row) for row in view.tables.scan(_GRANTS))


def access_record(view: LedgerView) -> AccessRecord:
    """Return the grants and the keys that stand."""
    return AccessRecord(grants_of(view), tuple(map(_key_of, view.tables.scan(_KEYS))))


def _key_of(row: Row) -> KeyRecord:
    return KeyRecord(**{name: row[name] for name in KeyRecord.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose key somebody shows, and what they were granted."""

    key: KeyRecord
    grants: tuple[Grant, ...]


def holder_of(view: LedgerView, text: str, now_us: int) -> Holder | None:
    """Return whose key a text is, None where it is none that stands."""
    key = read_key(text)
    row = None if key is None else view.tables.get(schema.access_keys, key.key_id)
    if key is None or row is None:
        return None
    record = _key_of(row)
    if record.expires_at_us <= now_us or not is_secret(key, record.secret_hash):
        return None
    granted = (grant for grant in grants_of(view) if grant.principal in record.grantees)
    return Holder(record, tuple(granted))


def access_mark(view: LedgerView) -> tuple[int, ...]:
    """Return what is another value once anything about access has changed."""
    marks: list[int] = []
    for query, column in ((_GRANTS, "granted_at_us"), (_KEYS, "created_at_us")):
        newest = TableQuery(query.table, order_by=column, descending=True, limit=1)
        marks += (row[column] for row in view.tables.scan(newest))
        marks.append(view.tables.count(query))
    return tuple(marks)


def grant(
    transaction: LedgerTransaction, granted: Grant, decision: AccessDecision, decide: Decide
) -> bool:
    """Record a grant; False, and nothing recorded, where it stands.

    The same role of the same thing with another clearance takes the place of what stands.

    Raises:
        AccessRefused: `principal_invalid`, `access_role_unknown`, `access_scope_invalid`,
            `access_clearance_unknown`, `access_grants_too_many`.
    """
    principal_of(granted.principal)
    check_grant(granted)
    granted = replace(granted, clearance=granted.reads_up_to)
    standing = transaction.tables.get(schema.access_grants, grant_key(granted))
    if standing is not None and standing["clearance"] == granted.clearance:
        return False
    if standing is None and transaction.tables.count(_GRANTS) >= GRANTS_MAX:
        message = f"a ledger has at most {GRANTS_MAX} grants; withdraw one"
        raise AccessRefused("access_grants_too_many", message)
    _record(transaction, GRANTED, ACCESS_GRANT, asdict(granted), decision, decide)
    return True


def withdraw(
    transaction: LedgerTransaction, granted: Grant, decision: AccessDecision, decide: Decide
) -> None:
    """Record that a grant ends.

    Raises:
        AccessRefused: `access_grant_unknown`; `access_owner_needed` for the last owner's.
    """
    row = transaction.tables.get(schema.access_grants, grant_key(granted))
    if row is None:
        message = f"{granted.principal} has no grant {granted.role} of {granted.scope}"
        raise AccessRefused("access_grant_unknown", message)
    granted = grant_in(row)
    if _is_owners(granted) and [*filter(_is_owners, grants_of(transaction))] == [granted]:
        message = "nobody could manage access any more; grant owner to somebody else first"
        raise AccessRefused("access_owner_needed", message)
    _record(transaction, WITHDRAWN, ACCESS_WITHDRAW, asdict(granted), decision, decide)


def create_key(
    transaction: LedgerTransaction,
    key: tuple[str, str],
    principal: str,
    expires_at_us: int,
    decision: AccessDecision,
    decide: Decide,
    *,
    opened_by: str | None = None,
) -> int:
    """Record a new key by its id and the digest of its secret; return when it was created.

    Raises:
        AccessRefused: `principal_invalid`, `access_keys_too_many`.
    """
    if principal_of(principal).kind == GROUP:
        raise AccessRefused("principal_invalid", "a group has roles and no keys")
    now_us = transaction.next_commit_time_us()
    first = TableQuery(schema.access_keys, order_by="expires_at_us", limit=_REPLACED_MAX)
    rows = transaction.tables.scan(first)
    replaced = [row["key_id"] for row in rows if row["expires_at_us"] <= now_us]
    if transaction.tables.count(_KEYS) - len(replaced) >= KEYS_MAX:
        message = f"a ledger has at most {KEYS_MAX} keys; revoke one"
        raise AccessRefused("access_keys_too_many", message)
    body: Document = {
        "key_id": key[0],
        "secret_hash": key[1],
        "principal": principal,
        "expires_at_us": str(expires_at_us),
    }
    body |= {"opened_by": opened_by} if opened_by is not None else {}
    body |= {"replaces": replaced} if replaced else {}
    _record(transaction, KEY_CREATED, ACCESS_KEY_CREATE, body, decision, decide)
    return transaction.head_now.committed_at_us


def revoke_key(
    transaction: LedgerTransaction, key_id: str, decision: AccessDecision, decide: Decide
) -> tuple[str, ...]:
    """Record that a key ends, and with it the sessions that were opened by it; return their ids.

    Raises:
        AccessRefused: `access_key_unknown`.
    """
    if transaction.tables.get(schema.access_keys, key_id) is None:
        raise AccessRefused("access_key_unknown", f"no key that stands has the id {key_id!r}")
    opened = TableQuery(schema.access_keys, {"opened_by": key_id})
    ended = (key_id, *(row["key_id"] for row in transaction.tables.scan(opened)))
    for each in ended:
        _record(transaction, KEY_REVOKED, ACCESS_KEY_REVOKE, {"key_id": each}, decision, decide)
    return ended


def access_at(view: LedgerView, sequence: int) -> AccessRecord:
    """Return the grants and the keys that stood at a sequence of the record."""
    grants: dict[str, Grant] = {}
    keys: dict[str, KeyRecord] = {}
    rows = heapq.merge(
        *(receipts_of_kind(view.tables, kind) for kind in ACCESS_WRITES),
        key=lambda row: row["receipt_sequence"],
    )
    for row in rows:
        body = orjson.loads(row["receipt_bytes"])
        if int(body["decided_at_sequence"]) > sequence:
            break
        kind = body["receipt_kind"]
        if kind == KEY_CREATED:
            for key_id in body.get("replaces", ()):
                keys.pop(key_id, None)
            keys[body["key_id"]] = KeyRecord(
                body["key_id"],
                body["principal"],
                body["secret_hash"],
                parse_time_us(body["emitted_at"]),
                int(body["expires_at_us"]),
                body.get("opened_by"),
            )
        elif kind == KEY_REVOKED:
            keys.pop(body["key_id"], None)
        else:
            stated = grant_in(body)
            if kind == GRANTED:
                grants[grant_key(stated)] = stated
            else:
                grants.pop(grant_key(stated), None)
    return AccessRecord(tuple(grants.values()), tuple(keys.values()))


def grant_in(body: Document) -> Grant:
    """Return the grant that a receipt, or a row, tells of."""
    return Grant(**{name: body[name] for name in ("principal", "role", "scope", "clearance")})


def grant_key(granted: Grant) -> str:
    """Return the key of a grant's row."""
    return f"{granted.principal}|{granted.role}|{granted.scope}"


def _is_owners(granted: Grant) -> bool:
    return granted.role == "owner" and granted.scope == EVERYTHING


def _record(
    transaction: LedgerTransaction,
    kind: str,
    verb: str,
    body: Document,
    decision: AccessDecision,
    decide: Decide,
) -> None:
    """Put a decision on the log, append its receipt, and write what that says."""
    target = f"key:{body['key_id']}" if "key_id" in body else f"grant:{_target_of(body)}"
    said = record_decision(
        OperatorDecision(verb, (target,), decision.decided_by, decision.reason), decide
    )
    transaction.next_commit_time_us()
    said["reason"] = decision.reason
    said["decided_at_sequence"] = str(transaction.head_now.ec_sequence_number)
    receipt_id = f"receipt:{said['decided_by_operation_id']}:access"
    append_receipt(transaction, receipt_id, Receipt(kind, body | said), None)
    ACCESS_WRITES[kind](transaction, body | said)


def _target_of(body: Document) -> str:
    return f"{body['principal']}:{body['role']}:{body['scope']}"


def _grant(transaction: LedgerTransaction, body: Document) -> None:
    granted = grant_in(body)
    row = {
        "grant_key": grant_key(granted),
        **asdict(granted),
        "granted_at_us": transaction.head_now.committed_at_us,
    }
    transaction.tables.put(schema.access_grants, row)


def _withdraw(transaction: LedgerTransaction, body: Document) -> None:
    transaction.tables.delete(schema.access_grants, grant_key(grant_in(body)))


def _create_key(transaction: LedgerTransaction, body: Document) -> None:
    _forget(transaction, body.get("replaces", ()))
    row = {
        **{name: body[name] for name in ("key_id", "principal", "secret_hash")},
        "created_at_us": transaction.head_now.committed_at_us,
        "expires_at_us": int(body["expires_at_us"]),
        "opened_by": body.get("opened_by"),
    }
    transaction.tables.put(schema.access_keys, row)


def _revoke_key(transaction: LedgerTransaction, body: Document) -> None:
    _forget(transaction, [body["key_id"]])


def _forget(transaction: LedgerTransaction, key_ids: Collection[str]) -> None:
    for key_id in key_ids:
        transaction.tables.delete(schema.access_keys, key_id)


ACCESS_WRITES: Mapping[str, Callable[[LedgerTransaction, Document], None]] = MappingProxyType(
    {
        GRANTED: _grant,
        WITHDRAWN: _withdraw,
        KEY_CREATED: _create_key,
        KEY_REVOKED: _revoke_key,
    }
)
"""What each receipt of access writes; verification writes the same."""
