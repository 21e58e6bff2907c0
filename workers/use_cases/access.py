"""Keeps in memory who may do what, and changes it: keys, grants, sessions of browsers.

A gateway reads what stands from the record, and again within two seconds of a change, its own or
that of another gateway. Without a table access is open: whoever reaches the port may do everything,
which a gateway allows on loopback alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import anyio
import anyio.to_thread

from actors.commit.access_units import CreateKeyUnit, FirstOwnerUnit, GrantUnit, RevokeKeyUnit
from kernel.ledger.ledger import Ledger, LedgerView
from kernel.records.access.actions import Grant, clearance_for, is_allowed
from kernel.records.access.clearance import LOWEST_CLEARANCE
from kernel.records.access.keys import AccessKey, is_secret, new_key, read_key
from kernel.records.access.principals import GROUP
from kernel.records.access.readable_view import OF_EVERYTHING, RecordReader
from kernel.records.access.records import (
    GROUPS_MAX,
    PROVIDER,
    AccessDecision,
    AccessRecord,
    KeyRecord,
    access_mark,
    access_record,
)
from kernel.values.host import Host
from workers.use_cases.queue_operations import Write

READ_EVERY_S: Final = 2.0
"""After which a change that another gateway recorded holds here too."""

COOKIE: Final = "__Host-rotulus"
"""A browser keeps it for this host alone, and sends it over TLS or to its own machine."""

LOGIN_S: Final = 12 * 3600
"""How long a browser stays logged in."""

FIRST_OWNER_DAYS: Final = 365
DAY_US: Final = 86_400_000_000
NO_PARTS: Final[Mapping[str, str]] = MappingProxyType({})
ACTION: Final = "x-action"
"""Where a route names its action, in the OpenAPI document too."""

CALLER: Final = "rotulus.caller"
"""Where the scope of a request holds who asks; absent where access is open."""


READER: Final = "rotulus.reader"
"""Where the scope of a request holds as whom it reads; absent where access is open."""

IS_CLOSED: Final = "rotulus.closed"
"""Where the scope of a request holds that access takes a key."""


NOBODY: Final = RecordReader(LOWEST_CLEARANCE)
"""As whom somebody reads who shows no key."""


def does(action: str) -> dict[str, Any]:
    """Return what a route says of the action that it is."""
    return {ACTION: action}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what they were granted."""

    principal: str
    grants: tuple[Grant, ...]
    key_id: str | None = None
    opened_by: str | None = None
    """By what they logged in, where theirs is the key of a session."""

    @property
    def is_session(self) -> bool:
        """Tell whether their key is that of a browser that logged in."""
        return self.opened_by is not None

    def may(self, action: str, parts: Mapping[str, str] = NO_PARTS) -> bool:
        """Tell whether they may do something; `parts` are those of a path."""
        return is_allowed(self.grants, action, parts)

    def reader(self, action: str, parts: Mapping[str, str] = NO_PARTS) -> RecordReader:
        """Return as whom they read by something that they may do."""
        return RecordReader(clearance_for(self.grants, action, parts), self.principal)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the names of the roles that they have of anything."""
        return tuple(dict.fromkeys(grant.role for grant in self.grants))


class AccessTable:
    """The keys and grants that stand, in memory."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._mark: tuple[int, ...] = ()
        self._keys: Mapping[str, KeyRecord] = {}
        self._grants: dict[str, list[Grant]] = {}
        self._changed = anyio.Event()

    def read_again(self) -> None:
        """Read what stands, if anything has changed since; takes a snapshot of the ledger."""
        news = self._ledger.read(self._news)
        if news is not None:
            self._mark, record = news
            grants: dict[str, list[Grant]] = {}
            for grant in record.grants:
                grants.setdefault(grant.principal, []).append(grant)
            self._keys, self._grants = {key.key_id: key for key in record.keys}, grants

    def _news(self, view: LedgerView) -> tuple[tuple[int, ...], AccessRecord] | None:
        mark = access_mark(view)
        return None if mark == self._mark else (mark, access_record(view))

    def caller_of(self, text: str) -> Caller | None:
        """Return whose key a text is, None where it is none that stands."""
        key = read_key(text)
        record = None if key is None else self._standing(key.key_id)
        if key is None or record is None or not is_secret(key, record.secret_hash):
            return None
        grants = tuple(each for name in record.grantees for each in self._grants.get(name, ()))
        return Caller(record.principal, grants, key.key_id, record.opened_by)

    def groups_with_roles(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return those groups that were granted anything, as many as a session may have."""
        granted = (group for group in groups if f"{GROUP}:{group}" in self._grants)
        return tuple(dict.fromkeys(granted))[:GROUPS_MAX]

    def has_role(self, principal: str) -> bool:
        """Tell whether somebody was granted anything."""
        return principal in self._grants

    @property
    def has_owner(self) -> bool:
        """Tell whether anybody may manage access."""
        return any(each.role == "owner" for grants in self._grants.values() for each in grants)

    def stands(self, caller: Caller) -> bool:
        """Tell whether the key of a caller is one still."""
        return caller.key_id is None or self._standing(caller.key_id) is not None

    def _standing(self, key_id: str) -> KeyRecord | None:
        record = self._keys.get(key_id)
        if record is None or record.expires_at_us <= self._ledger.host.now_us():
            return None
        return record

    async def refresh(self) -> None:
        """Read again what stands now."""
        await anyio.to_thread.run_sync(self.read_again)

    async def run(self) -> None:
        """Read again what stands, for as long as the gateway serves."""
        while True:
            await self.refresh()
            self._changed = anyio.Event()
            with anyio.move_on_after(READ_EVERY_S):
                await self._changed.wait()

    def notify(self) -> None:
        """Read again at once."""
        self._changed.set()


def caller_of(scope: Mapping[str, Any]) -> Caller | None:
    """Return who asks, None where access is open or what is asked for is public."""
    caller: Caller | None = scope.get(CALLER)
    return caller


def reader_of(scope: Mapping[str, Any]) -> RecordReader:
    """Return as whom a request reads: as everybody where access is open."""
    reader: RecordReader = scope.get(READER, NOBODY if IS_CLOSED in scope else OF_EVERYTHING)
    return reader


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was made, which nobody sees again."""

    key: AccessKey
    principal: str
    expires_at_us: int


@dataclass(frozen=True, slots=True)
class AccessChanges:
    """Changes who may do what; each is on the record when its method returns.

    Every method raises `AccessRefused`, see `kernel/records/access/records.py`.
    """

    write: Write
    host: Host

    async def create_key(
        self,
        principal: str,
        grants: Sequence[Grant],
        days: int,
        decision: AccessDecision,
        *,
        replaces: str | None = None,
    ) -> NewKey:
        """Make a key, and give its principal roles."""
        key = new_key(self.host.random_bytes)
        unit = CreateKeyUnit(
            (key.key_id, key.secret_hash),
            principal,
            days * DAY_US,
            decision,
            tuple(grants),
            replaces=replaces,
        )
        return NewKey(key, principal, await self.write(unit))

    async def open_session(self, caller: Caller) -> AccessKey:
        """Make the key of a browser's session, which ends with the key that it was opened by."""
        return await self._open(caller.principal, caller.key_id)

    async def open_session_by_provider(self, principal: str, groups: Sequence[str]) -> AccessKey:
        """Make the key of a session that a provider vouches for, with the roles of its groups."""
        return await self._open(principal, " ".join((PROVIDER, *groups)))

    async def _open(self, principal: str, opened_by: str | None) -> AccessKey:
        key = new_key(self.host.random_bytes)
        unit = CreateKeyUnit(
            (key.key_id, key.secret_hash),
            principal,
            LOGIN_S * 1_000_000,
            AccessDecision(principal, "logged in"),
            opened_by=opened_by,
        )
        await self.write(unit)
        return key

    async def revoke_key(self, key_id: str, decision: AccessDecision) -> Sequence[str]:
        """End a key, and the sessions that were opened by it; return their ids."""
        ended: Sequence[str] = await self.write(RevokeKeyUnit(key_id, decision))
        return ended

    async def change_grant(self, granted: Grant, decision: AccessDecision, *, stands: bool) -> bool:
        """Give a principal a role, or end that; return whether anything changed."""
        changed: bool = await self.write(GrantUnit(granted, decision, stands))
        return changed

    async def record_first_owner(self, key: AccessKey) -> bool:
        """Record a key as an owner's where nobody is owner; False where somebody is."""
        owner = Grant("person:owner", "owner")
        created = CreateKeyUnit(
            (key.key_id, key.secret_hash),
            owner.principal,
            FIRST_OWNER_DAYS * DAY_US,
            AccessDecision("", "the first start with keys"),
            (owner,),
        )
        recorded: bool = await self.write(FirstOwnerUnit(created))
        return recorded
