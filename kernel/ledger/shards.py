"""Fences shards of the sessions: one owner each, and the mailbox entries that took effect.

A shard has one row, which is there from the founding on; the number of shards never changes. Its
epoch is raised when it is taken and when it is released, in a transaction like every other, so
whoever still holds an older epoch learns of it inside its own next transaction, before anything of
that counts. Nothing here knows a lease: who should try to take a shard is decided elsewhere, and a
wrong guess costs time only.

Incidents, the causal graph and the sessions of the ledger's elimination store are a shard of their
own, behind those of the sessions that gateways share out (decision actors/0085). Whoever writes for
it takes it at its start, and nobody leases it.

Shards and places in mailboxes are beside the log, like the head: they say who may write and not
what was decided. Verification does not look at them, and a rebuild does not fold them.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from kernel.ledger import schema
from kernel.ledger.ledger import LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Expected, Row, TableQuery
from kernel.values.errors import LedgerUnavailable

NOBODY = ""
INCIDENTS_SHARD = -1
"""The shard of what a Tee or an elimination store writes; no gateway has a share in it."""

_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Fence:
    """The right of an owner to write for a shard, for as long as its epoch is this one.

    A ledger that lost rows may give out an epoch again; then the owner tells the two apart.
    """

    shard: int
    epoch: int
    owner: str


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as it stands on the record."""

    shard: int
    epoch: int
    owner: str
    """A gateway's name, `NOBODY` where it was released."""

    acquired_at_us: int


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """A gateway's public key, and the key of the gateways' mail as only that gateway opens it."""

    gateway: str
    public_key: bytes
    """32 bytes of X25519."""

    key_number: int = 0
    """The number of the mail's key, 0 for none; a later key has a larger one."""

    sealed_key: bytes = b""


@dataclass(frozen=True, slots=True)
class Position:
    """An entry's place in the mailbox through which other gateways send a session's requests."""

    mailbox_id: str
    offset: str
    """Sorts as text like the entries of its mailbox."""


def create_shards(transaction: LedgerTransaction, count: int) -> None:
    """Give a ledger its shards, once; their number never changes.

    Raises:
        LedgerUnavailable: `ledger_shards_differ` when it has another number of them.
    """
    known = len(shards_of(transaction))
    if known == 0:
        for shard in range(count):
            row = {"shard": shard, "epoch": 0, "owner": NOBODY, "acquired_at_us": 0}
            transaction.tables.insert(schema.shard_epochs, row)
    elif known != count:
        raise LedgerUnavailable(
            f"the ledger was founded with {known} shards, not {count}", code="ledger_shards_differ"
        )


def create_ledger_id(transaction: LedgerTransaction) -> None:
    """Give a ledger its id, once."""
    if ledger_id_of(transaction) is None:
        row = {"ledger_id": transaction.host.random_bytes(_ID_BYTES).hex()}
        transaction.tables.insert(schema.ledger_ids, row)


def ledger_id_of(view: LedgerView) -> str | None:
    """Return the id of a ledger, which no other has; None before its first gateway gave it one.

    It goes wherever the record goes. What two ledgers must not share (Redis, folders) is marked
    with it.
    """
    rows = view.tables.scan(TableQuery(schema.ledger_ids))
    return next((row["ledger_id"] for row in rows), None)


def gateway_keys_of(view: LedgerView) -> dict[str, GatewayKey]:
    """Return the key of each gateway that sends or reads mail, by its name."""
    rows = view.tables.scan(TableQuery(schema.gateway_keys))
    return {row["gateway"]: GatewayKey(**row) for row in rows}


def record_gateway_keys(
    transaction: LedgerTransaction, keys: Iterable[GatewayKey], gone: Iterable[str]
) -> None:
    """Record keys of gateways, and forget those of others."""
    for key in keys:
        transaction.tables.put(schema.gateway_keys, asdict(key))
    for gateway in gone:
        transaction.tables.delete(schema.gateway_keys, gateway)


def shards_of(view: LedgerView) -> list[Shard]:
    """Return every shard of gateways in order, none before they were founded."""
    return [
        Shard(**row)
        for row in view.tables.scan(TableQuery(schema.shard_epochs, after=INCIDENTS_SHARD))
    ]


def take_shards(
    transaction: LedgerTransaction, owner: str, shards: Iterable[Shard]
) -> frozenset[Fence]:
    """Take the shards that have not changed since they were read; return those that were taken."""
    taken = set()
    for shard in shards:
        row = transaction.tables.get(schema.shard_epochs, shard.shard)
        if row is not None and row["epoch"] == shard.epoch:
            _change_hands(transaction, shard, owner)
            taken.add(Fence(shard.shard, shard.epoch + 1, owner))
    return frozenset(taken)


def take_incidents(transaction: LedgerTransaction, owner: str) -> Fence:
    """Take the shard of incidents from whoever has it; their next write is refused."""
    row = transaction.tables.get(schema.shard_epochs, INCIDENTS_SHARD)
    if row is None:
        row = {"shard": INCIDENTS_SHARD, "epoch": 0, "owner": NOBODY, "acquired_at_us": 0}
        transaction.tables.insert(schema.shard_epochs, row)
    _change_hands(transaction, Shard(**row), owner)
    return Fence(INCIDENTS_SHARD, row["epoch"] + 1, owner)


def release_shards(transaction: LedgerTransaction, fences: Iterable[Fence]) -> None:
    """Release the shards that are still held, so that they can be taken at once."""
    for fence in fences:
        if holds(transaction, fence):
            _change_hands(transaction, fence, NOBODY)


def take_away_all(transaction: LedgerTransaction) -> None:
    """Release every shard, so that no owner goes on from what it read of the record before."""
    for row in transaction.tables.scan(TableQuery(schema.shard_epochs)):
        _change_hands(transaction, Shard(**row), NOBODY)


def holds(view: LedgerView, fence: Fence) -> bool:
    """Tell whether a shard is still held under an epoch."""
    row = view.tables.get(schema.shard_epochs, fence.shard)
    return row is not None and _fence_of(row) == fence


def _fence_of(row: Row) -> Fence:
    return Fence(row["shard"], row["epoch"], row["owner"])


def rows_while_held(fences: Iterable[Fence]) -> list[Expected]:
    """Return what the rows of shards hold while each is held under its epoch."""
    return [(schema.shard_epochs, asdict(fence)) for fence in fences]


def consumed_position(view: LedgerView, session_id: str) -> Position | None:
    """Return the last of a session's entries that has taken effect."""
    row = view.tables.get(schema.mailbox_offsets, session_id)
    return None if row is None else Position(row["mailbox_id"], row["consumed_to"])


def record_consumed(transaction: LedgerTransaction, session_id: str, to: Position) -> None:
    """Record, with their effects, that a session's entries up to this one have taken effect."""
    transaction.tables.put(
        schema.mailbox_offsets,
        {"session_id": session_id, "mailbox_id": to.mailbox_id, "consumed_to": to.offset},
    )


def _change_hands(transaction: LedgerTransaction, shard: Shard | Fence, owner: str) -> None:
    now_us = 0 if owner == NOBODY else transaction.host.now_us()
    values = {"epoch": shard.epoch + 1, "owner": owner, "acquired_at_us": now_us}
    transaction.tables.update(schema.shard_epochs, (shard.shard,), values)
