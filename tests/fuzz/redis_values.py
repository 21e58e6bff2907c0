"""Hostile values for Redis, from a seed: whatever a stranger could leave at the keys of a fleet.

`hostile_values` is pure: the same seed and keys give the same commands. `inject` reads which keys
there are, so that live items, leases and jobs are hit too, and writes. Nothing here says what a
fleet must do with it, except that it must go on: no value here is a legitimate order, such as the
pause of a queue.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import ResponseError

QUEUES: Final = ("authority-recompute", "binding-evaluation", "extraction-transition")
RESOURCES: Final = (*QUEUES, "kernel:any", "binding_evaluation")
SHARDS: Final = range(8)
SCANNED_MAX: Final = 2000
"""Live keys that are looked at before values are written."""

BIG: Final = b"x" * (1 << 20)

Command = tuple[Any, ...]
Values = Iterator[tuple[str, tuple[Command, ...]]]
"""What is malformed, and the commands that write it."""


@dataclass(frozen=True, slots=True)
class Hostile:
    """One value that does not belong, and the commands that write it."""

    key: str
    malformation: str
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of a fleet as it ought to be."""

    name: str
    type: str
    names: tuple[bytes, ...] = ()
    """Members or fields that mean something there."""


JUNK: Final[dict[str, bytes]] = {
    "empty": b"",
    "not_utf8": b"\xff\xfe\x80",
    "surrogate": b"\xed\xa0\x80",
    "nul": b"a\0b",
    "not_a_number": b"seven",
    "nan": b"nan",
    "inf": b"inf",
    "negative": b"-7",
    "fraction": b"1.5",
    "hex": b"0x10",
    "exponent": b"1e400",
    "huge_number": b"9" * 400,
    "beyond_64_bits": b"18446744073709551616",
    "space": b" 1 ",
    "truncated_json": b'{"worker_id": "w", "queues": ["authori',
    "json_of_another_kind": b'[1, "two", null]',
    "json_null": b"null",
    "json_number": b"17",
    "json_unknown_fields": b'{"worker_id": "w-odd", "protocol": 9, "colour": "red"}',
    "json_wrong_types": b'{"worker_id": 7, "queues": 3, "slots": "many", "pid": null}',
    "json_nan": b'{"slots": NaN}',
    "deep_nesting": b"[" * 60_000,
    "huge_value": BIG,
    "another_version": b"v9\0\0\0\1",
}
SCORES: Final = (b"0", b"-1", b"inf", b"-inf", b"1e308", b"-1e308", b"9007199254740993", b"1.5")

_ITEM_FIELDS: Final = tuple(
    b"state rank deadline enqueued attempt payload token error cancelled stamp causes signature "
    b"died c:cause n:cause next_rank next_deadline next_enqueued next_payload next_causes".split()
)


_ODD_PACKED: Final = (
    b"1 3 1 1 1 0\n",
    b"1 3 1 1 0 0\n",
    b"1 3 1 1 9 9\nc",
    b"1 3 1 1 1 999\nc",
    b"1 7 1 1 1 0\nc{}",
    b"1 3 -1 1 1 0\nc{}",
    b"1 3 1 1 1 0 c{}",
    b"2 3 1 1 1 0\nc{}",
    b"1 3 1 1 2 1\n\xff\xfe\x80{}",
    b"1 4 999999999999999 999999999999999 1 3\nc\0\0\0",
    b"1 3 9999999999999999999 1 1 0\nc{}",
    b"1 3 1 1 1 0\nc" + b"x" * 70_000,
)
"""What nearly is a packed item."""


def _queue_keys(queue: str, item: str) -> list[_Key]:
    member = (item.encode(),)
    sets = [f"{name}:{rank}" for name in ("ready", "suspended") for rank in range(5)]
    return [
        _Key(f"rotulus:{{{queue}}}:{name}", kind, names)
        for name, kind, names in [
            *((name, "zset", member) for name in (*sets, "delayed", "in-flight", "dead")),
            ("paused", "hash", (b"some", b"7")),
            ("claims", "hash", member),
            (f"item:{item}", "hash", _ITEM_FIELDS),
            (f"item:{item}", "string", ()),
            (f"dead-item:{item}", "hash", _ITEM_FIELDS),
            ("sleeping", "string", ()),
            *((f"wake:{rank}", "list", ()) for rank in range(5)),
            *((name, "string", ()) for name in ("mark", "stamp", "clock")),
        ]
    ]


def _lease_keys(resource: str) -> list[_Key]:
    holder = (b"worker-0/1", b"gateway-0.1/2")
    return [
        _Key(f"rotulus:{{lease:{resource}}}:{name}", kind, holder)
        for name, kind in [
            ("expiries", "zset"),
            ("tokens", "hash"),
            ("holds", "hash"),
            *((f"waiting:{rank}", "zset") for rank in range(3)),
            ("fence", "string"),
            ("clock", "string"),
        ]
    ]


def fleet_keys(gateway: str = "a-gateway") -> list[_Key]:
    """Return the keys that every fleet has, whatever is in them now."""
    worker, name = (b"worker-0",), (gateway.encode(),)
    return [
        *(key for queue in QUEUES for key in _queue_keys(queue, "an-item")),
        *(key for resource in RESOURCES for key in _lease_keys(resource)),
        _Key("rotulus:{workers}:expiries", "zset", worker),
        _Key("rotulus:{workers}:seen", "hash", worker),
        _Key("rotulus:{workers}:beats", "hash", worker),
        _Key("rotulus:{workers}:clock", "string"),
        _Key("rotulus:{crons}:chain-audit:state", "string"),
        _Key("rotulus:{crons}:retention-sweep:0", "string"),
        _Key("rotulus:{gateways}:alive", "zset", name),
        _Key("rotulus:{gateways}:incarnations", "hash", name),
        _Key("rotulus:{gateways}:owners", "hash", tuple(b"%d" % shard for shard in SHARDS)),
        _Key("rotulus:{gateways}:table", "hash", (b"id", b"born")),
        _Key("rotulus:{gateways}:clock", "string"),
        *(_Key(f"rotulus:{{shard:{shard}}}:mail", "stream") for shard in SHARDS),
        *(_Key(f"rotulus:{{shard:{shard}}}:mailbox", "string") for shard in SHARDS),
        _Key(f"rotulus:{{gateway:{gateway}}}:inbox", "list"),
    ]


def _fill(key: str, kind: str, content: bytes) -> Command:
    """Return the command that adds content to a key of a type."""
    return {
        "string": ("SET", key, content),
        "list": ("RPUSH", key, content),
        "set": ("SADD", key, content),
        "hash": ("HSET", key, content or b"-", content),
        "zset": ("ZADD", key, "1", content),
        "stream": ("XADD", key, "*", content or b"-", content),
    }[kind]


def _wrong_types(key: _Key, _: random.Random) -> Values:
    for kind in ("string", "list", "set", "hash", "zset", "stream"):
        if kind != key.type:
            yield f"a_{kind}", (("DEL", key.name), _fill(key.name, kind, b"7"))


def _junk_of(key: _Key, chance: random.Random) -> Values:
    for kind, junk in JUNK.items():
        if key.type == "string":
            yield kind, (("SET", key.name, junk),)
        elif key.type == "list":
            yield kind, (("RPUSH", key.name, junk),)
        elif key.type == "zset":
            yield f"member_{kind}", (("ZADD", key.name, chance.choice(SCORES), junk),)
        elif key.type == "hash":
            yield f"value_{kind}", (("HSET", key.name, chance.choice(key.names), junk),)
            if not key.name.endswith(":paused"):
                yield (
                    f"field_{kind}",
                    (("HSET", key.name, junk, chance.choice(list(JUNK.values()))),),
                )
        elif key.type == "stream":
            fields = chance.choice([("body", junk), (junk, b"x"), ("mailbox", junk, "body", junk)])
            yield f"entry_{kind}", (("XADD", key.name, "*", *fields),)


def _odd_set(key: _Key) -> Values:
    for score in SCORES:
        for name in key.names:
            yield f"score_{score.decode()}", (("ZADD", key.name, score, name),)


def _odd_hash(key: _Key) -> Values:
    for name in key.names:
        yield f"without_{name.decode()}", (("HDEL", key.name, name),)
    many = [part for n in range(5000) for part in (b"c:%d" % n, b"%d" % n)]
    yield "many_fields", (("HSET", key.name, *many),)


def _odd_list(key: _Key) -> Values:
    for note in (b"m", b"mx", b"m-1", b"m" + b"9" * 40, b"l" * 9, b"r", b"r" + b"\0" * 80, b"z"):
        yield f"note_{note[:3].decode(errors='replace')}", (("RPUSH", key.name, note),)


def _odd_stream(key: _Key) -> Values:
    yield "id_far_ahead", (("XADD", key.name, "99999999999999-7", "body", b"x"),)
    yield "a_group", (("XGROUP", "CREATE", key.name, "g", "$", "MKSTREAM"),)
    yield "many_entries", tuple(("XADD", key.name, "*", "body", b"%d" % n) for n in range(300))
    yield "a_mailbox_without_a_body", (("XADD", key.name, "*", "mailbox", "0" * 16),)
    yield "doubled_fields", (("XADD", key.name, "*", "body", b"x", "body", b"y"),)


def _odd_string(key: _Key) -> Values:
    yield "gone", (("DEL", key.name),)
    if ":item:" in key.name:
        for number, packed in enumerate(_ODD_PACKED):
            yield f"packed_{number}", (("SET", key.name, packed),)


_ODD: Final[dict[str, Callable[[_Key], Values]]] = {
    "zset": _odd_set,
    "hash": _odd_hash,
    "list": _odd_list,
    "stream": _odd_stream,
    "string": _odd_string,
}


def _odd_of(key: _Key, _: random.Random) -> Values:
    yield from _ODD[key.type](key) if key.type in _ODD else ()
    yield "expires_at_once", (("PEXPIRE", key.name, 1),)


_KINDS: Final[tuple[Callable[..., Values], ...]] = (
    _wrong_types,
    _junk_of,
    _odd_of,
)


def all_hostile(keys: Sequence[_Key], seed: int = 0) -> list[Hostile]:
    """Return every malformation of every key."""
    chance = random.Random(seed)
    return [
        Hostile(key.name, label, commands)
        for key in keys
        for kind in _KINDS
        for label, commands in kind(key, chance)
    ]


def hostile_values(seed: int, count: int, live: Sequence[tuple[str, str]] = ()) -> list[Hostile]:
    """Return so many hostile values; `live` are names and types of keys that are there now."""
    chance = random.Random(seed)
    keys = [*fleet_keys(), *(_live_key(name, kind) for name, kind in live)]
    values: list[Hostile] = []
    while len(values) < count:
        key = chance.choice(keys)
        choices = list(chance.choice(_KINDS)(key, chance))
        if choices:
            label, commands = chance.choice(choices)
            values.append(Hostile(key.name, label, commands))
    return values


def _live_key(name: str, kind: str) -> _Key:
    if (":item:" in name or ":dead-item:" in name) and kind == "hash":
        return _Key(name, "hash", _ITEM_FIELDS)
    if name.endswith(":paused"):
        return _Key(name, "hash", (b"some",))
    return _Key(name, kind, (b"an-item", b"worker-0", b"a-gateway", b"0"))


async def live_keys(redis: Redis) -> list[tuple[str, str]]:
    """Return names and types of the keys that a fleet has now, in an order that is the same."""
    keys = []
    for pattern in ("rotulus:*", "arq:*"):
        async for key in redis.scan_iter(pattern, count=500):
            kind = (await redis.type(key)).decode()
            if kind != "none" and key.isascii():
                keys.append((key.decode(), kind))
            if len(keys) >= SCANNED_MAX:
                break
    return sorted(keys)


async def inject(redis: Redis, seed: int, count: int) -> list[Hostile]:
    """Write so many hostile values over what a fleet has in Redis, and return them."""
    values = hostile_values(seed, count, await live_keys(redis))
    for hostile in values:
        await write(redis, hostile)
    return values


async def write(redis: Redis, hostile: Hostile) -> None:
    """Write one value; what a server refuses (a score on a key of another type) is left out."""
    for command in hostile.commands:
        try:
            await redis.execute_command(*command)  # type: ignore[no-untyped-call]
        except ResponseError:
            continue
