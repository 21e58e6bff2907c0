"""Names the prefix of every key, and the type of every key of a fixed name.

A key begins with the prefix of the settings, then a room in braces: `rotulus:{workers}:seen`. The
braces are a hash tag, so a room lies on one node of a cluster. On a cluster the prefix ends with a
tag of its own, `rotulus:{rotulus}:{workers}:seen`: the first tag counts, so all rooms lie on one
node (decision queues/0090).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from redis.asyncio import Redis

URL_SCHEMES: Final = (
    *("redis", "rediss", "unix"),
    *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
)
"""How the URL of a Redis may begin; `redis/address.py` reads the rest."""

KEY_PREFIX: Final = "rotulus:"
KEY_PREFIX_PATTERN: Final = r"^[A-Za-z0-9_.:/-]{1,64}$"


_RANKS: Final = range(5)
_LEASE_RANKS: Final = range(3)

QUEUE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{f"ready:{rank}": "zset" for rank in _RANKS},
        **{f"suspended:{rank}": "zset" for rank in _RANKS},
        **dict.fromkeys(("delayed", "in-flight", "dead"), "zset"),
        **dict.fromkeys(("paused", "claims"), "hash"),
        **{f"wake:{rank}": "list" for rank in _RANKS},
        **dict.fromkeys(("stamp", "sleeping", "mark", "clock"), "string"),
    }
)
LEASE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "expiries": "zset",
        "tokens": "hash",
        "holds": "hash",
        **dict.fromkeys(("fence", "clock"), "string"),
        **{f"waiting:{rank}": "zset" for rank in _LEASE_RANKS},
    }
)
WORKERS: Final[Mapping[str, str]] = MappingProxyType(
    {"expiries": "zset", "seen": "hash", "beats": "hash", "clock": "string"}
)
GATEWAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alive": "zset",
        "incarnations": "hash",
        "owners": "hash",
        "table": "hash",
        "clock": "string",
    }
)
SHARD: Final[Mapping[str, str]] = MappingProxyType(
    {"mail": "stream", "mailbox": "string", "taken": "hash", "aside": "hash"}
)
INBOX: Final[Mapping[str, str]] = MappingProxyType({"inbox": "list"})
LEDGER: Final[Mapping[str, str]] = MappingProxyType({"owner": "string", "clock": "string"})

_OF_OTHERS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        **dict.fromkeys(("beat", "alive", "leave"), WORKERS),
        **dict.fromkeys(("gateway_beat", "shard_claim", "shard_release"), GATEWAYS),
        **dict.fromkeys(
            ("mail_post", "mail_read", "mail_set_aside", "mail_put_back", "mail_list_aside"), SHARD
        ),
        "inbox_take": INBOX,
        "watch": LEDGER,
        "mend": MappingProxyType({}),
    }
)


def key_types(script: str) -> Mapping[str, str]:
    """Return the keys that a script may rely on, by their name behind its prefix."""
    if script.startswith("lease_"):
        return LEASE
    return _OF_OTHERS.get(script, QUEUE)


def key_prefix_of(redis: "Redis") -> str:
    """Return what every key of a client begins with."""
    return str(getattr(redis, "key_prefix", KEY_PREFIX))


def prefix_of(redis: "Redis", name: str) -> str:
    """Return the prefix of a room's keys, of a name that may stand inside a hash tag."""
    return f"{key_prefix_of(redis)}{{{name}}}:"


def cluster_prefix(prefix: str) -> str:
    """Return a prefix under which all keys lie in one slot of a cluster."""
    return f"{prefix}{{{prefix.strip(':') or prefix}}}:"
