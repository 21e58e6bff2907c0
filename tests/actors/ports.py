"""The ports of gateways that share sessions, in memory: leases, mailboxes, inboxes.

The suites of `tests/queues` hold them against Redis, so what is tested on them holds there as well.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import anyio

_numbers = count(1)


@dataclass(frozen=True)
class FakeLeaseTable:
    table_id: str
    gateways: frozenset[str]
    late: frozenset[str]
    owners: Mapping[int, str]
    settled: bool


@dataclass(frozen=True)
class Entry:
    mailbox_id: str
    offset: str
    body: bytes
    ends: int = 0
    clocks_differ: bool = False


@dataclass(frozen=True)
class FakeSetAside:
    shard: int
    offset: str
    bytes: int


@dataclass
class Heard:
    replies: list[bytes] = field(default_factory=list)
    mail_for: set[int] = field(default_factory=set)
    leases_changed: bool = False
    work_recorded: bool = False

    def __bool__(self) -> bool:
        return bool(self.replies or self.mail_for or self.leases_changed)


class Hub:
    """What all gateways reach, until it is flushed or cut off."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.reachable = True
        self.flush()

    def flush(self) -> None:
        self.table_id = f"table-{next(_numbers)}"
        self.born_ms = self.now_ms()
        self.alive: dict[str, int] = {}
        self.incarnations: dict[str, object] = {}
        self.owners: dict[int, str] = {}
        self.mail: dict[int, list[Entry]] = defaultdict(list)
        self.mailbox_ids: dict[int, str] = {}
        self.inboxes: dict[str, Heard] = defaultdict(Heard)
        self.taken: Counter[tuple[int, str]] = Counter()
        self.aside: dict[tuple[int, str], bytes] = {}

    def living(self) -> set[str]:
        now = self.now_ms()
        for name in [name for name, until in self.alive.items() if until <= now]:
            del self.alive[name]
            del self.incarnations[name]
        return set(self.alive)

    def tell(self, names: Collection[str]) -> None:
        for name in names:
            self.inboxes[name].leases_changed = True


class MemoryLeases:
    def __init__(self, hub: Hub, gateway: str, ttl_ms: int) -> None:
        self._hub = hub
        self._gateway = gateway
        self._ttl_ms = ttl_ms
        self._me = object()
        self._first = True

    async def beat(self, held: Collection[int]) -> FakeLeaseTable | None:
        hub, me = self._hub, self._gateway
        if not hub.reachable:
            return None
        living = hub.living()
        mine = self._first or hub.incarnations.get(me, self._me) is self._me
        before = (living, dict(hub.owners))
        if mine:
            hub.alive[me], hub.incarnations[me] = hub.now_ms() + self._ttl_ms, self._me
            living = {*living, me}
            for shard in held:
                if hub.owners.get(shard) not in living:
                    hub.owners[shard] = me
        if self._first or (living, hub.owners) != before:
            hub.tell(living - {me})
        self._first = False
        gateways = frozenset(living if mine else living - {me})
        age_ms = hub.now_ms() - hub.born_ms
        half_ms = hub.now_ms() + self._ttl_ms / 2
        late = frozenset(name for name in gateways if hub.alive.get(name, half_ms) < half_ms)
        is_settled = age_ms >= self._ttl_ms
        return FakeLeaseTable(hub.table_id, gateways, late, dict(hub.owners), is_settled)

    async def claim(self, shards: Collection[int]) -> Collection[int]:
        hub, me = self._hub, self._gateway
        living = hub.living()
        if not hub.reachable or me not in living or hub.incarnations[me] is not self._me:
            return set()
        leased = {shard for shard in shards if hub.owners.get(shard, me) not in living - {me}}
        if any(hub.owners.get(shard) != me for shard in leased):
            hub.tell(living - {me})
        hub.owners |= dict.fromkeys(leased, me)
        return leased

    async def release(self, shards: Collection[int]) -> None:
        hub, me = self._hub, self._gateway
        if hub.reachable and hub.incarnations.get(me) is self._me:
            for shard in shards:
                if hub.owners.get(shard) == me:
                    del hub.owners[shard]
            hub.tell(hub.living() - {me})

    async def tell(self, living: Collection[str]) -> None:
        if self._hub.reachable:
            self._hub.tell({*living} - {self._gateway})

    async def leave(self) -> None:
        hub, me = self._hub, self._gateway
        if hub.reachable and hub.incarnations.get(me) is self._me:
            await self.release([shard for shard, owner in hub.owners.items() if owner == me])
            hub.alive.pop(me, None)
            hub.incarnations.pop(me, None)


class MemoryMail:
    def __init__(self, hub: Hub, gateway: str, entries_max: int = 1024) -> None:
        self._hub = hub
        self._gateway = gateway
        self._entries_max = entries_max

    async def post(self, shard: int, ask_id: str, entry: bytes, owner: str) -> bool:
        assert ask_id
        hub = self._hub
        if not hub.reachable:
            raise ConnectionError
        if len(hub.mail[shard]) >= self._entries_max:
            return False
        mailbox_id = hub.mailbox_ids.setdefault(shard, f"mailbox-{next(_numbers)}")
        hub.mail[shard].append(Entry(mailbox_id, f"{next(_numbers):09d}", entry))
        hub.inboxes[owner].mail_for.add(shard)
        return True

    async def listen(self, timeout_s: float) -> Heard | None:
        if not self._hub.reachable:
            return None
        with anyio.move_on_after(timeout_s):
            while not self._hub.inboxes[self._gateway]:
                await anyio.sleep(0.001)
        return self._hub.inboxes.pop(self._gateway, Heard())

    async def read(
        self, cursors: Mapping[int, str], limit: int
    ) -> Mapping[int, Sequence[Entry]] | None:
        if not self._hub.reachable:
            return None
        taken = self._hub.taken
        by_shard = {
            shard: [
                replace(entry, ends=taken[shard, entry.offset])
                for entry in self._hub.mail[shard]
                if entry.offset > after
            ][:limit]
            for shard, after in cursors.items()
        }
        return {shard: entries for shard, entries in by_shard.items() if entries}

    async def delete(self, offsets: Mapping[int, Collection[str]]) -> bool:
        if self._hub.reachable:
            for shard, of_shard in offsets.items():
                mail = self._hub.mail[shard]
                mail[:] = [entry for entry in mail if entry.offset not in of_shard]
                for offset in of_shard:
                    self._hub.taken.pop((shard, offset), None)
        return self._hub.reachable

    async def take(self, offsets: Mapping[int, Collection[str]]) -> bool:
        return self._count(offsets, 1)

    async def give_back(self, offsets: Mapping[int, Collection[str]]) -> bool:
        return self._count(offsets, -1)

    def _count(self, offsets: Mapping[int, Collection[str]], by: int) -> bool:
        if self._hub.reachable:
            for shard, of_shard in offsets.items():
                for offset in of_shard:
                    self._hub.taken[shard, offset] += by
        return self._hub.reachable

    async def set_aside(self, shard: int, offset: str) -> None:
        [entry] = [entry for entry in self._hub.mail[shard] if entry.offset == offset]
        self._hub.aside[shard, offset] = entry.body
        await self.delete({shard: {offset}})

    async def put_back(self, shard: int, offset: str, owner: str | None) -> bool:
        body = self._hub.aside.pop((shard, offset), None)
        return body is not None and await self.post(shard, "again", body, owner or "")

    async def aside(self, shards: Collection[int]) -> list[FakeSetAside]:
        return [
            FakeSetAside(shard, offset, len(body))
            for (shard, offset), body in sorted(self._hub.aside.items())
            if shard in shards
        ]

    async def reply(self, replies: Mapping[str, Sequence[tuple[str, bytes]]]) -> bool:
        if self._hub.reachable:
            for gateway, answers in replies.items():
                self._hub.inboxes[gateway].replies.extend(answer for _, answer in answers)
        return self._hub.reachable
